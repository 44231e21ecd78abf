"""Entries: canal's messages as items that can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from google.protobuf.message import DecodeError

from canal_group.canal_protocol import entry_pb2 as pb
from canal_group.merge.errors import CorruptEvent
from canal_group.programs.migration.compare.change import Change, Column, Item, Mark

#: prop of our entries: the shard's name
_SHARD: Final = "shard"
#: prop of canal's begin of a prepared transaction
_XA: Final = "XA_TYPE"
_KINDS_OF_ROWS: Final = frozenset({pb.INSERT, pb.UPDATE, pb.DELETE})


def items_of(message: bytes) -> Iterator[tuple[str, Item]]:
    """Yield the items of an entry, each with its shard; empty if the entry does not name it.

    Heartbeats and GTIDs yield nothing.

    Raises:
        CorruptEvent: the bytes are not an entry.
    """
    try:
        entry = pb.Entry.FromString(message)
        header, kind = entry.header, _kind(entry)
        shard = next((prop.value for prop in header.props if prop.key == _SHARD), "")
        if kind in (pb.TRANSACTIONBEGIN, pb.TRANSACTIONEND):
            begins = kind == pb.TRANSACTIONBEGIN
            yield shard, Mark(header.logfileName, header.logfileOffset, begins, begins and _is_xa(entry))
        elif kind == pb.ROWDATA:
            for change in _changes(header, pb.RowChange.FromString(entry.storeValue)):
                yield shard, change
    except DecodeError as error:
        raise CorruptEvent(
            f"A message of {len(message)} bytes is not an entry of canal's ({error})."
        ) from None


def _kind(entry: pb.Entry) -> int:
    return entry.entryType if entry.WhichOneof("entryType_present") else pb.ROWDATA


def _is_xa(entry: pb.Entry) -> bool:
    return any(prop.key == _XA for prop in pb.TransactionBegin.FromString(entry.storeValue).props)


def _changes(header: pb.Header, change: pb.RowChange) -> Iterator[Change]:
    kind = change.eventType if change.WhichOneof("eventType_present") else pb.UPDATE
    names = header.logfileName, header.logfileOffset, header.schemaName, header.tableName
    event = pb.EventType.Name(kind)
    if change.isDdl or kind not in _KINDS_OF_ROWS:
        yield Change(*names, event, sql=change.sql, length=header.eventLength if change.isDdl else 0)
        return
    for row in change.rowDatas:
        yield Change(*names, event, _columns(row.beforeColumns), _columns(row.afterColumns))


def _columns(columns: Iterable[pb.Column]) -> tuple[Column, ...]:
    return tuple(
        Column(
            each.name,
            None if each.isNull else each.value,
            each.mysqlType,
            each.sqlType,
            each.isKey,
            each.updated,
        )
        for each in columns
    )
