"""Columns: the images of a table's rows as canal's columns, each value as its text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from canal_group.merge.rows.assemble import images
from canal_group.merge.rows.canal.event_types import numbers_of
from canal_group.merge.rows.canal.jdbc import jdbc_type, plain_type
from canal_group.merge.rows.canal.wire import number, text
from canal_group.merge.rows.native.canal import Rows
from canal_group.merge.rows.text import values_of
from canal_group.merge.values.chunk import PRIMARY_KEY, mysql_type_of
from canal_group.merge.values.rows.absent import absent_in

if TYPE_CHECKING:
    from canal_group.merge.rows.native.canal import Column

_Bytes: TypeAlias = NDArray[np.uint8]

#: columns whose constant bytes are cached from batch to batch
COLUMNS_MAX: Final = 4_096
#: a mask of rows in which no column is absent
_NONE: _Bytes = np.empty(0, np.uint8)


def encoded_rows(rows: pa.Table) -> Rows:
    """Return the row changes of one table in one schema version as rows of canal's RowChange.

    Args:
        rows: (n,) see `canal_group.merge.rows.assemble.ShardTable`.
    """
    return Rows(_columns(rows, "before"), _columns(rows, "after"), numbers_of(rows))


def _columns(rows: pa.Table, side: str) -> Iterator[Column]:
    image = images(rows, side)
    if image.null_count == len(image):
        return
    key = json.loads((rows.schema.metadata or {}).get(PRIMARY_KEY, b"[]"))
    absent = absent_in(rows, side)
    for index, column in enumerate(image.type):
        mysql_type = mysql_type_of(column)
        values = values_of(pc.struct_field(image, [index]), mysql_type)
        constant = _constant(index, column.name, column.name in key, mysql_type, column.type)
        missing = _NONE if absent is None else np.ascontiguousarray(absent[:, index]).view(np.uint8)
        yield constant.head, constant.wide_head, constant.tail, values, constant.number_max, missing


class _Constant(NamedTuple):
    """The bytes of a column that all rows share; see `canal_group.merge.rows.native.canal.Column`."""

    head: bytes
    wide_head: bytes
    tail: bytes
    number_max: int | None


@lru_cache(COLUMNS_MAX)
def _constant(index: int, name: str, is_key: bool, mysql_type: str, kind: Any) -> _Constant:
    jdbc = jdbc_type(mysql_type, kind)
    name_key = text(3, name) + number(4, is_key)
    head, wide_head = (number(1, index) + number(2, each) + name_key for each in (jdbc.number, jdbc.wider))
    return _Constant(head, wide_head, text(10, plain_type(mysql_type)), jdbc.number_max)
