"""Binlogs of transactions that insert numbers."""

from __future__ import annotations

import struct

from canal_group.binlog.files.binlog_files import BinlogFiles
from canal_group.merge.errors import DataError
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.types.table import ColumnType

INT = [(ColumnType.LONG, b"")]
IN_USE, RELAY = 0x01, 0x40


def rows_of(file, *numbers, number=7):
    """Append a transaction that inserts numbers."""
    file.query("BEGIN").table_map(INT, number=number)
    return file.insert(INT, [struct.pack("<i", each) for each in numbers], number=number).xid()


def read(files, **options):
    """Return the numbers inserted, and the error that ended the reading, if any."""
    found, error = [], None
    try:
        for chunk in BinlogFiles(files, TableName, **options):
            for table in chunk.tables:
                found += [row["after"]["@1"] for row in table.rows.to_pylist()]
    except DataError as caught:
        error = caught
    return found, error
