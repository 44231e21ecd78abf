"""Columns: the images of a table's rows as canal's columns, each value as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from merge.rows.absent import absent_in
from merge.rows.assemble import images
from merge.rows.canal.jdbc import jdbc_type, plain_type
from merge.rows.canal.wire import number, text
from merge.rows.native.canal import Rows
from merge.rows.text import text as text_of
from merge.values.chunk import MYSQL_TYPE, PRIMARY_KEY

if TYPE_CHECKING:
    from merge.rows.native.canal import Column

_Bytes: TypeAlias = NDArray[np.uint8]

#: a mask that says the same of every row
_EVERY: _Bytes = np.empty(0, np.uint8)
_NO_OFFSETS = np.zeros(1, np.int32)


def encoded_rows(rows: pa.Table) -> Rows:
    """Return the row changes of one table in one schema version as rows of canal's RowChange.

    Args:
        rows: (n,) see `merge.rows.assemble.ShardTable`.
    """
    ops = rows.column("_op").to_numpy()
    return Rows(_columns(rows, "before"), _columns(rows, "after"), ops)


def _columns(rows: pa.Table, side: str) -> Iterator[Column]:
    image = images(rows, side)
    if image.null_count == len(image):
        return
    key = json.loads((rows.schema.metadata or {}).get(PRIMARY_KEY, b"[]"))
    absent = absent_in(rows, side)
    for place, column in enumerate(image.type):
        mysql_type = (column.metadata or {}).get(MYSQL_TYPE, b"").decode()
        values = pc.struct_field(image, [place])
        jdbc = jdbc_type(mysql_type, column.type)
        named = text(3, column.name) + number(4, column.name in key)
        head, wide_head = (number(1, place) + number(2, each) + named for each in (jdbc.number, jdbc.wider))
        wide = _EVERY if jdbc.number_max is None else _above(values, jdbc.number_max)
        missing = _EVERY if absent is None else np.ascontiguousarray(absent[:, place]).view(np.uint8)
        ends, data, valid = _text(text_of(values, mysql_type))
        yield head, wide_head, text(10, plain_type(mysql_type)), ends, data, valid, wide, missing


def _above(values: Any, number_max: int) -> _Bytes:
    """Return which values are above a number; none where no value is."""
    above = pc.fill_null(pc.greater(values, pa.scalar(number_max, values.type)), False)
    found: _Bytes = above.combine_chunks().to_numpy(zero_copy_only=False).view(np.uint8)
    return found if found.any() else _EVERY


def _text(values: Any) -> tuple[NDArray[np.int32], _Bytes, _Bytes]:
    """Return offsets and data of an array of texts, and which of them are valid."""
    _, offsets, data = values.buffers()
    ends = (
        np.frombuffer(offsets, np.int32)[values.offset :][: len(values) + 1] if len(values) else _NO_OFFSETS
    )
    found = _EVERY if data is None or not data.size else np.frombuffer(data, np.uint8)
    if not values.null_count:
        return ends, found, _EVERY
    return ends, found, values.is_valid().to_numpy(zero_copy_only=False).view(np.uint8)
