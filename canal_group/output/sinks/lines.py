"""Lines: a file of JSON objects, one for each message; keeps the position in a file beside it.

    {"topic": "orders", "partition": 0, "key": null, "headers": {"seq": "7", ...}, "value": {...}}

A value that is no JSON text is written as base64 under `base64` instead of `value`. A reader may read up to
the size that the file of the position names; what is after it was not confirmed, and may change.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc

from canal_group.output.messages import Messages
from canal_group.shapes.json_text import NULL, compose, numbers, quoted
from conf.value import AnchoredPath, Settings
from merge.errors import FencedError, SinkRefused, SinkUnavailable, UsageError
from merge.values.position import GroupPosition


class LinesSettings(Settings):
    """A file of lines."""

    kind: Literal["lines"] = "lines"
    #: the file; that of the position is called likewise, with `.position`
    path: AnchoredPath


class Lines:
    """A file that one publisher at a time appends to; see the module and `canal_group.output.sink`."""

    keeps_position: ClassVar[bool] = True

    def __init__(self, settings: LinesSettings, name: str) -> None:
        self._path, self._name = settings.path, name
        self._position_path = settings.path.with_name(f"{settings.path.name}.position")
        self._file: BinaryIO | None = None

    def open(self) -> GroupPosition | None:
        """Lock the file, and cut off what was not confirmed."""
        try:
            self._file = self._path.open("ab")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            size, position = self._confirmed()
            self._file.truncate(size)
        except BlockingIOError:
            self.close()
            raise FencedError(
                f"Another process writes to {self._path}.", hint="Stop it, or name another file."
            ) from None
        except OSError as error:
            self.close()
            raise self._unavailable(error) from error
        except SinkRefused:
            self.close()
            raise
        return position

    def write(self, messages: Messages) -> None:
        """Append the messages."""
        lines = _lines(messages)
        try:
            self._opened().write("".join(f"{line}\n" for line in lines).encode())
        except OSError as error:
            raise self._unavailable(error) from error

    def flush(self) -> None:
        """Write the file to the disk."""
        try:
            self._opened().flush()
            os.fsync(self._opened())
        except OSError as error:
            raise self._unavailable(error) from error

    def confirm(self, position: GroupPosition) -> None:
        """Replace the file of the position by one that names the file's size."""
        try:
            self._note(self._opened().tell(), position)
        except OSError as error:
            raise self._unavailable(error) from error

    def close(self) -> None:
        """Release the file."""
        if self._file is None:
            return
        file, self._file = self._file, None
        # What it still had was not confirmed.
        with contextlib.suppress(OSError):
            file.close()

    def _opened(self) -> BinaryIO:
        assert self._file is not None, "open() comes first"
        return self._file

    def _note(self, size: int, position: GroupPosition | None) -> None:
        said = {
            "name": self._name,
            "size": size,
            "position": None if position is None else json.loads(position.to_json()),
        }
        part = self._position_path.with_name(f"{self._position_path.name}.part")
        with part.open("w", encoding="utf-8") as file:
            file.write(json.dumps(said))
            file.flush()
            os.fsync(file)
        part.replace(self._position_path)
        _sync_folder(self._path.parent)

    def _confirmed(self) -> tuple[int, GroupPosition | None]:
        """Return the size of the file and the position at the last confirmation."""
        size_now = self._path.stat().st_size
        try:
            said = json.loads(self._position_path.read_text(encoding="utf-8"))
            name, size, written = said["name"], int(said["size"]), said["position"]
            position = None if written is None else GroupPosition.from_json(json.dumps(written))
        except FileNotFoundError:
            if size_now:
                raise SinkRefused(
                    f"{self._path} holds something already, and {self._position_path} is missing.",
                    hint="Name another file, or remove it.",
                ) from None
            self._note(0, None)
            return 0, None
        except (KeyError, TypeError, ValueError, UsageError) as error:
            raise SinkRefused(
                f"{self._position_path} is no position of a file of lines.",
                hint=f"Remove it together with {self._path}, or name another file.",
            ) from error
        if name != self._name:
            raise SinkRefused(
                f"{self._path} holds changes of {name}, not of {self._name}.", hint="Name another file."
            )
        if size > size_now:
            raise SinkRefused(
                f"{self._path} is shorter than the {size} bytes that were confirmed.",
                hint=f"Restore it, or remove it together with {self._position_path} to begin anew.",
            )
        return size, position

    def _unavailable(self, error: OSError) -> SinkUnavailable:
        return SinkUnavailable(f"{self._path} cannot be written ({error.strerror}).", retry_after_s=1.0)


def _lines(messages: Messages) -> list[str]:
    topics = pa.array([json.dumps(topic) for topic in messages.topics], pa.utf8())
    members = {
        "topic": topics.take(pa.array(messages.topic)),
        "partition": numbers(pa.array(messages.partition)),
        "key": pa.repeat(NULL, len(messages)) if messages.key is None else quoted(messages.key),
        "headers": _headers(messages),
    }
    if pa.types.is_string(messages.value.type):
        members["value"] = messages.value
    else:
        texts = [base64.b64encode(value).decode() for value in messages.value.to_pylist()]
        members["base64"] = quoted(pa.array(texts, pa.utf8()))
    lines: list[str] = compose(members).to_pylist()
    return lines


def _headers(messages: Messages) -> Any:
    """Return each message's headers as a JSON object; those that it lacks are left out."""
    members = []
    for name, texts in messages.headers.items():
        member = pc.binary_join_element_wise(f"{json.dumps(name)}:", quoted(texts), "")
        members.append(pc.if_else(texts.is_valid(), member, pa.scalar(None, pa.utf8())))
    joined = pc.binary_join_element_wise(*members, ",", null_handling="skip")
    return pc.binary_join_element_wise("{", joined, "}", "")


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


SETTINGS, SINK = LinesSettings, Lines
