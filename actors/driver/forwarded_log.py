"""The forwarded log: what the actors print, logged once by their driver, with the shard that it came from.

Ray writes what an actor prints into files of its session, sends the lines to the driver, and there prints
them with a prefix of its own, leaving out lines that resemble each other. Here they are logged instead. An
actor's log lines are JSON (`ActorLog`) and become the records that they were. Everything else,
such as the last words of an interpreter that crashes, or Ray's own, becomes a record each line. The driver
loses lines that arrive after it has left Ray; the session's files have them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ray._private import worker
from ray._private.ray_constants import LOG_PREFIX_EVENT_SUMMARY

from canal_group.actors.process.log import origin_of
from canal_group.actors.process.log_line import record_of

#: the function by which Ray prints what actors, and raylets, have to say; ours replaces it
_PRINTS = "print_to_stdstream"
#: loggers of what is not a log line: an actor's output, and what else of Ray has something to say
_ACTOR, _RAY = "ray.actor", "ray"


def forward_log() -> None:
    """Log what actors print, from the next time on that this process connects to Ray."""
    setattr(worker, _PRINTS, _forward)


def _forward(data: Mapping[str, Any], *_: Any, **__: Any) -> None:
    """Log lines as Ray sends them: `lines`, `pid`, `is_err`, and of an actor `actor_name`, its `__repr__`."""
    who = str(data.get("pid"))
    if who == "autoscaler":
        # Of a process that repeats its state every few seconds, Ray marks what is news.
        news = (line.partition(LOG_PREFIX_EVENT_SUMMARY) for line in data["lines"])
        lines = [after for _, mark, after in news if mark]
    else:
        lines = data["lines"]
    logger = _ACTOR if who.isdecimal() else _RAY
    level = logging.WARNING if data.get("is_err") or who == "raylet" else logging.INFO
    origin = origin_of(data.get("actor_name") or "")
    for line in lines:
        record = record_of(line)
        if record is None:
            if not line.strip():
                continue
            record = logging.LogRecord(logger, level, "", 0, line, None, None)
        for field, value in origin.items():
            if not hasattr(record, field):
                setattr(record, field, value)
        logging.getLogger(record.name).handle(record)
