"""The log of a process: one handler on stderr, and one format for everything that is logged."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Any, TextIO

from canal_group.actors.process.log_line import FIELDS, entry_of, json_line, text_line
from canal_group.actors.process.stranger_log import stranger_log

#: whose loggers have the chosen level; others log warnings at most, for they may show what they send
_OURS = "canal_group"
#: loggers of libraries that log what a listener's callers send
_OF_STRANGERS = ("asyncio", "uvicorn.error")
_log = logging.getLogger(__name__)


class LogFormat(StrEnum):
    """How a line looks."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The least severe level that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def number(self) -> int:
        """The level as `logging` numbers it."""
        return logging.getLevelNamesMapping()[self.upper()]


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How a process logs."""

    format: LogFormat = LogFormat.TEXT
    level: LogLevel = LogLevel.INFO


@dataclass(frozen=True, slots=True)
class ActorLog:
    """How an actor logs: in JSON, whatever the server's format is; the server writes it in that."""

    level: LogLevel
    #: None: it is of all destinations
    destination: str | None = None
    #: None: it is not a shard's
    shard: str | None = None

    def set_up(self) -> None:
        """Let this process log so."""
        set_up_log(LogSettings(LogFormat.JSON, self.level), **self.origin)

    @property
    def origin(self) -> dict[str, str]:
        """Fields that all records of the actor have."""
        fields = {"destination": self.destination, "shard": self.shard}
        return {field: value for field, value in fields.items() if value}

    @property
    def text(self) -> str:
        """The origin as a text, for an actor's `__repr__`: Ray sends it along with what the actor prints."""
        return " ".join(f"{field}={value}" for field, value in self.origin.items())


def origin_of(text: str) -> dict[str, str]:
    """Return the fields of an `ActorLog.text`; none for any other text."""
    pairs = [word.partition("=") for word in text.split(" ")]
    return {field: value for field, _, value in pairs if field in FIELDS and value}


class LineFormatter(logging.Formatter):
    """Formats records as `canal_group.actors.process.log_line` says.

    Args:
        log_format: text or JSON.
        origin: fields that all records of this process have, unless they say otherwise.
    """

    def __init__(self, log_format: LogFormat, origin: Mapping[str, Any]) -> None:
        super().__init__()
        self._line = json_line if log_format is LogFormat.JSON else text_line
        self._origin = dict(origin)

    def format(self, record: logging.LogRecord) -> str:
        """Return a record's line."""
        return self._line(entry_of(record, self._origin))


class StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to what `sys.stderr` is at the time: a progress display may have replaced it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record's line."""
        self.stream = sys.stderr
        super().emit(record)


def set_up_log(settings: LogSettings, **origin: str) -> None:
    """Let everything of this process be logged to stderr in one format, warnings and ends of threads too.

    Args:
        settings: format and level.
        origin: `destination` and `shard` of this process, if it is of one.
    """
    root = logging.getLogger()
    for handler in root.handlers:
        if isinstance(handler, StderrHandler):
            root.removeHandler(handler)
    made = StderrHandler()
    made.setFormatter(LineFormatter(settings.format, origin))
    made.setLevel(settings.level.number)
    root.addHandler(made)
    root.setLevel(max(settings.level.number, logging.WARNING))
    logging.getLogger(_OURS).setLevel(settings.level.number)
    for name in _OF_STRANGERS:
        stranger_log(name)
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_end_of_thread


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _log.critical("the process ends with an unexpected error", exc_info=(kind, error, trace))


def _log_end_of_thread(ended: threading.ExceptHookArgs) -> None:
    if ended.exc_value is None or isinstance(ended.exc_value, SystemExit):
        return
    name = ended.thread.name if ended.thread is not None else "unknown"
    _log.critical(
        "thread %s ended with an unexpected error",
        name,
        exc_info=(ended.exc_type, ended.exc_value, ended.exc_traceback),
    )
