"""The page in a real browser."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from integration.shared_servers import SharedShop
from integration.shop import Shop
from selenium.webdriver import Keys
from selenium.webdriver.common.by import By
from support.instance.http_service import Http, listening
from support.instance.page import CHROMIUM, DRIVER, Page

from canal_group.actors.gateway.operator_requests import OperatorRequests

#: a folder for screenshots; those in docs/ were made with `CANAL_GROUP_SCREENSHOTS=docs make test ARGS=...`
SCREENSHOTS = "CANAL_GROUP_SCREENSHOTS"
#: a ring that some rows fill, and more rows than it takes
SMALL = {"mode": "items", "size": 16}
ROWS = 40

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="chromium and chromium-driver are not installed"
)


def shoot(page: Page, folder: Path, name: str) -> None:
    assert page.browser.save_screenshot(str(Path(os.environ.get(SCREENSHOTS, str(folder))) / f"{name}.png"))


def fits(page: Page) -> bool:
    """Whether nothing is wider than the screen."""
    width = page.browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    return bool(width[0] <= width[1])


@pytest.fixture
def called(served: SharedShop, tmp_path: Path) -> Iterator[Http]:
    with listening(served, tmp_path) as called:
        yield called


def test_an_operator_holds_stops_and_starts_and_others_only_look(
    served: SharedShop, called: Http, page: Page
):
    page.open(called.service.url)
    page.until_text("#role", "active on")
    page.until_text("#shards", r"(?s)s0.*s1")
    assert not page.find("#shards button").is_enabled(), "nobody has logged in"
    page.log_in("wrong", Keys.ENTER)
    page.until_text("#ask-text", "The token is unknown")
    assert not page.find("#shards button").is_enabled(), "a wrong token allows nothing"
    page.answer(go_on=False)
    page.until_text("#role", "active on")
    page.log_in(str(called.token), Keys.ENTER)
    page.press("[aria-label='hold s0']")
    page.answer(go_on=False)
    assert called.state()["group"]["shards"][0]["policy"] is None, "it was cancelled"
    page.press("[aria-label='hold s0']")
    page.answer()
    page.until_text("#shards tbody tr", "hold")
    page.until_text("#events", "shard s0: hold")
    page.press("[aria-label='resume s0']")
    page.answer()
    page.until(lambda: "resume" not in page.find("#shards").text, "the shard is as the settings say")
    with served.connect() as consumer:
        served.write(0, 1)
        batch = consumer.get_without_ack(timeout=60)
        page.until_text("#clients", rf"(?s)reader.*1 \({batch.rows} rows\)")
        consumer.ack(batch.batch_id)
        page.until_text("#clients", r"0 \(0 rows\)")
    page.press("[aria-label='remove reader']")
    page.answer()
    page.until(lambda: "reader" not in page.find("#clients").text, "the client is gone")
    page.press("#instance-actions button")
    page.answer("a disk is changed")
    page.until_text("#role", "stopped: .*a disk is changed")
    page.press("#instance-actions button")
    page.answer()
    page.until_text("#role", "active on")
    page.until_text("#events", "put back into service")


@pytest.mark.soak
def test_a_silent_shard_holds_the_group_and_the_page_says_which_and_why(
    served: SharedShop, called: Http, page: Page
):
    """1. Its source is paused: the group is held by it; 2. it is skipped, and the group goes on."""
    page.open(called.service.url)
    page.log_in(str(called.token))
    with served.connect() as consumer:
        page.press("[aria-label='hold s1']")
        page.answer()
        page.until_text("#shards", r"(?s)s1.*hold")
        pid = served.servers[1].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:

            def held() -> bool:
                served.write(0, 1)  # Others must have something that waits for it.
                return re.search(r"Held by shard s1 for [\d.]+ s: \w+", page.find("#held").text) is not None

            page.until(held, "the group is held")
            page.press("[aria-label='resume s1']")
            page.answer()
            page.press("[aria-label='skip s1']")
            page.answer()
            page.until_text("#events", "the group goes on without shard s1")
            page.until(lambda: page.find("#held").text == "", "nobody holds the group")
            served.write(0, 1)
            assert consumer.get_without_ack(timeout=60) is not None
        finally:
            os.kill(pid, signal.SIGCONT)
        page.press("[aria-label='resume s1']")
        page.answer()
        page.until_text("#events", "the group waits again for shard s1")


@pytest.mark.soak
def test_a_blocked_stream_is_the_first_that_the_page_says(shop: Shop, tmp_path: Path, page: Page):
    """1. `old` keeps a small ring full; 2. the first lines say so; 3. its removal frees the ring."""
    with shop.serve(store=SMALL, consumer={"lease_s": 1}) as instance:
        served = SharedShop(shop, instance, tmp_path)
        shop.connect(instance, client_id="old", keep=True).close()
        with listening(served, tmp_path) as called, shop.connect(instance, client_id="app") as app:
            shop.write(0, ROWS)
            rows = 0
            while (batch := app.get_without_ack(timeout=3)) is not None:
                app.ack(batch.batch_id)
                rows += batch.rows
            assert rows < ROWS
            page.browser.set_window_size(360, 900)
            page.open(called.service.url)
            page.until_text("#blocked", "client old")
            shoot(page, tmp_path, "page-blocked-narrow")
            assert fits(page), "nothing is wider than the screen"
            page.browser.set_window_size(1280, 1500)
            shoot(page, tmp_path, "page-blocked")
            said = page.find("main").text.splitlines()
            command = f"canal-group client remove -d {shop.destination} old"
            assert re.fullmatch(
                r"s0 waits: ring full, kept for client old \(no consumer for \d+ s\)", said[0]
            )
            assert said[1:3] == [command, shop.destination]
            assert page.find("#clients tbody tr").text.startswith("old")
            page.log_in(str(called.token))
            page.press("[aria-label='remove old']")
            page.answer()
            while rows < ROWS:
                batch = app.get_without_ack(timeout=60)
                assert batch is not None, "the stream is free"
                app.ack(batch.batch_id)
                rows += batch.rows
            page.until(lambda: not page.find("#blocked").is_displayed(), "nothing is blocked")
            page.open("about:blank")


@pytest.mark.soak
def test_the_page_survives_a_restarted_gateway_and_service(served: SharedShop, tmp_path: Path, page: Page):
    with listening(served, tmp_path) as called:
        page.open(called.service.url)
        page.until_text("#facts", served.instance.uri)
        pid = called.state()["gateway"]["pid"]
        os.kill(pid, signal.SIGKILL)
        page.until(lambda: called.state()["gateway"].get("pid") not in (None, pid), "the gateway is back")
        page.until_text("#facts", served.instance.uri)
        port = int(called.service.url.rpartition(":")[2])
    page.until_text("#trouble", "does not answer")
    with listening(served, tmp_path, port=port):
        page.until(lambda: not page.find("#trouble").is_displayed(), "the page goes on")
    assert any("ERR_CONNECTION_REFUSED" in each for each in page.errors()), "only the browser's own complaint"


def test_of_64_shards_those_in_trouble_come_first(called: Http, page: Page, monkeypatch: pytest.MonkeyPatch):
    """The states of two real shards under 64 names: two of them stopped, one whose ring is full."""
    ask = OperatorRequests.status

    def many(requests: OperatorRequests) -> dict[str, Any]:
        state = ask(requests)
        shards = state["shards"]
        why = "ring full, kept for client old (no consumer for 9 s); canal-group client remove -d shop old"
        full = [
            {"shard": f"db{number}", "clients": ["old"], "why": f"db{number} waits: {why}"}
            for number in range(17, 22)
        ]
        return {
            **state,
            "group": {**state["group"], "full_rings": full},
            "shards": [_named(shards[number % 2], number) for number in range(64)],
        }

    monkeypatch.setattr(OperatorRequests, "status", many)
    page.browser.set_window_size(360, 900)
    page.open(called.service.url)
    page.until_text("#blocked", "old")
    assert page.find("main").text.splitlines()[:2] == [
        "db17, db18, db19 and 2 more wait: ring full, kept for client old (no consumer for 9 s)",
        "canal-group client remove -d shop old",
    ]
    page.until_text("#shards-count", "64 shards: 2 not streaming, 1 with a full ring")
    names = "return [...document.querySelectorAll('#shards tbody tr')].map((row) => row.dataset.key)"
    shown = page.browser.execute_script(names)
    assert shown[:4] == ["db40", "db63", "db17", "db0"]
    assert len(shown) == 64
    page.until(lambda: len(page.lines("#plot-rows")) == 8, "as many lines as colours")
    assert page.find("#legend").text.splitlines()[:3] == ["■ db40", "■ db63", "■ db17"]
    page.until_text("#legend", "56 others")
    assert fits(page), "nothing is wider than the screen"
    page.find("#shards-search").send_keys("db5")
    page.until(lambda: len(page.browser.execute_script(names)) == 11, "those that are searched for")
    page.until(lambda: "db40" not in page.find("#legend").text, "their lines")
    page.browser.set_window_size(1280, 1500)


def _named(shard: dict[str, Any], number: int) -> dict[str, Any]:
    changes: dict[str, Any] = {"shard": f"db{number}"}
    if number in (40, 63):
        changes |= {"state": "stopped", "error": "Its binlog was purged."}
    if number == 17:
        changes["ring"] = {**shard["ring"], "full": True}
    return {**shard, **changes}


@pytest.mark.soak
def test_nothing_shifts_on_narrow_screens_and_keys_reach_everything(called: Http, page: Page):
    page.browser.set_window_size(360, 900)
    page.open(called.service.url)
    page.until_text("#shards", "s1")
    page.until(lambda: page.lines("#plot-lag"), "a line")
    assert fits(page), "nothing is wider than the screen"
    before = page.browser.execute_script(
        "return document.querySelector('#shards').getBoundingClientRect().top"
    )
    page.until(lambda: max(page.lines("#plot-lag").values()) > 3, "samples")
    after = page.browser.execute_script(
        "return document.querySelector('#shards').getBoundingClientRect().top"
    )
    assert before == after
    page.find("body").send_keys(Keys.TAB)
    assert page.browser.switch_to.active_element.text == "Skip to content"
    page.browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert page.browser.switch_to.active_element.get_attribute("id") == "content"
    assert page.browser.execute_script("return location.hash") == "", "the instance stays"
    page.find("#login").send_keys(Keys.ENTER)
    page.until(lambda: page.find("#ask").get_attribute("open") is not None, "the dialog")
    assert page.browser.switch_to.active_element.get_attribute("id") == "ask-input"
    page.browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    page.until(lambda: page.find("#ask").get_attribute("open") is None, "the dialog closes")
    page.browser.set_window_size(1280, 1500)


def test_the_log_is_shown_while_it_is_open_and_markup_in_it_is_text(
    served: SharedShop, called: Http, page: Page
):
    log = logging.getLogger("canal_group.actors.shard.intake")
    log.error("<b>stopped</b>", extra={"destination": served.destination, "shard": "s1"})
    page.open(called.service.url)
    page.until_text("#role", "active on")
    assert page.find("#log-lines").text == ""
    page.press("#log summary")
    page.until_text("#log-lines", r"ERROR\s+shard s1: <b>stopped</b>")
    log.error("again", extra={"destination": served.destination})
    page.until_text("#log-lines li:first-child", "again")


@pytest.mark.soak
def test_the_demo_shows_four_moving_lines(page: Page, tmp_path: Path):
    command = [sys.executable, "-m", "playground", "--seconds", "60"]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert demo.stdout is not None
        said = next(found for line in demo.stdout if (found := re.search(r"http://[\d.:]+", line)))
        page.open(said.group())
        page.until(
            lambda: len(page.browser.find_elements(By.CSS_SELECTOR, "#shards tbody tr")) == 4, "shards"
        )

        def moving() -> bool:
            lines = page.lines("#plot-rows")
            return lines.keys() == {"0", "1", "2", "3"} and min(lines.values()) > 15

        page.until(moving, "four lines")
        for scheme in ("light", "dark"):
            page.browser.execute_cdp_cmd(
                "Emulation.setEmulatedMedia",
                {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
            )
            shoot(page, tmp_path, f"page-{scheme}")
        page.browser.set_window_size(420, 1500)
        shoot(page, tmp_path, "page-narrow")
        page.browser.set_window_size(1280, 1500)
        page.open("about:blank")
    finally:
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=60)
