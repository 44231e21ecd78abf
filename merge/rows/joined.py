"""The joined schema of a table: the columns of all its definitions, in shards and over time.

Columns are matched by name; names compare without case, as in MySQL. The type of a column is the one that was
chosen for it, or else the widest of its types. The order is that of the newest definition, followed by the
columns that only others have.

Definitions without rows at hand may add columns and widen types, so that a column does not
come and go from batch to batch. They never cause a conflict.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from canal_group.merge.errors import SchemaMismatch
from canal_group.merge.rows.widest import widest
from canal_group.merge.values.chunk import TableName, mysql_type_of


@dataclass(frozen=True, slots=True)
class Definition:
    """A table's columns in one shard, in one version."""

    shard: str
    #: fields with `mysql_type` in their metadata, where it is known
    columns: pa.Schema


@dataclass(frozen=True, slots=True)
class Candidate:
    """A column as one shard has it."""

    shard: str
    field: pa.Field

    def __str__(self) -> str:
        return f"{type_text(self.field)} in shard {self.shard}"


def joined(
    table: TableName,
    definitions: Sequence[Definition],
    known: Sequence[Definition] = (),
    chosen: Mapping[str, Any] | None = None,
) -> Any:
    """Return the joined columns of a table.

    Args:
        table: as consumers know it, for errors.
        definitions: the definitions of the rows at hand, newest first.
        known: definitions without rows at hand.
        chosen: types that an operator chose, by the column's name in lower case.

    Returns:
        Schema: nullable fields, each with the metadata of the newest definition that has the column.

    Raises:
        SchemaMismatch: no type takes the values of two of `definitions`, and none was chosen.
    """
    own, others = _by_name(definitions), _by_name(known)
    fields = []
    for name in {**own, **others}:
        here, there = own.get(name, []), others.get(name, [])
        kind = (chosen or {}).get(name) or _joined_type(table, here, there)
        fields.append((here or there)[0].field.with_type(kind).with_nullable(True))
    return pa.schema(fields)


def conflicts(definitions: Sequence[Definition]) -> Iterator[tuple[str, list[Candidate]]]:
    """Yield the columns whose types have no widest, with one candidate for each type."""
    for candidates in _by_name(definitions).values():
        if widest(each.field.type for each in candidates) is None:
            yield candidates[0].field.name, list({each.field.type: each for each in candidates}.values())


def types_by_shard(definitions: Iterable[Definition], column: str) -> dict[str, str]:
    """Return the type of a column in each shard that has it, by shard."""
    candidates = reversed(_by_name(definitions).get(column.lower(), []))
    return {each.shard: type_text(each.field) for each in candidates}


def type_text(field: pa.Field) -> str:
    """Return a column's type as its source writes it, or its Arrow type where that is unknown."""
    return mysql_type_of(field) or str(field.type)


def _by_name(definitions: Iterable[Definition]) -> dict[str, list[Candidate]]:
    candidates: dict[str, list[Candidate]] = {}
    for definition in definitions:
        for field in definition.columns:
            candidates.setdefault(field.name.lower(), []).append(Candidate(definition.shard, field))
    return candidates


def _joined_type(table: TableName, here: Sequence[Candidate], there: Sequence[Candidate]) -> Any:
    kinds = [each.field.type for each in here]
    if kinds and widest(kinds) is None:
        raise _conflict(table, here)
    for kind in sorted({each.field.type for each in there}, key=str):
        if widest([*kinds, kind]) is not None:
            kinds.append(kind)
    return widest(kinds)


def _conflict(table: TableName, candidates: Sequence[Candidate]) -> SchemaMismatch:
    first = candidates[0]
    second = next(
        (each for each in candidates if widest([first.field.type, each.field.type]) is None), candidates[-1]
    )
    column = first.field.name
    return SchemaMismatch(
        f"Column {column} of {table} is {first} and {second}: no type takes the values of both.",
        hint=f"Give it one definition in all shards, or choose a type: canal-group schema resolve {table} "
        f"{shlex.quote(column)} --type text.",
        table=str(table),
        column=column,
        types=f"{first.field.type}, {second.field.type}",
    )
