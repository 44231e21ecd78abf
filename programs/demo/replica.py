"""The replica: tables that the consumed stream is applied to, and what the servers hold to compare.

While a snapshot of a shard is going on, changes of rows come that were not read yet, and rows are read that
changes brought before: they must be the same. A row that was deleted is not read.

The replica is strict: an INSERT of a row that exists, a change of one that does not, and a before image that
is not what stands there are differences of their own. Values are compared as text: the envelope's on one
side, what the server itself prints on the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import pyarrow as pa

from canal_group.programs.demo.delivered import CELL_END, cell
from canal_group.programs.demo.tables import ADDED_COLUMN, ADDED_VALUE

#: shard, table and key of a row; the key as in `delivered`
Name: TypeAlias = tuple[str, str, str]
#: images of rows, as in `delivered`
Rows: TypeAlias = dict[Name, str]

_APPLIED = ("shard", "table", "op", "key", "before", "after")


class Replica:
    """Tables that a stream is applied to.

    Args:
        lacking: the shards whose snapshot is going on.
        rows: what there was when the stream began.
    """

    def __init__(self, lacking: Iterable[str] = (), rows: Mapping[Name, str] | None = None) -> None:
        self._lacking = set(lacking)
        self.rows: Rows = dict(rows or {})
        #: rows that the stream has deleted
        self._deleted: set[Name] = set()
        #: what could not be applied, in words
        self.differences: list[str] = []

    def apply(self, stream: pa.Table) -> None:
        """Apply row changes and statements in order: (n,) of `delivered.DELIVERED`, each identity once."""
        for shard, table, op, key, before, after in zip(
            *(stream.column(name).to_pylist() for name in _APPLIED), strict=True
        ):
            self._apply((shard, table, key), op, before, after)

    def _apply(self, name: Name, op: str, before: str | None, after: str | None) -> None:
        shard, table, key = name
        match op:
            case "INSERT":
                self._put(name, after)
            case "READ":
                self._read(name, after)
            case "UPDATE":
                self._remove((shard, table, _key_in(before, key)), before, op)
                self._put(name, after)
            case "DELETE":
                self._remove(name, before, op)
            case "ALTER":
                self._add_column(shard, table)
            case "QUERY":
                # The mark at the end of its snapshot: the writers send no such statement.
                self._completed(shard)

    def _completed(self, shard: str) -> None:
        self._lacking.discard(shard)

    def _may_read(self, shard: str) -> bool:
        return shard in self._lacking

    def _read(self, name: Name, after: str | None) -> None:
        if not self._may_read(name[0]):
            self._differs(name, "a row is read after its snapshot")
        if name in self._deleted:
            self._differs(name, "a row is read that was deleted before")
        known = self.rows.setdefault(name, after or "")
        if known != after:
            self._differs(name, f"another row is read: {_first_difference(known, after or '')}")

    def _put(self, name: Name, after: str | None) -> None:
        if name in self.rows:
            self._differs(name, "a row is inserted that exists")
        self.rows[name] = after or ""
        self._deleted.discard(name)

    def _remove(self, name: Name, before: str | None, op: str) -> None:
        removed = self.rows.pop(name, None)
        self._deleted.add(name)
        if removed is None:
            if name[0] not in self._lacking:
                self._differs(name, f"{op} of a row that does not exist")
        elif removed != before:
            self._differs(name, f"{op} of another row: {_first_difference(removed, before or '')}")

    def _add_column(self, shard: str, table: str) -> None:
        """Do what the demo's one ALTER does: the shard's rows get the added column's default."""
        added = CELL_END + cell(ADDED_COLUMN, ADDED_VALUE)
        for name, image in self.rows.items():
            if name[:2] == (shard, table):
                self.rows[name] = image + added

    def _differs(self, name: Name, what: str) -> None:
        self.differences.append(f"{_words(name)}: {what}.")


def compare(replica: Rows, servers: Rows) -> Iterator[str]:
    """Yield the differences between the replica and the servers, row for row, in words."""
    for name, image in servers.items():
        mine = replica.get(name)
        if mine is None:
            yield f"{_words(name)}: the server has the row, the stream did not deliver it."
        elif mine != image:
            yield f"{_words(name)}: {_first_difference(mine, image)} on the server."
    for name in replica:
        if name not in servers:
            yield f"{_words(name)}: the stream delivered the row, the server does not have it."


def _key_in(image: str | None, like: str) -> str:
    """Return the key in an image: the primary key's columns stand first in each table of the demo."""
    parts = like.count(CELL_END) + 1
    return CELL_END.join((image or "").split(CELL_END, parts)[:parts])


def _first_difference(mine: str, other: str) -> str:
    for one, two in zip(mine.split(CELL_END), other.split(CELL_END), strict=False):
        if one != two:
            return f"{one!r} in the stream, {two!r}"
    return f"{mine.count(CELL_END) + 1} columns in the stream, {other.count(CELL_END) + 1}"


def _words(name: Name) -> str:
    shard, table, key = name
    return f"{shard} {table} {key.replace(CELL_END, ' ')}"
