"""ZooKeeper's history: the changes in its transaction logs, in the order that the majority agreed on.

The logs are the one piece of evidence that no code of this project wrote. Their format is jute, see
ZooKeeper's `zookeeper.jute` and `FileTxnLog`: a header of 16 bytes, then for each transaction a checksum, a
length, a TxnHeader, the transaction, and one byte 0x42. A file is padded with zeros.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

_MAGIC: Final = b"ZKLG"
_FILE_HEADER: Final = 16
_ENTRY: Final = struct.Struct(">qi")
_HEADER: Final = struct.Struct(">qiqqi")
_INT: Final = struct.Struct(">i")


class Kind(IntEnum):
    """The types of transactions that are read; the numbers are those of ZooKeeper's OpCode."""

    ERROR = -1
    CREATE = 1
    DELETE = 2
    SET = 5
    CHECK = 13
    MULTI = 14
    CREATE2 = 15


@dataclass(frozen=True, slots=True)
class Change:
    """One operation of a transaction."""

    kind: Kind
    path: str
    data: bytes = b""
    #: version of the node after a SET, or the one that a CHECK requires
    version: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """One transaction."""

    zxid: int
    session: int
    changes: tuple[Change, ...]


class IncompleteHistoryError(RuntimeError):
    """The logs are incomplete, so no conclusion is possible."""


def history(folders: Iterable[Path]) -> list[Entry]:
    """Return the transactions that are in most of the logs, oldest first.

    Args:
        folders: `dataDir` of each member.
    """
    logs = [{entry.zxid: entry for entry in _log(folder)} for folder in folders]
    held = Counter(zxid for log in logs for zxid in log)
    everything = {zxid: entry for log in logs for zxid, entry in log.items()}
    return [everything[zxid] for zxid in sorted(held) if held[zxid] > len(logs) // 2]


def _log(folder: Path) -> Iterator[Entry]:
    for file in sorted((folder / "version-2").glob("log.*"), key=lambda path: int(path.suffix[1:], 16)):
        content = file.read_bytes()
        if content[:4] == _MAGIC:
            yield from _entries(content)


def _entries(content: bytes) -> Iterator[Entry]:
    at = _FILE_HEADER
    while at + _ENTRY.size <= len(content):
        _, length = _ENTRY.unpack_from(content, at)
        at += _ENTRY.size
        if length <= 0 or content[at + length : at + length + 1] != b"B":
            return
        session, _, zxid, _, kind = _HEADER.unpack_from(content, at)
        changes = tuple(_changes(kind, content[at + _HEADER.size : at + length]))
        if changes:
            yield Entry(zxid, session, changes)
        at += length + 1


def _changes(kind: int, body: bytes) -> Iterator[Change]:
    """Yield a transaction's changes; none if it is of another type, or failed."""
    if kind != Kind.MULTI:
        yield from _change(kind, body)
        return
    (count,), at, parts = _INT.unpack_from(body), _INT.size, []
    for _ in range(count):
        (part,) = _INT.unpack_from(body, at)
        data, at = _buffer(body, at + _INT.size)
        parts.append((part, data))
    if all(part != Kind.ERROR for part, _ in parts):
        for part, data in parts:
            yield from _change(part, data)


def _change(kind: int, body: bytes) -> Iterator[Change]:
    if kind not in {Kind.CREATE, Kind.CREATE2, Kind.DELETE, Kind.SET, Kind.CHECK}:
        return
    path, at = _buffer(body, 0)
    data, version = b"", 0
    if kind in {Kind.CREATE, Kind.CREATE2, Kind.SET}:
        data, at = _buffer(body, at)
    if kind in {Kind.SET, Kind.CHECK}:
        (version,) = _INT.unpack_from(body, at)
    yield Change(Kind(kind), path.decode(), data, version)


def _buffer(body: bytes, at: int) -> tuple[bytes, int]:
    """Return a jute buffer or string, and the offset of its end; length -1 means that there is no buffer."""
    (length,) = _INT.unpack_from(body, at)
    begin = at + _INT.size
    return body[begin : begin + max(length, 0)], begin + max(length, 0)
