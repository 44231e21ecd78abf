"""The page in a real browser."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait
from support.soak import patient

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
#: seconds that the page may take to show something
WAIT_S = patient(30.0)


class Page:
    """A browser that shows the page."""

    def __init__(self, browser: Chrome) -> None:
        self.browser = browser

    def open(self, url: str) -> None:
        self.browser.get(url)

    def find(self, selector: str) -> Any:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def until(self, seen: Any, what: str) -> Any:
        # The page replaces what has changed, also between finding an element and looking at it.
        wait = WebDriverWait(self.browser, WAIT_S, ignored_exceptions=[StaleElementReferenceException])
        return wait.until(lambda _: seen(), f"never seen: {what}")

    def until_text(self, selector: str, pattern: str) -> str:
        def matches() -> str:
            text = self.find(selector).text
            return text if re.search(pattern, text) else ""

        return self.until(matches, f"{pattern} in {selector}")

    def press(self, selector: str) -> None:
        def pressed() -> bool:
            found = self.find(selector)
            enabled: bool = found.is_enabled()
            if enabled:
                found.click()
            return enabled

        self.until(pressed, f"{selector} can be pressed")

    def answer(self, text: str | None = None, *, go_on: bool = True, key: str = "") -> None:
        """Answer the dialog, by a button or by a key in its field."""
        self.until(lambda: self.find("#ask").get_attribute("open") is not None, "the dialog")
        if text is not None:
            field = self.find("#ask-input")
            field.clear()
            field.send_keys(text + key)
            if key:
                return
        (self.find("#ask-ok") if go_on else self.find("#ask-cancel")).click()
        self.until(lambda: self.find("#ask").get_attribute("open") is None, "the dialog closes")

    def lines(self, selector: str) -> dict[str, int]:
        """Return how many points each series of a plot has; at once, because each second draws it anew."""
        lines = f"[...document.querySelectorAll('{selector} polyline')]"
        found = self.browser.execute_script(
            f"return {lines}.map((line) => [line.dataset.series, line.points.length])"
        )
        return {series: max(count for name, count in found if name == series) for series, _ in found}

    def log_in(self, token: str, key: str = "") -> None:
        self.press("#login")
        self.answer(token, key=key)

    def errors(self) -> list[str]:
        """What the browser complains of, but for refusals, which it logs as well."""
        found = [str(entry["message"]) for entry in self.browser.get_log("browser")]
        return [each for each in found if "the server responded with a status of" not in each]


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    options = ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,1500"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = Chrome(options, ChromeService(str(DRIVER)))
    yield browser
    browser.quit()


@pytest.fixture
def page(browser: Chrome) -> Iterator[Page]:
    page = Page(browser)
    yield page
    errors = page.errors()
    browser.get("about:blank")
    assert not errors
