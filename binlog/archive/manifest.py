"""Manifest: what an archive holds of one history of a server, file by file.

It is one JSON object, which is replaced as a whole, with a CRC32 of itself:

    {"version": 1, "server", "created_s", "files": [...], "crc32"}

A file is named before it exists, and stays named when its bytes are gone: what has been is never guessed.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Final

from canal_group.merge.errors import CorruptEvent, UnsupportedEvent

VERSION: Final = 1
#: the manifest's name in the folder of a history
MANIFEST: Final = "manifest.json"


class State(StrEnum):
    """Where a file is in its life."""

    #: it is written to
    OPEN = "open"
    #: nothing is added any more
    CLOSED = "closed"
    #: bytes of it are damaged: `damaged` says which
    QUARANTINED = "quarantined"
    #: it is in an object store
    MOVED = "moved"
    #: it is being removed: its bytes may be gone
    PRUNED = "pruned"


class Form(StrEnum):
    """How a file's bytes lie on the disk."""

    #: as they are
    PLAIN = "plain"
    #: in compressed frames, see `canal_group.binlog.archive.forms.frames`
    ZSTD = "zstd"
    #: while it is written: in encrypted blocks, see `canal_group.binlog.archive.forms.blocks`
    BLOCKS = "blocks"
    #: in compressed frames that are encrypted
    SEALED = "sealed"


#: what is added to a binlog file's name
SUFFIXES: Final = {Form.PLAIN: "", Form.ZSTD: ".zst", Form.BLOCKS: ".blocks", Form.SEALED: ".sealed"}


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One binlog file."""

    #: its name at the server
    name: str
    #: when the server created it, seconds since 1970, see `Position.created_s`
    created_s: int
    state: State
    form: Form
    #: bytes of the binlog: its length at the server; of an open file: what was durable when this was written
    size: int
    #: bytes on the disk, or in the object store
    stored: int = 0
    #: the transactions before the file, and before its end, as far as the server has GTIDs
    gtids_before: str = ""
    gtids: str = ""
    #: commit time of its first transaction, and the greatest one, microseconds since 1970; 0: it has none
    first_us: int = 0
    latest_us: int = 0
    #: CRC32 of its format description, which says how all other events are checked
    description: int = 0
    #: SHA-256 of the binlog's bytes, in hex; empty while it is open
    sha256: str = ""
    #: ranges of the binlog that cannot be read, bytes from and up to
    damaged: tuple[tuple[int, int], ...] = ()
    #: its name in the object store; empty: it is not there
    remote: str = ""
    #: which key encrypts it, see `canal_group.binlog.archive.forms.key`; empty: it is not encrypted
    key: str = ""

    @property
    def stored_name(self) -> str:
        """Name of the file that holds it."""
        return self.name + SUFFIXES[self.form]

    @property
    def here(self) -> bool:
        """Whether its bytes are on this disk."""
        return not self.remote and self.state in (State.OPEN, State.CLOSED, State.QUARANTINED)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of a history, in the order of the server."""

    #: identity of the server: its uuid, or MariaDB's server id
    server: str
    #: when the first file was created, seconds since 1970
    created_s: int
    files: tuple[FileEntry, ...] = ()

    @property
    def last(self) -> FileEntry | None:
        """The newest file."""
        return self.files[-1] if self.files else None

    def entry(self, name: str) -> FileEntry | None:
        """Return a file by name."""
        return next((each for each in reversed(self.files) if each.name == name), None)

    def with_file(self, entry: FileEntry) -> Manifest:
        """Return a manifest with a file replaced, or added at the end."""
        files = tuple(entry if each.name == entry.name else each for each in self.files)
        return replace(self, files=files if self.entry(entry.name) else (*self.files, entry))

    def without(self, name: str) -> Manifest:
        """Return a manifest that has never named a file."""
        return replace(self, files=tuple(each for each in self.files if each.name != name))


def manifest_bytes(manifest: Manifest) -> bytes:
    """Return a manifest as it is stored."""
    value = {
        "version": VERSION,
        "server": manifest.server,
        "created_s": manifest.created_s,
        "files": [_without_defaults(each) for each in manifest.files],
    }
    return json.dumps({**value, "crc32": _crc32(value)}, indent=1).encode() + b"\n"


def parse_manifest(data: bytes, where: str) -> Manifest:
    """Return the manifest that was stored.

    Args:
        data: its bytes.
        where: its path, for messages.

    Raises:
        UnsupportedEvent: a newer version wrote it.
        CorruptEvent: it is damaged.
    """
    try:
        value = json.loads(data)
        version, crc32 = value["version"], value.pop("crc32")
        if version == VERSION and crc32 == _crc32(value):
            files = tuple(_entry(each) for each in value["files"])
            return Manifest(str(value["server"]), int(value["created_s"]), files)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise _damaged(where) from error
    if version != VERSION:
        raise UnsupportedEvent(
            f"{where} is of version {version}.",
            hint=f"This program reads version {VERSION}: use a newer one.",
        )
    raise _damaged(where)


def _damaged(where: str) -> CorruptEvent:
    return CorruptEvent(
        f"The manifest {where} is damaged.",
        hint="Move its folder out of the archive, and take its files over with `canal-group archive adopt`: "
        "that checks each event again.",
        file=where,
    )


def _without_defaults(entry: FileEntry) -> dict[str, Any]:
    kept = ("name", "created_s", "state", "form", "size")
    return {key: value for key, value in asdict(entry).items() if key in kept or value}


def _entry(value: dict[str, Any]) -> FileEntry:
    damaged: Sequence[Sequence[int]] = value.get("damaged", ())
    return FileEntry(
        **{
            **value,
            "state": State(value["state"]),
            "form": Form(value["form"]),
            "damaged": tuple((int(begin), int(end)) for begin, end in damaged),
        }
    )


def _crc32(value: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())
