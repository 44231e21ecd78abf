"""The joined schema of a table: the columns of all its definitions, in shards and over time.

Columns are matched by name; names compare without case, as in MySQL. The type of a column is the one that was
chosen for it, or else the widest of its types. The order is that of the newest definition, followed by the
columns that only others have.

Definitions without rows at hand may add columns and widen types, so that a column does not
come and go from batch to batch. They never cause a conflict.

The widest of several types is the narrowest that takes the values of all of them:

    integers              the narrowest integer that holds both ranges; signed and uint64: decimal128(20, 0)
    integers, decimals    a decimal with as many digits before and after the point as any of them
    integers, floats      the narrowest float that holds every integer of that size exactly; float64 for those
                          of 64 bits, of which a value that it cannot hold is refused when it is converted
    ENUM, ENUM            a dictionary of all their values
    ENUM, text            text
    DATE, DATETIME        a timestamp without a zone; a date is its midnight

Every other pair of different types has none: no type takes the values of both exactly.
The result does not depend on the order of the types.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from canal_group.merge.errors import SchemaMismatch
from canal_group.merge.values.chunk import TableName, mysql_type_of

#: bits of a float's significand
_SIGNIFICAND = {pa.float32(): 24, pa.float64(): 53}
_SIGNED = {bits: getattr(pa, f"int{bits}")() for bits in (8, 16, 32, 64)}
_UNSIGNED = {bits: getattr(pa, f"uint{bits}")() for bits in (8, 16, 32, 64)}
#: digits of the greatest value
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_DIGITS_SIGNED_64 = 19
_DECIMAL_128, _DECIMAL_256 = 38, 76
_BITS_MAX = 64


def widest(types: Iterable[Any]) -> Any:
    """Return the narrowest type that takes the values of all types; None if there is none.

    Args:
        types: Arrow types that a table's columns have; at least one.
    """
    kinds = list(dict.fromkeys(types))
    if len(kinds) > 1 and not all(map(pa.types.is_dictionary, kinds)):
        kinds = list(dict.fromkeys(_plain(each) for each in kinds))
    if len(kinds) == 1:
        return kinds[0]
    for takes, widen in _FAMILIES:
        if all(takes(each) for each in kinds):
            return widen(kinds)
    return None


def _plain(kind: Any) -> Any:
    """Return the type of a dictionary's values, or the type itself."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _integer(types: list[Any]) -> Any:
    signed = [each.bit_width for each in types if pa.types.is_signed_integer(each)]
    unsigned = [each.bit_width for each in types if pa.types.is_unsigned_integer(each)]
    if not signed:
        return _UNSIGNED[max(unsigned)]
    bits = max([*signed, *(2 * each for each in unsigned)])
    return _SIGNED[bits] if bits <= _BITS_MAX else pa.decimal128(_DIGITS[64], 0)


def _decimal(types: list[Any]) -> Any:
    digits = max(_digits_before_point(each) for each in types)
    scale = max(each.scale if pa.types.is_decimal(each) else 0 for each in types)
    wide = digits + scale > _DECIMAL_128 or any(pa.types.is_decimal256(each) for each in types)
    if digits + scale > _DECIMAL_256:
        return None
    return (pa.decimal256 if wide else pa.decimal128)(digits + scale, scale)


def _digits_before_point(kind: Any) -> int:
    if pa.types.is_decimal(kind):
        return int(kind.precision - kind.scale)
    return _DIGITS_SIGNED_64 if kind == pa.int64() else _DIGITS[kind.bit_width]


def _float(types: list[Any]) -> Any:
    integers = [each for each in types if pa.types.is_integer(each)]
    bits = max((each.bit_width - pa.types.is_signed_integer(each) for each in integers), default=0)
    floats = [each for each in types if pa.types.is_floating(each)]
    return pa.float64() if pa.float64() in floats or bits > _SIGNIFICAND[pa.float32()] else pa.float32()


def _enum(types: list[Any]) -> Any:
    return max(types, key=lambda each: int(each.index_type.bit_width))


def _takes_decimal(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def _takes_float(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _takes_moment(kind: Any) -> bool:
    return kind in (pa.date32(), pa.timestamp("us"))


#: the first that takes every type decides
_FAMILIES: tuple[tuple[Callable[[Any], bool], Callable[[list[Any]], Any]], ...] = (
    (pa.types.is_dictionary, _enum),
    (pa.types.is_integer, _integer),
    (_takes_decimal, _decimal),
    (_takes_float, _float),
    (_takes_moment, lambda _: pa.timestamp("us")),
)


@dataclass(frozen=True, slots=True)
class Definition:
    """A table's columns in one shard, in one version."""

    shard: str
    #: fields with `mysql_type` in their metadata, where it is known
    columns: pa.Schema


@dataclass(frozen=True, slots=True)
class Candidate:
    """One shard's version of a column."""

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
