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

from canal_group.merge.errors import CorruptEvent, UnsupportedEvent, UsageError
from canal_group.merge.file_name import server_identity, shown
from canal_group.merge.values.position import file_order
from canal_group.merge.whole import whole

VERSION: Final = 1
#: the manifest's name in the folder of a history
MANIFEST: Final = "manifest.json"
#: fields of a file that are texts, and those of which JSON has another form; all others are whole numbers
_TEXTS: Final = frozenset({"name", "gtids_before", "gtids", "sha256", "remote", "key"})
_MADE: Final = frozenset({"state", "form", "damaged"})


class State(StrEnum):
    """Where a file is in its life."""

    #: it is written to
    OPEN = "open"
    #: nothing is added any more
    CLOSED = "closed"
    #: bytes of the file are damaged: `damaged` has the ranges
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


#: what is added to a binlog file's name: of its index, and in each form
INDEX_SUFFIX: Final = ".index"
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
    #: commit time of the file's first transaction, and the greatest commit time, microseconds since 1970; 0:
    #: the file has no transaction
    first_us: int = 0
    latest_us: int = 0
    #: CRC32 of its format description, which says how all other events are checked
    description: int = 0
    #: SHA-256 of the binlog's bytes, in hex; empty while it is open
    sha256: str = ""
    #: ranges of the binlog that cannot be read, bytes from and up to
    damaged: tuple[tuple[int, int], ...] = ()
    #: name of the file in the object store; empty: the file is not there
    remote: str = ""
    #: which key encrypts it, see `canal_group.binlog.archive.forms.key`; empty: it is not encrypted
    key: str = ""

    def __post_init__(self) -> None:
        """Check its name, which becomes a part of paths; raises UsageError."""
        file_order(self.name)

    @property
    def stored_name(self) -> str:
        """Name of the stored file, with the suffix of its form."""
        return self.name + SUFFIXES[self.form]

    def remote_name(self, folder: str, epoch: int) -> str:
        """Return its name in an object store.

        Args:
            folder: name of its history.
            epoch: that of the writer that moves it.
        """
        return f"{folder}/{self.stored_name}.e{epoch}"

    @property
    def here(self) -> bool:
        """Whether the file's bytes are on this disk."""
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


def parse_manifest(data: bytes, where: str, folder: str) -> Manifest:
    """Return the manifest that was stored.

    Args:
        data: its bytes.
        where: its path, for messages.
        folder: name of its history; the manifest names files of no other one.

    Raises:
        UnsupportedEvent: a newer version wrote it.
        CorruptEvent: it is damaged, or names what is not a file of its history.
    """
    try:
        value = json.loads(data)
        version, crc32 = value["version"], value.pop("crc32")
        if version == VERSION and crc32 == _crc32(value):
            manifest = _manifest(value, folder)
            if len({each.name for each in manifest.files}) == len(manifest.files):
                return manifest
    except UsageError as error:
        raise _damaged(where, f": {error.message}") from error
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise _damaged(where) from error
    if version != VERSION:
        raise UnsupportedEvent(
            f"{where} is of version {version}.",
            hint=f"This program reads version {VERSION}: use a newer one.",
        )
    raise _damaged(where)


def _damaged(where: str, why: str = ".") -> CorruptEvent:
    return CorruptEvent(
        f"The manifest {where} is damaged{why}",
        hint="Move its folder out of the archive, and take its files over with `canal-group archive adopt`: "
        "that checks each event again.",
        file=where,
    )


def _without_defaults(entry: FileEntry) -> dict[str, Any]:
    kept = ("name", "created_s", "state", "form", "size")
    return {key: value for key, value in asdict(entry).items() if key in kept or value}


def _manifest(value: dict[str, Any], folder: str) -> Manifest:
    """Return the manifest of a JSON object; raises UsageError if it names what is not of its history."""
    server = _text(value["server"])
    if server_identity(server) != folder.partition("@")[0]:
        raise UsageError(f"it is of server {server}, in the folder {shown(folder)}.")
    files = tuple(_entry(each) for each in value["files"])
    for entry in files:
        epoch = entry.remote.rpartition(".e")[2]
        its_own = epoch.isdecimal() and entry.remote == entry.remote_name(folder, int(epoch))
        if entry.remote and not its_own:
            raise UsageError(
                f"for {entry.name} it names {shown(entry.remote)} in the object store, which is not a file "
                f"of {shown(folder)}."
            )
    return Manifest(server, whole(value["created_s"]), files)


def _entry(value: dict[str, Any]) -> FileEntry:
    damaged: Sequence[Sequence[int]] = value.get("damaged", ())
    plain = {key: each for key, each in value.items() if key not in _MADE}
    given: dict[str, Any] = {key: (_text if key in _TEXTS else whole)(each) for key, each in plain.items()}
    return FileEntry(
        **given,
        state=State(value["state"]),
        form=Form(value["form"]),
        damaged=tuple((whole(begin), whole(end)) for begin, end in damaged),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _crc32(value: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())
