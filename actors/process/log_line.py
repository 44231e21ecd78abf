"""A line of the log: a record as a line of text for people, or as one JSON object for machines, and back.

A JSON line has `time` (ISO 8601, UTC, with microseconds), `level`, `logger` and `message`, where they apply
`destination`, `shard`, `client` and `epoch`, and after an unexpected error `exception`, its traceback. Every
line is bounded. A message cannot end its line: what it has of control characters is written as escapes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from canal_group.merge.printable import escaped

#: fields of a record, passed as `extra`, that say what it is about
FIELDS = ("destination", "shard", "client", "epoch")
#: characters of a message
MESSAGE_CHARS_MAX = 8_192
#: characters of a traceback
EXCEPTION_CHARS_MAX = 32_768

_PLAIN = logging.Formatter()


def entry_of(record: logging.LogRecord, origin: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record as a JSON object.

    Args:
        record: of `logging`.
        origin: fields of the process that a record may leave out.
    """
    entry: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds")[:-6] + "Z",
        "level": record.levelname,
        "logger": record.name,
        "message": _cut(_message(record), MESSAGE_CHARS_MAX),
    }
    for field in FIELDS:
        value = getattr(record, field, None)
        value = origin.get(field) if value is None else value
        if value is not None:
            entry[field] = value
    if record.exc_info and not record.exc_text:
        record.exc_text = _PLAIN.formatException(record.exc_info)
    if record.exc_text:
        # The end of a traceback says what happened.
        entry["exception"] = _cut_begin(record.exc_text, EXCEPTION_CHARS_MAX)
    return entry


def json_line(entry: Mapping[str, Any]) -> str:
    """Return an entry as one line of JSON, in ASCII."""
    return json.dumps(entry, default=str)


def text_line(entry: Mapping[str, Any]) -> str:
    """Return an entry as a line for people; a traceback follows in lines of its own."""
    about = "".join(f" {field}={escaped(str(entry[field]))}" for field in FIELDS if field in entry)
    line = f"{entry['time']} {entry['level']} {entry['logger']}{about}: {escaped(entry['message'])}"
    if "exception" in entry:
        line += "".join(f"\n  {escaped(each)}" for each in entry["exception"].splitlines())
    return line


def record_of(line: str) -> logging.LogRecord | None:
    """Return the record that `json_line` wrote as a line; None if the line is something else."""
    if not line.startswith('{"time": '):
        return None
    try:
        entry = json.loads(line)
        created_s = datetime.fromisoformat(entry["time"]).timestamp()
        level = logging.getLevelNamesMapping()[entry["level"]]
        name, message = str(entry["logger"]), str(entry["message"])
    except (ValueError, TypeError, KeyError):
        return None
    # Without arguments: a message is not formatted again.
    record = logging.LogRecord(name, level, "", 0, message, None, None)
    record.created = created_s
    record.exc_text = entry.get("exception")
    for field in FIELDS:
        if field in entry:
            setattr(record, field, entry[field])
    return record


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001  a log call that is wrong must not end its caller
        return f"{record.msg} (not formatted: {error!r})"


def _cut(text: str, chars_max: int) -> str:
    if len(text) <= chars_max:
        return text
    return f"{text[:chars_max]}... ({len(text) - chars_max} characters more)"


def _cut_begin(text: str, chars_max: int) -> str:
    if len(text) <= chars_max:
        return text
    return f"({len(text) - chars_max} characters before) ...{text[-chars_max:]}"
