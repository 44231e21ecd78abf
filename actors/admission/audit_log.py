"""The audit log: who changed what of a running instance, when, and what came of it; JSON lines in a file.

The HTTP service writes what is changed over HTTP, the gateway what commands change, and the server which stop
marks it has seen: several processes write to one file.

A line is written before a change is made and another one after it, so a change whose end is missing was cut
off. If the first cannot be written, the change is not made.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from canal_group.merge.calls.call import Call
from canal_group.merge.errors import CanalGroupError, ServerUnavailable

#: bytes at which the file is moved aside; one earlier file is kept
FILE_BYTES_MAX = 16 << 20
#: lines that are shown, and the bytes at the end of the file that they are looked for in
SHOWN_MAX = 200
SHOWN_BYTES_MAX = 256 << 10

#: characters of a value
VALUE_CHARS_MAX = 500

T = TypeVar("T")


class AuditLog:
    """Writes the log. Safe to use from several threads, and for several processes of one user.

    Args:
        file: its file; made if it does not exist, with its folder.
        shown_max: how many lines are shown.
        shown_bytes_max: bytes at the end of the file that these are looked for in.
    """

    def __init__(
        self, file: Path, *, shown_max: int = SHOWN_MAX, shown_bytes_max: int = SHOWN_BYTES_MAX
    ) -> None:
        self._file = file
        self._shown_max, self._shown_bytes_max = shown_max, shown_bytes_max

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The last lines, the oldest first; none if the file cannot be read."""
        try:
            with self._file.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                begin = file.seek(max(0, size - self._shown_bytes_max))
                last = file.read(self._shown_bytes_max).splitlines()
        except OSError:
            return []
        # The first line may be the end of one.
        return [entry for line in last[1 if begin else 0 :][-self._shown_max :] if (entry := _parsed(line))]

    def changing(
        self,
        who: str,
        through: str,
        destination: str,
        what: str,
        details: Mapping[str, Any],
        change: Callable[[], T],
    ) -> T:
        """Make a change and log it; raises what `change` raises.

        Args:
            who: name of the caller's grant, and its address.
            through: how it came, "http" or "gateway".
            destination: the instance.
            what: the operation.
            details: its arguments, without secrets.
            change: makes it.

        Raises:
            ServerUnavailable: the log cannot be written; nothing was changed.
        """
        line = {"who": who, "through": through, "destination": destination, "operation": what, **details}
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

    def seen(self, who: str, destination: str, what: str, **details: Any) -> None:
        """Log a change that was made elsewhere, and that this server has noticed.

        Raises:
            OSError: the log cannot be written.
        """
        line = {"who": who, "through": "coordination", "destination": destination, "operation": what}
        self._write({**line, **details, "result": "seen"})

    def _write(self, line: Mapping[str, Any]) -> None:
        stamped = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **line}
        text = json.dumps(stamped, default=str) + "\n"
        self._file.parent.mkdir(parents=True, exist_ok=True)
        while not self._append(text):
            pass

    def _append(self, text: str) -> bool:
        """Append a line; return whether the file was still the log, and had room."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        with os.fdopen(os.open(self._file, flags, 0o600), "w", encoding="utf-8") as out:
            fcntl.flock(out, fcntl.LOCK_EX)
            opened = os.fstat(out.fileno())
            try:
                current = self._file.lstat()
            except FileNotFoundError:
                return False
            if (current.st_dev, current.st_ino) != (opened.st_dev, opened.st_ino):
                return False  # Another writer has moved it aside.
            if opened.st_size > FILE_BYTES_MAX:
                self._file.replace(self._file.with_name(self._file.name + ".1"))
                return False
            out.write(text)
        return True


def audited(call: Call[Any]) -> dict[str, Any]:
    """Return the details of a changing call for the log; of a new shard, only its name."""
    values = {name: getattr(call, name) for name in call.declared.audited or ()}
    values = {
        name: value.get("name") if isinstance(value, Mapping) else value for name, value in values.items()
    }
    return {
        name: value if isinstance(value, bool) else str(value)[:VALUE_CHARS_MAX]
        for name, value in values.items()
    }


def _parsed(line: bytes) -> dict[str, Any]:
    """Return a line as an object; an empty one if it was not written to its end."""
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}
