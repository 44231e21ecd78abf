"""The log of a dump server's process: a JSON object a line, on stderr.

The process prints into what started it, whose reader of lines takes such a line for a record. JSON keeps what
a source says inside its line: it can neither begin one nor choose a record's level.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, Final

#: characters of a message, and of the end of a traceback
CHARS_MAX: Final = 8_192


class LineFormatter(logging.Formatter):
    """Formats a record as a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record's line."""
        made = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds")
        entry: dict[str, Any] = {
            "time": made.removesuffix("+00:00") + "Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage()[:CHARS_MAX],
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)[-CHARS_MAX:]
        return json.dumps(entry)


def set_up_log() -> None:
    """Log what this process has to say from now on."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
