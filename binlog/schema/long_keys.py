"""Long keys: which UNIQUE keys MariaDB cannot index as they are; it keeps a hash of them in a hidden column.

How long a key may be depends on the table's engine. Found out at MariaDB 10.11.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from binlog.charsets.charsets import charset_of
from binlog.schema.definition import ColumnDefinition
from binlog.schema.resolving import is_text

#: bytes of a key in InnoDB, and in engines that are not listed
_BYTES_MAX = 3072
_BYTES_MAX_OF = {"MYISAM": 1000}
#: engines whose indexes are hashes themselves, or that refuse what is too long
_WITHOUT_HASHES = {"MEMORY", "ARIA"}
#: engines that differ from InnoDB in this
UNLIKE_INNODB = {*_BYTES_MAX_OF, *_WITHOUT_HASHES}
#: bytes of a key that MariaDB's keys cover of a geometry; those of a point are all of it
GEOMETRY_PREFIX = 8
GEOMETRY_PREFIXES = {"point": 25}
_BYTES = {
    "tinyint": 1,
    "year": 1,
    "smallint": 2,
    "mediumint": 3,
    "date": 3,
    "int": 4,
    "float": 4,
    "inet4": 4,
    "inet6": 16,
    "uuid": 16,
}
_FRACTIONS = {"time": 3, "timestamp": 4, "datetime": 5}
#: bytes of the number that stands for a value, by how many values there may be
NUMBERED: dict[str, Callable[[int], int]] = {
    "enum": lambda values: 1 if values < 256 else 2,  # noqa: PLR2004  what fits one byte
    "set": lambda values: (values + 7) // 8 if values <= 32 else 8,  # noqa: PLR2004  never 5 to 7 bytes
}


def may_hash(engine: str) -> bool:
    """Return whether UNIQUE keys of an engine's tables may be hashed; empty: the engine is not known."""
    return engine not in _WITHOUT_HASHES


def is_long(parts: Iterable[tuple[ColumnDefinition, int]], engine: str) -> bool:
    """Return whether a UNIQUE key is too long for an index.

    Args:
        parts: its columns, each with the key's prefix of it in characters or bytes; 0: all of it.
        engine: in upper case; empty: not known.
    """
    size = 0
    for column, prefix in parts:
        if is_text(column) and not prefix and column.type not in GEOMETRY_PREFIXES:
            return True
        size += _bytes(column, prefix)
    return size > _BYTES_MAX_OF.get(engine, _BYTES_MAX)


def _bytes(column: ColumnDefinition, prefix: int) -> int:
    if prefix or column.length:
        bits = column.type == "bit"
        return (
            (column.length + 7) // 8
            if bits
            else (prefix or column.length) * charset_of(column.collation).width
        )
    if column.type in NUMBERED:
        return NUMBERED[column.type](len(column.values))
    if column.type == "decimal":
        return sum(
            digits // 9 * 4 + (digits % 9 + 1) // 2
            for digits in (column.precision - column.scale, column.scale)
        )
    if column.type in _FRACTIONS:
        return _FRACTIONS[column.type] + (column.decimals + 1) // 2
    return _BYTES.get(column.type, 8)
