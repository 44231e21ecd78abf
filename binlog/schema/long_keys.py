"""Long keys: which UNIQUE keys MariaDB cannot index as they are; it keeps a hash of them in a hidden column.

How long a key may be depends on the table's engine. Observed at MariaDB 10.11.
"""

from __future__ import annotations

from collections.abc import Iterable

from canal_group.binlog.charsets.charsets import charset_of
from canal_group.binlog.columns.types.strings import listed_size
from canal_group.binlog.schema.definition import ColumnDefinition
from canal_group.merge.values.types.kinds import Storage
from canal_group.merge.values.types.table import BY_NAME, TypeRow

#: bytes of a key in InnoDB, and in engines that are not listed
_BYTES_MAX = 3072
_BYTES_MAX_OF = {"MYISAM": 1000}
#: engines whose indexes are hashes themselves, or that refuse a key that is too long
_WITHOUT_HASHES = {"MEMORY", "ARIA"}
#: engines whose limit or treatment of long keys differs from InnoDB's
UNLIKE_INNODB = {*_BYTES_MAX_OF, *_WITHOUT_HASHES}
#: bytes that MariaDB's keys cover of a geometry, if its type does not say it
GEOMETRY_PREFIX = 8
#: of a value whose type does not say it
_BYTES_USUAL = 8


def may_hash(engine: str) -> bool:
    """Return whether UNIQUE keys of an engine's tables may be hashed; empty: the engine is unknown."""
    return engine not in _WITHOUT_HASHES


def is_long(parts: Iterable[tuple[ColumnDefinition, int]], engine: str) -> bool:
    """Return whether a UNIQUE key is too long for an index.

    Args:
        parts: its columns, each with the key's prefix of it in characters or bytes; 0: all of it.
        engine: in upper case; empty: unknown.
    """
    size = 0
    for column, prefix in parts:
        row = BY_NAME[column.type]
        if row.is_unlimited and not prefix and not row.key_bytes:
            return True
        size += _bytes(row, column, prefix)
    return size > _BYTES_MAX_OF.get(engine, _BYTES_MAX)


def _bytes(row: TypeRow, column: ColumnDefinition, prefix: int) -> int:
    match row.storage:
        case Storage.BIT:
            return (column.length + 7) // 8
        case _ if prefix or column.length:
            return (prefix or column.length) * charset_of(column.collation).width
        case Storage.ENUM | Storage.SET:
            return listed_size(row.storage, len(column.values))
        case Storage.DECIMAL:
            return sum(
                digits // 9 * 4 + (digits % 9 + 1) // 2
                for digits in (column.precision - column.scale, column.scale)
            )
        case Storage.MOMENT:
            return row.size + (column.decimals + 1) // 2
        case _:
            return row.size or _BYTES_USUAL
