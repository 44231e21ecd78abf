"""Columns: from a table map's columns to typed Arrow fields, and from column buffers to Arrow arrays.

`field_of` returns the Arrow field of a column, `plan_of` how `native.images` reads its values. `array_of`
turns the filled buffers into an Arrow array, and copies only what needs conversion.

The conversion is lossless where Arrow allows it. Two kinds of values do not fit their type; they are counted
and raise no error. Zero dates (with a zero or impossible part) become null. Text that is invalid in its own
charset keeps its valid parts and gets U+FFFD for the rest.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from canal_group.binlog.charsets.charsets import charset_of
from canal_group.binlog.columns.special import special_of
from canal_group.binlog.columns.table_map import TableMap
from canal_group.binlog.columns.text import TextRule, text_array, text_rule
from canal_group.binlog.columns.types.column import Column, Extra
from canal_group.binlog.columns.types.printers import PRINTERS, printed
from canal_group.binlog.columns.types.table import TYPES
from canal_group.binlog.native.images import Layout
from canal_group.binlog.native.shapes import ColumnBuffers, ColumnPlan
from canal_group.merge.errors import UnsupportedEvent
from canal_group.merge.values.chunk import (
    MYSQL_TYPE,
    PRIMARY_KEY,
    Lineage,
    SpecialColumns,
    TableName,
    rows_schema,
)


@dataclass(slots=True)
class Losses:
    """Counts of values and events that were lost or changed in decoding."""

    #: dates and times with a zero or impossible part, now null
    zero_dates: int = 0
    #: strings with bytes that their charset does not have
    invalid_text: int = 0
    #: events of unknown types that their server marked as ignorable, by the name of their type
    ignored_events: Counter[str] = field(default_factory=Counter)
    #: events that an operator has left out, by the name of their type
    skipped_events: Counter[str] = field(default_factory=Counter)
    #: statements that are too long to be read, see `Limits.statement_chars_max`
    long_statements: int = 0


def fields_of(table: TableMap) -> list[Any]:
    """Return a table's Arrow fields, in order.

    Raises:
        UnsupportedEvent: a column's charset cannot be decoded.
    """
    return [field_of(column) for column in table.columns]


def field_of(column: Column) -> Any:
    """Return a column's Arrow field: nullable, with the source's type in its metadata.

    Raises:
        UnsupportedEvent: the column's charset cannot be decoded.
    """
    stored = TYPES[column.type]
    sql = stored.sql(column)
    arrow = pa.utf8() if sql in PRINTERS else stored.arrow(column)
    return pa.field(column.name, arrow, metadata={MYSQL_TYPE: sql.encode()})


def plan_of(column: Column) -> ColumnPlan:
    """Return how a column's values are stored, see `ColumnPlan`."""
    return TYPES[column.type].plan(column)


@dataclass(frozen=True, slots=True)
class Reading:
    """How a column's buffers become an array."""

    arrow: Any
    #: how stored text becomes UTF-8; None for other types, and for text that is UTF-8 already
    text: TextRule | None = None
    #: ENUM's values; index 0 is the empty string, for a value that the ENUM does not have
    dictionary: Any = None
    #: prints a stored value as text; None: stored values are handed out as they are
    printer: Callable[[bytes], str] | None = None

    @classmethod
    def of(cls, column: Column, field: Any) -> Reading:
        """Return the reading of a column, given its field from `field_of`."""
        arrow, printer = field.type, PRINTERS.get(field.metadata[MYSQL_TYPE].decode())
        if pa.types.is_dictionary(arrow):
            return cls(arrow, dictionary=pa.array(["", *column.values], type=pa.utf8()))
        if printer is not None:
            return cls(arrow, printer=printer)
        if TYPES[column.type].extra is Extra.CHARSET and not column.binary:
            return cls(arrow, text=text_rule(charset_of(column.collation)))
        return cls(arrow)


def array_of(reading: Reading, rows: int, buffers: ColumnBuffers, losses: Losses) -> Any:
    """Return a column's buffers as an Arrow array; buffers are not copied unless text needs conversion.

    Args:
        reading: how to read the column.
        rows: how many slots the buffers have.
        buffers: see `ColumnBuffers`.
        losses: where values that do not fit are counted.

    Raises:
        OverflowError: its text has more than 2 GiB.
    """
    valid, nulls, slots, data = buffers
    arrow, validity = reading.arrow, None if valid is None else pa.py_buffer(valid)
    if data is None:
        if reading.dictionary is None:
            return pa.Array.from_buffers(arrow, rows, [validity, pa.py_buffer(slots)], nulls)
        indices = pa.Array.from_buffers(pa.int32(), rows, [validity, pa.py_buffer(slots)], nulls)
        return pa.DictionaryArray.from_arrays(indices, reading.dictionary, safe=False)  # indices are checked
    if pa.types.is_list(arrow):
        unit = arrow.value_type.bit_width // 8
        elements = pa.Array.from_buffers(arrow.value_type, len(data) // unit, [None, pa.py_buffer(data)], 0)
        return pa.Array.from_buffers(arrow, rows, [validity, pa.py_buffer(slots)], nulls, children=[elements])
    if reading.printer is not None:
        stored = [validity, pa.py_buffer(slots), pa.py_buffer(data)]
        return printed(reading.printer, pa.Array.from_buffers(pa.binary(), rows, stored, nulls))
    if reading.text is None:
        return pa.Array.from_buffers(arrow, rows, [validity, pa.py_buffer(slots), pa.py_buffer(data)], nulls)
    array, invalid = text_array(reading.text, rows, buffers)
    losses.invalid_text += invalid
    return array


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A selected table in one schema version: its name for consumers, and the schema of its rows."""

    name: TableName
    map: TableMap
    #: the record batch's schema, see `canal_group.merge.values.chunk`
    arrow: Any
    #: how its images are stored
    layout: Layout
    #: for each column
    readings: tuple[Reading, ...]
    #: the primary key, the name, the source's type and the role of each column, and the lineage
    described: tuple[bytes, ...]
    #: which columns MariaDB fills itself
    special: SpecialColumns | None
    lineage: Lineage

    @classmethod
    def of(cls, name: TableName, table: TableMap, lineage: Lineage | None = None) -> TableSchema:
        """Return the schema of a table map's rows under the name that consumers see.

        Args:
            name: that name.
            table: the table map.
            lineage: where the values come from; None: unknown.

        Raises:
            UnsupportedEvent: a column's charset cannot be decoded, or its metadata fit no type.
        """
        try:
            layout = Layout([plan_of(column) for column in table.columns])
        except ValueError as error:
            raise UnsupportedEvent(
                f"Columns of {table.schema}.{table.table} are stored in an unknown format ({error}).",
                hint="The server may be newer than this version: leave the table out.",
            ) from error
        fields = fields_of(table)
        arrow = rows_schema(fields, json.dumps(list(table.primary_key)).encode())
        readings = tuple(Reading.of(column, each) for column, each in zip(table.columns, fields, strict=True))
        key = arrow.metadata[PRIMARY_KEY]
        columns = (
            (each.name.encode(), each.metadata[MYSQL_TYPE], column.role.encode())
            for column, each in zip(table.columns, fields, strict=True)
        )
        lineage = lineage or Lineage()
        described = (key, *itertools.chain.from_iterable(columns), repr(lineage).encode())
        return cls(name, table, arrow, layout, readings, described, special_of(table.columns), lineage)
