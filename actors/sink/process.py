"""Process: a plug-in's function on the images of a table's rows, and the check that it only adds columns.

The function gets the images before and those after a change apart, and of each only the columns that it
reads. So the ordinal of a row, what happened to it, and whether it is there, never reach it. It hands back
what it was given, which shows that its rows are in their order.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from canal_group.actors.sink.images import Images
from canal_group.actors.sink.row_function import ADDED_TYPES, RowFunction
from canal_group.merge.values.chunk import MYSQL_TYPE


class ProcessFailed(Exception):  # noqa: N818  named for what happened
    """A function did what it may not; the text is the rest of a sentence that begins with its name."""


@dataclass(frozen=True)
class Process:
    """A plug-in's function, which is made at its first use."""

    name: str
    #: makes the function; raises ConfigError if that is not possible on this machine
    make: Callable[[], RowFunction]

    @cached_property
    def _function(self) -> RowFunction:
        return self.make()

    @property
    def reads(self) -> Sequence[str]:
        """Names of the columns that the function reads."""
        return tuple(self._function.reads)

    @cached_property
    def added(self) -> list[pa.Field]:
        """The columns that it adds, as consumers see them.

        Raises:
            ProcessFailed: it declares a column that no table can have.
        """
        declared = self._function.adds
        if not isinstance(declared, pa.Schema) or not len(declared):
            raise ProcessFailed("declares no schema of columns that it adds")
        for column in declared:
            if column.type not in ADDED_TYPES and not pa.types.is_decimal(column.type):
                raise ProcessFailed(
                    f"declares column {column.name} of type {column.type}, which none can have"
                )
        return [pa.field(each.name, each.type, metadata={MYSQL_TYPE: b"computed"}) for each in declared]

    def extended(self, table: str, fields: list[Any], images: Images) -> Images:
        """Return images with the added columns.

        Args:
            table: its name in the source.
            fields: of the images' columns.
            images: as they leave the shard without it.

        Raises:
            ProcessFailed: see the module's docstring.
        """
        count = len(images.present)
        rows = np.flatnonzero(images.present)
        absent = None if images.absent is None else np.pad(images.absent, ((0, 0), (0, len(self.added))))
        if not len(rows):
            added = [pa.nulls(count, each.type) for each in self.added]
            return Images([*images.columns, *added], images.present, absent)
        indexes = self._indexes(fields, images)
        given = pa.RecordBatch.from_arrays(
            [images.columns[index].take(pa.array(rows)) for index in indexes],
            schema=pa.schema([fields[index] for index in indexes]),
        )
        if not indexes:
            given = pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
        added = self._checked(table, given)
        if len(rows) < count:
            back = pa.array(np.cumsum(images.present) - 1, mask=~images.present)
            added = [each.take(back) for each in added]
        return Images([*images.columns, *added], images.present, absent)

    def _indexes(self, fields: list[Any], images: Images) -> list[int]:
        by_name = {each.name.lower(): index for index, each in enumerate(fields)}
        indexes = [by_name[name.lower()] for name in self.reads]
        for index in indexes:
            if images.absent is not None and (images.absent[:, index] & images.present).any():
                name = fields[index].name
                raise ProcessFailed(f"reads column {name}, which a row image lacks (binlog_row_image)")
        return indexes

    def _checked(self, table: str, given: pa.RecordBatch) -> list[Any]:
        """Return the columns that the function adds to rows."""
        try:
            made = self._function.process(table, given)
        except Exception as error:
            # Its text may hold a value, which must not leave the shard.
            raise ProcessFailed(f"failed ({type(error).__name__} at {_raised_at(error)})") from error
        if not isinstance(made, pa.RecordBatch):
            raise ProcessFailed(f"returned a {type(made).__name__}, and not a RecordBatch")
        expected = [*given.schema, *self.added]
        if [(each.name, each.type) for each in made.schema] != [(each.name, each.type) for each in expected]:
            columns = ", ".join(f"{each.name} {each.type}" for each in made.schema)
            declared = ", ".join(f"{each.name} {each.type}" for each in expected)
            raise ProcessFailed(f"returned the columns {columns or 'none'} instead of {declared}")
        if made.num_rows != given.num_rows:
            raise ProcessFailed(f"returned {made.num_rows} rows for {given.num_rows}")
        for index, column in enumerate(given.columns):
            if not made.column(index).equals(column):
                name = given.schema[index].name
                raise ProcessFailed(
                    f"changed column {name} or the order of the rows, and may only add columns"
                )
        return list(made.columns[given.num_columns :])


def _raised_at(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"
