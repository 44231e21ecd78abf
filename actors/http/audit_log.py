"""The audit log: who changed what over HTTP, when, and what came of it; JSON lines in a file.

A line is written before a change is made and another one after it, so a change whose end is missing was cut
off. If the first cannot be written, the change is not made.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from merge.errors import CanalGroupError, ServerUnavailable

#: bytes at which the file is moved aside; one earlier file is kept
FILE_BYTES_MAX = 16 << 20
#: lines that are shown
SHOWN_MAX = 200

T = TypeVar("T")


class AuditLog:
    """Writes the log. Safe to use from several threads.

    Args:
        file: its file; made if it does not exist, with its folder.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._shown: deque[dict[str, Any]] = deque(maxlen=SHOWN_MAX)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The last lines of this process, the oldest first."""
        with self._lock:
            return list(self._shown)

    def changing(
        self, who: str, destination: str, what: str, details: Mapping[str, Any], change: Callable[[], T]
    ) -> T:
        """Make a change and log it; raises what `change` raises.

        Args:
            who: name of the caller's grant, and its address.
            destination: the instance.
            what: the operation.
            details: its arguments, without secrets.
            change: makes it.

        Raises:
            ServerUnavailable: the log cannot be written; nothing was changed.
        """
        line = {"who": who, "destination": destination, "operation": what, **details}
        try:
            self._write({**line, "result": "begun"})
        except OSError as error:
            raise ServerUnavailable(
                f"The audit log {self._file} cannot be written ({error.strerror}), so nothing was changed.",
                hint="Make room, or name another file with --audit-log.",
            ) from error
        result = "failed"
        try:
            value = change()
            result = "done"
        except CanalGroupError as error:
            result = f"refused: {type(error).__name__}: {error.message}"
            raise
        finally:
            self._write({**line, "result": result})
        return value

    def _write(self, line: dict[str, Any]) -> None:
        stamped = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **line}
        with self._lock:
            self._shown.append(stamped)
            self._file.parent.mkdir(parents=True, exist_ok=True)
            if self._file.exists() and self._file.stat().st_size > FILE_BYTES_MAX:
                self._file.replace(self._file.with_name(self._file.name + ".1"))
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
            with os.fdopen(os.open(self._file, flags, 0o600), "w", encoding="utf-8") as out:
                out.write(json.dumps(stamped, default=str) + "\n")
