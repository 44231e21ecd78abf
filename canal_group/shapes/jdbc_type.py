"""JDBC types: the number of `java.sql.Types` that canal gives a column, by its type in the source."""

from __future__ import annotations

import re

_WORD = re.compile(r"[a-z]+")

_BIT, _TINYINT, _BIGINT, _CHAR, _DECIMAL, _INTEGER, _SMALLINT, _REAL, _DOUBLE = -7, -6, -5, 1, 3, 4, 5, 7, 8
_VARCHAR, _DATE, _TIME, _TIMESTAMP, _BLOB, _CLOB, _BINARY = 12, 91, 92, 93, 2004, 2005, -2

#: by the first word of the type
_TYPES = {
    "bit": _BIT,
    "tinyint": _TINYINT,
    "smallint": _SMALLINT,
    "mediumint": _INTEGER,
    "int": _INTEGER,
    "integer": _INTEGER,
    "bigint": _BIGINT,
    "decimal": _DECIMAL,
    "numeric": _DECIMAL,
    "float": _REAL,
    "double": _DOUBLE,
    "date": _DATE,
    "time": _TIME,
    "datetime": _TIMESTAMP,
    "timestamp": _TIMESTAMP,
    "year": _VARCHAR,
    "char": _CHAR,
    "varchar": _VARCHAR,
    "enum": _INTEGER,
    "set": _BIT,
    "json": _VARCHAR,
    "tinytext": _CLOB,
    "text": _CLOB,
    "mediumtext": _CLOB,
    "longtext": _CLOB,
    "tinyblob": _BLOB,
    "blob": _BLOB,
    "mediumblob": _BLOB,
    "longblob": _BLOB,
    "binary": _BLOB,
    "varbinary": _BLOB,
    "geometry": _BINARY,
}
#: of an unsigned column: one size up
_UNSIGNED = {
    "tinyint": _SMALLINT,
    "smallint": _INTEGER,
    "int": _BIGINT,
    "integer": _BIGINT,
    "bigint": _DECIMAL,
}


def jdbc_type(mysql_type: str) -> int:
    """Return the number of a type such as `bigint(20) unsigned`; VARCHAR's for one that is not known."""
    found = _WORD.match(mysql_type.lower())
    word = found[0] if found else ""
    if word in _UNSIGNED and "unsigned" in mysql_type.lower():
        return _UNSIGNED[word]
    return _TYPES.get(word, _VARCHAR)
