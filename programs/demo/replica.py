"""The replica: empty tables that the consumed stream is applied to, and what the servers hold to compare.

While a snapshot of a shard is going on, changes of rows come that were not read yet, and rows are read that
changes brought before: they must be the same.

The replica is strict: an INSERT of a row that exists, a change of one that does not, and a before image that
is not what stands there are differences of their own. Values are compared as text: the envelope's on one
side, what the server itself prints on the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import pyarrow as pa

from canal_group.programs.demo.delivered import CELL_END, cell
from canal_group.programs.demo.tables import ADDED_COLUMN, ADDED_VALUE

#: (table, key) -> (shard, image); key and image as in `delivered`
Rows: TypeAlias = dict[tuple[str, str], tuple[str, str]]

_APPLIED = ("shard", "table", "op", "key", "before", "after")


class Replica:
    """Tables that began empty.

    Args:
        lacking: the shards whose snapshot is going on.
    """

    def __init__(self, lacking: Iterable[str] = ()) -> None:
        self._lacking = set(lacking)
        self.rows: Rows = {}
        #: what could not be applied, in words
        self.differences: list[str] = []

    def apply(self, stream: pa.Table) -> None:
        """Apply row changes and statements in order: (n,) of `delivered.DELIVERED`, each identity once."""
        for change in zip(*(stream.column(name).to_pylist() for name in _APPLIED), strict=True):
            self._apply(*change)

    def _apply(
        self, shard: str, table: str, op: str, key: str, before: str | None, after: str | None
    ) -> None:
        match op:
            case "INSERT":
                self._put(shard, table, key, after)
            case "READ":
                self._read(shard, table, key, after)
            case "UPDATE":
                self._remove(shard, table, _key_in(before, key), before, op)
                self._put(shard, table, key, after)
            case "DELETE":
                self._remove(shard, table, key, before, op)
            case "ALTER":
                self._add_column(shard, table)
            case "QUERY":
                # The mark at the end of its snapshot: the writers send no such statement.
                self._lacking.discard(shard)

    def _read(self, shard: str, table: str, key: str, after: str | None) -> None:
        if shard not in self._lacking:
            self.differences.append(f"{table} {_words(key)}: {shard} reads a row after its snapshot.")
        known = self.rows.setdefault((table, key), (shard, after or ""))
        if known != (shard, after):
            self.differences.append(
                f"{table} {_words(key)}: {shard} reads another row: {_was(known, shard, after)}."
            )

    def _put(self, shard: str, table: str, key: str, after: str | None) -> None:
        if (table, key) in self.rows:
            self.differences.append(f"{table} {_words(key)}: {shard} inserts a row that exists.")
        self.rows[table, key] = shard, after or ""

    def _remove(self, shard: str, table: str, key: str, before: str | None, op: str) -> None:
        removed = self.rows.pop((table, key), None)
        if removed is None:
            if shard not in self._lacking:
                self.differences.append(
                    f"{table} {_words(key)}: {op} by {shard} of a row that does not exist."
                )
        elif removed != (shard, before):
            was = _was(removed, shard, before)
            self.differences.append(f"{table} {_words(key)}: {op} by {shard} of another row: {was}.")

    def _add_column(self, shard: str, table: str) -> None:
        """Do what the demo's one ALTER does: the shard's rows get the added column's default."""
        added = CELL_END + cell(ADDED_COLUMN, ADDED_VALUE)
        for name, (owner, image) in self.rows.items():
            if owner == shard and name[0] == table:
                self.rows[name] = owner, image + added


def compare(replica: Rows, servers: Rows) -> Iterator[str]:
    """Yield the differences between the replica and the servers, row for row, in words."""
    for (table, key), (shard, image) in servers.items():
        mine = replica.get((table, key))
        if mine is None:
            yield f"{table} {_words(key)}: {shard} has the row, the stream did not deliver it."
        elif mine != (shard, image):
            yield f"{table} {_words(key)}: {_first_difference(mine[1], image)} on {shard}."
    for (table, key), (shard, _) in replica.items():
        if (table, key) not in servers:
            yield f"{table} {_words(key)}: the stream delivered the row of {shard}, which does not have it."


def _key_in(image: str | None, like: str) -> str:
    """Return the key in an image: the primary key's columns stand first in each table of the demo."""
    parts = like.count(CELL_END) + 1
    return CELL_END.join((image or "").split(CELL_END, parts)[:parts])


def _was(row: tuple[str, str], shard: str, image: str | None) -> str:
    """Return in words how a row of the replica differs from an image of a shard."""
    owner, mine = row
    return _first_difference(mine, image or "") if owner == shard else f"it is of {owner}"


def _first_difference(mine: str, other: str) -> str:
    for one, two in zip(mine.split(CELL_END), other.split(CELL_END), strict=False):
        if one != two:
            return f"{one!r} in the stream, {two!r}"
    return f"{mine.count(CELL_END) + 1} columns in the stream, {other.count(CELL_END) + 1}"


def _words(key: str) -> str:
    return key.replace(CELL_END, " ")
