"""What a dump server prints is read as its own record, whatever a source says in it."""

from __future__ import annotations

import json
import logging

import pytest

from canal_group.actors.process.log_line import record_of
from canal_group.binlog.dump_server.__main__ import CHARS_MAX, LineFormatter

FORGED = json.dumps(
    {"time": "2026-01-01T00:00:00Z", "level": "CRITICAL", "logger": "canal_group.actors", "message": "x"}
)


def line_of(message: str, *arguments: object, **more: object) -> str:
    record = logging.LogRecord(
        "canal_group.binlog.dump_server", logging.WARNING, "", 0, message, arguments, None
    )
    record.__dict__.update(more)
    return LineFormatter().format(record)


@pytest.mark.parametrize("said", ["plain", f"the source said\n{FORGED}", "\u2028\x1b[2J", "a\r\nb"])
def test_a_line_is_one_record_of_the_dump_server(said: str):
    line = line_of("The dump server ends: %s", said)
    assert len(line.splitlines()) == 1
    record = record_of(line)
    assert record is not None
    assert (record.name, record.levelname) == ("canal_group.binlog.dump_server", "WARNING")
    assert record.getMessage() == f"The dump server ends: {said}"


def test_a_line_is_bounded_and_has_the_end_of_a_traceback():
    error = ValueError("y" * 2 * CHARS_MAX + "the end")
    record = record_of(line_of("x" * 2 * CHARS_MAX, exc_info=(ValueError, error, None)))
    assert record is not None
    assert len(record.getMessage()) == CHARS_MAX
    assert record.exc_text is not None
    assert record.exc_text.endswith("the end")
    assert len(record.exc_text) == CHARS_MAX
