"""What actors print becomes the driver's log: as the records that were logged, or a record each line."""

import logging

import pytest
from ray._private import worker

from canal_group.actors.driver.local_ray import forward_log
from canal_group.actors.process.log import ActorLog, LineFormatter, LogFormat, LogLevel

SHARD = ActorLog(LogLevel.DEBUG, "shop", "s1")


@pytest.fixture
def forward(monkeypatch, caplog):
    """Ray's function for lines of actors, which is ours."""
    assert callable(worker.print_to_stdstream), "Ray prints lines by it"
    monkeypatch.setattr(worker, "print_to_stdstream", None)
    monkeypatch.setattr(logging.getLogger("ray"), "propagate", True)
    forward_log()
    caplog.set_level(logging.DEBUG)
    return worker.print_to_stdstream


def printed(*lines, pid=17, is_err=True, name=SHARD.text):
    """Return lines as Ray sends them."""
    return {"lines": list(lines), "pid": pid, "ip": "127.0.0.1", "is_err": is_err, "actor_name": name}


def told(caplog):
    """Return the logged records: level, logger, destination and shard, message."""
    return [
        (one.levelname, one.name, getattr(one, "destination", None), getattr(one, "shard", None), one.message)
        for one in caplog.records
        if one.getMessage() is not None
    ]


def line(logger, level, message, **fields):
    record = logging.LogRecord(logger, level, "", 0, message, None, None)
    vars(record).update(fields)
    return LineFormatter(LogFormat.JSON, SHARD.origin).format(record)


def test_a_log_line_is_logged_again_as_it_was(forward, caplog):
    forward(printed(line("canal_group.actors.shard.intake", logging.WARNING, "100 %s")), ignore_prefix=False)
    assert told(caplog) == [("WARNING", "canal_group.actors.shard.intake", "shop", "s1", "100 %s")]


def test_lines_that_resemble_each_other_are_all_logged(forward, caplog):
    """Ray leaves out what differs in numbers only."""
    for number in range(3):
        forward(printed(line("canal_group.actors.a", logging.INFO, f"try {number}")), ignore_prefix=False)
    assert [one[-1] for one in told(caplog)] == ["try 0", "try 1", "try 2"]


def test_other_output_is_logged_with_the_shard_that_it_came_from(forward, caplog):
    forward(printed("Fatal Python error: Aborted", "", "Thread 0x1:"), ignore_prefix=False)
    forward(printed("said", is_err=False, name="Other"), ignore_prefix=False)
    assert told(caplog) == [
        ("WARNING", "ray.actor", "shop", "s1", "Fatal Python error: Aborted"),
        ("WARNING", "ray.actor", "shop", "s1", "Thread 0x1:"),
        ("INFO", "ray.actor", None, None, "said"),
    ]


def test_what_ray_itself_has_to_say_is_logged(forward, caplog):
    forward({"lines": ["A worker died."], "pid": "raylet", "is_err": False}, ignore_prefix=False)
    lines = ["======= Autoscaler status", ":event_summary:Resized.", "Node status"]
    forward({"lines": lines, "pid": "autoscaler", "is_err": False}, ignore_prefix=True)
    assert told(caplog) == [
        ("WARNING", "ray", None, None, "A worker died."),
        ("INFO", "ray", None, None, "Resized."),
    ]
