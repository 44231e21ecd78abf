"""Lines: a file of JSON objects, one for each message; keeps the position in a file beside it.

    {"topic": "orders", "partition": 0, "key": null, "headers": {"seq": "7", ...}, "value": {...}}

A value that is not JSON text is written as base64 under `base64` instead of `value`. A reader may read up to
the size that the file of the position names; what is after it was not confirmed, and may change. That file
also has a checksum of what was confirmed: a file of lines that another program has changed is refused.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc

from canal_group.conf.value import AnchoredPath, Settings
from canal_group.merge.errors import SinkRefused, SinkUnavailable, UsageError
from canal_group.merge.values.position import GroupPosition
from canal_group.merge.whole import whole
from canal_group.programs.output.confirmed_file import ConfirmedFile, Part
from canal_group.programs.output.messages import Messages
from canal_group.shapes.json_text import compose, plain, quoted, written


class LinesSettings(Settings):
    """A file of lines."""

    kind: Literal["lines"] = "lines"
    #: the file; the position's file has the same name and `.position`
    path: AnchoredPath


class Lines:
    """A file that one publisher at a time appends to.

    See the module and `canal_group.programs.output.sink`.
    """

    keeps_position: ClassVar[bool] = True

    def __init__(self, settings: LinesSettings, name: str) -> None:
        self._path, self._name = settings.path, name
        self._position_path = settings.path.with_name(f"{settings.path.name}.position")
        self._file: ConfirmedFile | None = None

    def open(self) -> GroupPosition | None:
        """Lock the file, and cut off what was not confirmed."""
        self.close()
        try:
            self._file = ConfirmedFile(self._path)
            part, position = self._confirmed(self._file)
            self._file.begin_after(part)
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
            self._opened().append("".join(f"{line}\n" for line in lines).encode())
        except OSError as error:
            raise self._unavailable(error) from error

    def flush(self) -> None:
        """Write the file to the disk."""
        try:
            self._opened().sync()
        except OSError as error:
            raise self._unavailable(error) from error

    def confirm(self, position: GroupPosition) -> None:
        """Replace the file of the position by one that names the file's size."""
        try:
            self._note(self._opened().sync(), position)
        except OSError as error:
            raise self._unavailable(error) from error

    def close(self) -> None:
        """Release the file."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _opened(self) -> ConfirmedFile:
        assert self._file is not None, "open() comes first"
        return self._file

    def _note(self, part: Part, position: GroupPosition | None) -> None:
        record = {
            "name": self._name,
            **part._asdict(),
            "position": None if position is None else json.loads(position.to_json()),
        }
        new = self._position_path.with_name(f"{self._position_path.name}.part")
        with new.open("w", encoding="utf-8") as file:
            file.write(json.dumps(record))
            file.flush()
            os.fsync(file)
        new.replace(self._position_path)
        _sync_folder(self._path.parent)

    def _confirmed(self, file: ConfirmedFile) -> tuple[Part, GroupPosition | None]:
        """Return the part of the file and the position at the last confirmation."""
        try:
            record = json.loads(self._position_path.read_text(encoding="utf-8"))
            name, written = record["name"], record["position"]
            part = Part(whole(record["size"]), whole(record["crc32"]))
            position = None if written is None else GroupPosition.from_json(json.dumps(written))
        except FileNotFoundError:
            if file.size:
                raise SinkRefused(
                    f"{self._path} holds something already, and {self._position_path} is missing.",
                    hint="Name another file, or remove it.",
                ) from None
            self._note(Part(), None)
            return Part(), None
        except (KeyError, TypeError, ValueError, RecursionError, UsageError) as error:
            raise SinkRefused(
                f"{self._position_path} is not a position of a file of lines.",
                hint=f"Remove it together with {self._path}, or name another file.",
            ) from error
        if name != self._name:
            raise SinkRefused(
                f"{self._path} holds changes of {name}, not of {self._name}.", hint="Name another file."
            )
        return part, position

    def _unavailable(self, error: OSError) -> SinkUnavailable:
        return SinkUnavailable(f"{self._path} cannot be written ({error.strerror}).", retry_after_s=1.0)


def _lines(messages: Messages) -> list[str]:
    topics = pa.array([json.dumps(topic) for topic in messages.topics], pa.utf8())
    members = {
        "topic": plain(topics.take(pa.array(messages.topic))),
        "partition": plain(pa.array(messages.partition)),
        "key": plain(pa.nulls(len(messages), pa.utf8())) if messages.key is None else quoted(messages.key),
        "headers": plain(_headers(messages)),
    }
    if pa.types.is_string(messages.value.type):
        members["value"] = plain(messages.value)
    else:
        texts = [base64.b64encode(value).decode() for value in messages.value.to_pylist()]
        members["base64"] = quoted(pa.array(texts, pa.utf8()))
    lines: list[str] = compose(members).to_pylist()
    return lines


def _headers(messages: Messages) -> Any:
    """Return each message's headers as a JSON object; those that it lacks are left out."""
    members = []
    for name, texts in messages.headers.items():
        member = pc.binary_join_element_wise(f"{json.dumps(name)}:", written(quoted(texts)), "")
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
