"""Lines that strangers cause: so many in a period, each so long, and how many were left out."""

import subprocess
import sys

import pytest

from canal_group.actors.process.stranger_log import CHARS_MAX, LINES_MAX, PERIOD_S, stranger_log


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


def test_lines_are_bounded_in_number_and_length(caplog):
    clock = Clock()
    log = stranger_log("strangers.one", clock)
    assert stranger_log("strangers.one") is log
    for number in range(LINES_MAX + 7):
        log.warning("no %d %s", number, "x" * 10_000)
    assert len(caplog.messages) == LINES_MAX
    assert caplog.messages[0].startswith("no 0 xxx")
    assert max(map(len, caplog.messages)) < CHARS_MAX + 100
    clock.now_s += PERIOD_S
    log.warning("%s", "again")
    log.warning("100 %")
    assert caplog.messages[LINES_MAX:] == ["again (7 lines like this were left out before it)", "100 %"]


@pytest.mark.parametrize("name", ["asyncio", "uvicorn.error"])
def test_libraries_that_log_what_strangers_send_are_bounded(name):
    script = (
        "import logging; from canal_group.actors.process.log import LogSettings, set_up_log;"
        " set_up_log(LogSettings());"
        f"[logging.getLogger('{name}').warning('Invalid HTTP request received.') for _ in range(50)]"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert len(done.stderr.splitlines()) == LINES_MAX
