"""What an archive has in the end, against the files of its sources and what consumers got.

Its files are unpacked by the project and read here, event by event: neither its index nor its manifest says
what is in them.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

import pyarrow as pa

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.history import History
from canal_group.binlog.archive.manifest import State
from canal_group.binlog.archive.operating.verification import verify
from canal_group.merge.errors import CanalGroupError, SourceUnavailable
from canal_group.programs.demo.delivered import of_transactions
from chaos.clocks import S_US
from chaos.commits import Commits

_MAGIC_BYTES: Final = 4
#: of an event: its time, type, server, length, end and flags
_HEADER: Final = struct.Struct("<IBIIIH")
_QUERY, _XID, _MYSQL_GTID, _COMPRESSED, _MARIADB_GTID = 2, 16, 33, 40, 162
#: in a file's description, flags that say that its server has it open
_IN_USE_AT: Final = _MAGIC_BYTES + 17
_IN_USE: Final = 1


def transactions_of(binlog: bytes) -> Iterator[str]:
    """Yield the GTIDs of the whole transactions of a binlog file."""
    at, gtid = _MAGIC_BYTES, ""
    while at + _HEADER.size <= len(binlog):
        _, kind, server, size, _, _ = _HEADER.unpack_from(binlog, at)
        event = binlog[at : at + size]
        body = event[_HEADER.size :]
        if kind == _MARIADB_GTID:
            number, domain = struct.unpack_from("<QI", body)
            gtid = f"{domain}-{server}-{number}"
        elif kind == _MYSQL_GTID:
            (number,) = struct.unpack_from("<q", body, 17)
            gtid = f"{UUID(bytes=body[1:17])}:{number}"
        elif gtid and len(event) == size and _ends(kind, body):
            yield gtid
            gtid = ""
        at += size


def _ends(kind: int, body: bytes) -> bool:
    """Return whether a transaction ends with an event; a compressed one is one event after its GTID."""
    return kind in {_XID, _COMPRESSED} or (kind == _QUERY and b"BEGIN" not in body)


def contents(archive: Archive) -> Iterator[tuple[History, str, bytes]]:
    """Yield each file of each history of an archive: its name and its bytes.

    Raises:
        CanalGroupError: one cannot be read.
    """
    for history in archive.histories():
        for entry in history.manifest.files:
            if entry.state is State.PRUNED:
                continue
            try:
                opened = history.open(entry.name)
            except SourceUnavailable:
                continue  # it has just been begun
            with contextlib.closing(opened) as source:
                data = b""
                while part := source.read_at(len(data), max(source.size - len(data), 1)):
                    data += part
            yield history, entry.name, data


def _named(rows: pa.Table) -> Iterator[tuple[str, str]]:
    """Yield shard and GTID of each row that is not of a snapshot's page."""
    changes = of_transactions(rows)
    yield from zip(changes["shard"].to_pylist(), changes["gtid"].to_pylist(), strict=True)


def not_archived(archive: Archive, rows: Iterable[pa.Table]) -> Iterator[str]:
    """Yield each transaction that a consumer got and an archive does not have as a whole."""
    held = {gtid for _, _, binlog in contents(archive) for gtid in transactions_of(binlog)}
    for shard, gtid in sorted({name for table in rows for name in _named(table)}):
        if gtid not in held:
            yield f"{shard} {gtid} was delivered, and the archive does not have it."


def too_early(
    readings: Iterable[tuple[int, pa.Table]], records: Iterable[Commits], full: Sequence[tuple[int, int]]
) -> Iterator[str]:
    """Yield each transaction that was delivered and committed while the archive's disk took nothing.

    Args:
        readings: when rows came, microseconds since 1970, and the rows.
        records: what the writers committed.
        full: from when to when the disk took nothing.
    """
    begun_us = {(record.shard, one.gtid): one.begun_us for record in records for one in record.commits}
    for at_us, table in readings:
        for begin_us, end_us in full:
            if begin_us < at_us < end_us:
                for shard, gtid in sorted(set(_named(table))):
                    if begun_us.get((shard, gtid), 0) > begin_us:
                        after_s = (at_us - begin_us) / S_US
                        yield f"{shard} {gtid} was delivered {after_s:.1f} s after the disk was full."


def unlike(archive: Archive, folders: dict[str, Path]) -> Iterator[str]:
    """Yield each file of an archive that is damaged, or is not the beginning of its source's file.

    Args:
        archive: what to compare; nobody writes to it.
        folders: where sources have their binlog files, by identity. What they have removed is not compared.
    """
    for history in archive.histories():
        yield from (f"{one.file}: {one.wrong}" for one in verify(history) if one.wrong)
    try:
        for history, name, binlog in contents(archive):
            own = folders.get(history.manifest.server, Path()) / name
            if not own.exists():
                continue
            original = bytearray(own.read_bytes())
            original[_IN_USE_AT] &= ~_IN_USE
            # The names come again after a source has lost the end of its binlog.
            again = original[_MAGIC_BYTES : _MAGIC_BYTES + 4] != binlog[_MAGIC_BYTES : _MAGIC_BYTES + 4]
            if not again and not original.startswith(binlog):
                at = next(
                    index for index, byte in enumerate(binlog) if original[index : index + 1] != bytes([byte])
                )
                yield f"{history.name}/{name} is not the source's from byte {at:,} on, of {len(binlog):,}."
    except CanalGroupError as error:
        yield f"The archive cannot be read: {error}"
