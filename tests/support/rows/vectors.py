"""Rows with vectors, as MariaDB logs them."""

from __future__ import annotations

import struct

from support.binlog.binlog_bytes import File

from canal_group.merge.values.types.table import ColumnType

SMALL, LARGE = (1.0, -2.5, 0.5), tuple(float(n) for n in range(100))
#: INT, VECTOR(3), VECTOR(100), VARBINARY(12), as MariaDB's table maps have them
COLUMNS = [
    (ColumnType.LONG, b""),
    (ColumnType.VARCHAR, struct.pack("<H", 12)),
    (ColumnType.VARCHAR, struct.pack("<H", 400)),
    (ColumnType.VARCHAR, struct.pack("<H", 12)),
]
NAMES = ("id", "small", "large", "bytes")


def packed(floats):
    return struct.pack(f"<{len(floats)}f", *floats)


def row(number, small=None):
    small, large = packed(SMALL) if small is None else small, packed(LARGE)
    head = struct.pack("<iB", number, len(small)) + small
    return head + struct.pack("<H", len(large)) + large + b"\x08abcdefgh"


def named():
    """Return the optional part of a table map: the charset of all strings is binary, and columns' names."""
    names = b"".join(bytes([len(name)]) + name.encode() for name in NAMES)
    return b"\2\1\x3f" + b"\4" + bytes([len(names)]) + names


def written(tmp_path, *rows, version="11.8.2-MariaDB-log", tail=b""):
    """Return a file of one transaction with rows of COLUMNS."""
    file = File(version, checksum=False).query("BEGIN").table_map(COLUMNS, tail=tail)
    return file.insert(COLUMNS, rows).xid().write(tmp_path / "mysql-bin.000001")
