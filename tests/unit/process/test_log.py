"""Lines of the log: what each says, that it is one line, and that its record can be had back from it."""

import json
import logging
import re
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from canal_group.actors.process.log import ActorLog, LineFormatter, LogFormat, LogLevel, origin_of
from canal_group.actors.process.log_line import EXCEPTION_CHARS_MAX, MESSAGE_CHARS_MAX, record_of

TIME_S = datetime(2026, 1, 31, 12, 0, 0, 123_456, UTC).timestamp()


def made(message, *arguments, level=logging.INFO, error=None, **fields):
    """Return a record."""
    exc_info = (type(error), error, error.__traceback__) if error is not None else None
    record = logging.LogRecord(
        "canal_group.actors.shard.intake", level, "intake.py", 1, message, arguments, exc_info
    )
    record.created = TIME_S
    vars(record).update(fields)
    return record


def line(record, log_format=LogFormat.JSON, **origin):
    return LineFormatter(log_format, origin).format(record)


def raised(text):
    def fail():
        raise ValueError(text)

    with pytest.raises(ValueError, match=re.escape(text)) as caught:
        fail()
    return caught.value


def test_a_json_line_has_every_field_that_applies_and_no_other():
    record = made("connected to %s", "10.0.0.1:3306", shard="s1", epoch=3)
    assert json.loads(line(record, destination="shop")) == {
        "time": "2026-01-31T12:00:00.123456Z",
        "level": "INFO",
        "logger": "canal_group.actors.shard.intake",
        "message": "connected to 10.0.0.1:3306",
        "destination": "shop",
        "shard": "s1",
        "epoch": 3,
    }
    assert set(json.loads(line(made("x")))) == {"time", "level", "logger", "message"}


def test_a_record_says_more_than_its_process():
    record = json.loads(line(made("x", shard="s1"), destination="shop", shard="s0"))
    assert (record["destination"], record["shard"]) == ("shop", "s1")


def test_a_text_line_names_what_it_is_about_before_the_message():
    record = made("lost", level=logging.WARNING, client="1001")
    assert line(record, LogFormat.TEXT, destination="shop") == (
        "2026-01-31T12:00:00.123456Z WARNING canal_group.actors.shard.intake"
        " destination=shop client=1001: lost"
    )


@pytest.mark.parametrize("log_format", LogFormat)
def test_a_message_cannot_begin_another_line_or_command_a_terminal(log_format):
    text = line(made("a\n2026 ERROR forged\r\x1b[31mred\x85\u2028x"), log_format, destination="shop\nforged")
    assert text.isprintable()
    assert len(text.splitlines()) == 1


def test_a_traceback_is_part_of_a_json_line_and_indented_in_text():
    record = made("failed", error=raised("why\nnot"))
    assert json.loads(line(record))["exception"].endswith("ValueError: why\nnot")
    first, *others = line(made("failed", error=raised("why")), LogFormat.TEXT).splitlines()
    assert first.endswith(": failed")
    assert others
    assert all(other.startswith("  ") for other in others)


def test_lines_are_bounded_and_say_what_they_leave_out():
    record = json.loads(line(made("x" * (MESSAGE_CHARS_MAX + 7), error=raised("y" * EXCEPTION_CHARS_MAX))))
    assert record["message"] == "x" * MESSAGE_CHARS_MAX + "... (7 characters more)"
    assert record["exception"].startswith("(")
    assert record["exception"].endswith("yyy")
    assert len(record["exception"]) < EXCEPTION_CHARS_MAX + 100


def test_a_wrong_log_call_is_a_line_and_no_error():
    assert "%d of x (not formatted: TypeError" in json.loads(line(made("%d of x", "one")))["message"]


def test_a_record_that_went_through_a_line_says_the_same():
    before = made("100 %s", "%d", error=raised("why"), level=logging.ERROR, shard="s1", epoch=4, client="7")
    after = record_of(line(before, destination="shop"))
    assert after is not None
    for log_format in LogFormat:
        assert line(after, log_format) == line(before, log_format, destination="shop")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Fatal Python error: Segmentation fault",
        '{"time": ',
        '{"time": 1, "level": "INFO", "logger": "a", "message": "b"}',
        '{"time": "yesterday", "level": "INFO", "logger": "a", "message": "b"}',
        '{"time": "2026-01-31T12:00:00Z", "level": "LOUD", "logger": "a", "message": "b"}',
        '{"time": "2026-01-31T12:00:00Z", "level": "INFO", "logger": "a"}',
        '{"time": "2026-01-31T12:00:00Z", "level": [], "logger": "a", "message": "b"}',
    ],
)
def test_a_foreign_line_is_not_a_record(text):
    assert record_of(text) is None


def test_an_actors_origin_can_be_had_back_from_its_text():
    shard = ActorLog(LogLevel.INFO, "shop", "s-1.a")
    assert origin_of(shard.text) == shard.origin == {"destination": "shop", "shard": "s-1.a"}
    group = ActorLog(LogLevel.INFO, "shop")
    assert origin_of(group.text) == group.origin == {"destination": "shop"}
    assert origin_of("ShardActor") == origin_of("<Actor pid=1 of=x>") == {}


#: what a process logs, and how it ends
PROGRAM = """
import logging, sys, threading, warnings
from canal_group.actors.process.log import *
set_up_log(LogSettings(LogFormat.JSON, LogLevel(sys.argv[1])), destination="shop")
set_up_log(LogSettings(LogFormat.JSON, LogLevel(sys.argv[1])), destination="shop")
for name in ("canal_group.actors.a", "pymysql.a"):
    for level in ("debug", "info", "warning", "error"):
        getattr(logging.getLogger(name), level)("%s of %s", level, name)
logging.getLogger("canal_group.actors.loud").setLevel(logging.DEBUG)
logging.getLogger("canal_group.actors.loud").debug("loud")
warnings.warn("old")
thread = threading.Thread(target=lambda: 1 / 0, name="worker")
thread.start()
thread.join()
raise RuntimeError("the end")
"""


def run(level):
    """Return the records of a process with a log level; every line is JSON."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, level], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_every_output_of_a_process_is_a_line_written_once():
    """Ours from the chosen level on, others' warnings, Python's, and the ends of threads and process."""
    records = run("info")
    assert [one["message"] for one in records[:5]] == [
        "info of canal_group.actors.a",
        "warning of canal_group.actors.a",
        "error of canal_group.actors.a",
        "warning of pymysql.a",
        "error of pymysql.a",
    ]
    warned, thread, process = records[5:]
    assert "UserWarning: old" in warned["message"]
    assert "thread worker ended" in thread["message"]
    assert "ZeroDivisionError" in thread["exception"]
    assert "RuntimeError: the end" in process["exception"]
    assert {one["destination"] for one in records} == {"shop"}


def test_the_level_applies_to_ours_and_no_logger_goes_below_it():
    debug, error = ([one["message"] for one in run(level)] for level in ("debug", "error"))
    assert "debug of canal_group.actors.a" in debug
    assert "debug of pymysql.a" not in debug, "a driver's debug lines may have what it sends"
    assert "info of pymysql.a" not in debug
    assert error[:2] == ["error of canal_group.actors.a", "error of pymysql.a"]
    assert "loud" not in error
