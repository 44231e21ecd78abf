"""The port to a processing plug-in: a function that adds columns to rows before they leave the shard.

A plug-in is a module behind an entry point of the group `canal_group.processing`. It has SETTINGS, which
inherit `canal_group.conf.value.Settings`, and FUNCTION, a class with this protocol. Its tests inherit
`canal_group.programs.conformance.row_function`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

#: types of columns that a function may add: those that all outputs print
ADDED_TYPES = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float32(), pa.float64(), pa.utf8(), pa.binary()),
)


class RowFunction(Protocol):
    """Adds columns to rows; they depend on the columns that it reads, and on nothing else of the row.

    A shard makes one for each of its readers, which calls it on one thread. It is called with the same rows
    again after an error or a rewind. Rows wait for it: give what it waits for a timeout.
    """

    #: names of the columns that it reads, as consumers see them: after masks and new names
    reads: Sequence[str]
    #: the columns that it adds, of `ADDED_TYPES` or decimals; the same as long as the settings are
    adds: pa.Schema

    def __init__(self, settings: Any) -> None:
        """Make it.

        Args:
            settings: an instance of its module's `SETTINGS`.
        """

    def process(self, table: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with the added columns after those that they have, which stay as they are.

        Whatever it raises stops the shard. The operator gets the error's kind and where it was raised, and
        not its text, which may hold a value.

        Args:
            table: `schema.table`, as the source has it.
            rows: images of rows, at least one, with the columns of `reads` in that order.
        """
