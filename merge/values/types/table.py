"""The table of column types: a row for each type that a column of a source can have.

Who reads rows, definitions or statements, and who prints values, finds all that differs between types here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import pyarrow as pa

from canal_group.merge.values.types.kinds import Jdbc, Spelling, Storage, Vendor


class ColumnType(IntEnum):
    """Type byte of a column in table maps (`enum_field_types` in MySQL's field_types.h)."""

    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    TYPED_ARRAY = 20
    BLOB_COMPRESSED = 140
    VARCHAR_COMPRESSED = 141
    VECTOR = 242
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


@dataclass(frozen=True, slots=True)
class TypeRow:
    """The facts about one column type."""

    #: as `DATA_TYPE` in information_schema has it
    name: str
    #: what table maps call it; types of one number differ in size, charset or more
    code: ColumnType
    storage: Storage
    spelling: Spelling
    #: the number that canal gives to columns of the type; None: the number of the Arrow type
    jdbc: Jdbc | None
    #: Arrow type of the values, the signed type if both exist; None: the column decides
    arrow: Any = None
    #: other words for it in statements
    words: tuple[str, ...] = ()
    #: bytes of a value, without those of a fraction of a second; 0: that depends on the column, or the value
    size: int = 0
    #: bytes of the length before a value, where all columns of the type have the same
    length_size: int = 0
    #: bytes of an element of a list
    unit: int = 0
    #: length of a column that is defined without one
    length: int | None = None
    #: digits that a number's text has at least
    digits_min: int = 0
    #: most bytes of a text without a length
    bytes_max: int = 0
    #: of a text: the type that it is in charset `binary`
    of_bytes: str = ""
    #: bytes that MariaDB's keys cover of a geometry, if not the usual ones
    key_bytes: int = 0
    #: the number of a geometry's type in table maps
    geometry: int | None = None
    #: what the type's name is followed by in a column's metadata
    comment: str = ""
    #: code of the format before MySQL 5.6, whose digits of a fraction are not logged
    old: ColumnType | None = None
    #: code of columns that MariaDB compresses
    packed: ColumnType | None = None
    #: what MariaDB's table maps say instead, so that only a lookup tells it from a binary string
    hidden_in: ColumnType | None = None
    #: the vendor whose table maps count the type among the types with a charset, although the type has no
    #: charset
    counted_as_text: Vendor | None = None
    #: the version of MariaDB that has it first, if only MariaDB has it
    since: tuple[int, int] | None = None

    @property
    def has_charset(self) -> bool:
        """Whether its columns have a charset: texts, ENUM and SET."""
        return bool(self.of_bytes) or self.spelling is Spelling.LISTED

    @property
    def has_prefixes(self) -> bool:
        """Whether a key may cover the beginning of a value, whose length has a limit."""
        return self.storage in (Storage.CHAR, Storage.VARCHAR) and self.hidden_in is None

    @property
    def is_unlimited(self) -> bool:
        """Whether a value's length has no limit of its own: texts, blobs and geometries."""
        return self.storage is Storage.BLOB or self.geometry is not None

    def fits_hidden(self, size: int) -> bool:
        """Return whether a binary string of `size` bytes may be of this type; see `hidden_in`."""
        return size == self.size if self.size else size > 0 and size % self.unit == 0


_C, _S, _W, _J = ColumnType, Storage, Spelling, Jdbc


def _integer(name: str, code: ColumnType, jdbc: Jdbc, size: int, arrow: Any, *words: str) -> TypeRow:
    return TypeRow(name, code, _S.INTEGER, _W.INTEGER, jdbc, arrow, words, size)


def _moment(name: str, code: ColumnType, jdbc: Jdbc, arrow: Any, size: int, old: ColumnType) -> TypeRow:
    return TypeRow(name, code, _S.MOMENT, _W.FRACTION, jdbc, arrow, size=size, old=old)


def _text(name: str, of_bytes: str, length_size: int, spelling: Spelling = _W.UNSIZED_TEXT) -> TypeRow:
    return TypeRow(
        name,
        _C.BLOB,
        _S.BLOB,
        spelling,
        _J.CLOB,
        length_size=length_size,
        bytes_max=(1 << 8 * length_size) - 1,
        of_bytes=of_bytes,
        packed=_C.BLOB_COMPRESSED,
    )


def _blob(name: str, length_size: int, spelling: Spelling = _W.BARE) -> TypeRow:
    return TypeRow(
        name, _C.BLOB, _S.BLOB, spelling, _J.BLOB, length_size=length_size, packed=_C.BLOB_COMPRESSED
    )


def _address(name: str, size: int, since: tuple[int, int]) -> TypeRow:
    """Return a type whose values are stored as BINARY."""
    return TypeRow(
        name, _C.STRING, _S.CHAR, _W.MEANINGLESS, None, size=size, hidden_in=_C.STRING, since=since
    )


def _geometry(name: str, number: int, key_bytes: int = 0) -> TypeRow:
    return TypeRow(
        name,
        _C.GEOMETRY,
        _S.BYTES,
        _W.MEANINGLESS,
        _J.BLOB,
        pa.binary(),
        length_size=4,
        key_bytes=key_bytes,
        geometry=number,
        # as stored
        comment=" /* srid u32, wkb */",
        counted_as_text=Vendor.MARIADB,
    )


TABLE: Final = (
    _integer("tinyint", _C.TINY, _J.TINYINT, 1, pa.int8(), "INT1", "BOOL", "BOOLEAN"),
    _integer("smallint", _C.SHORT, _J.SMALLINT, 2, pa.int16(), "INT2"),
    _integer("mediumint", _C.INT24, _J.INTEGER, 3, pa.int32(), "INT3", "MIDDLEINT"),
    _integer("int", _C.LONG, _J.INTEGER, 4, pa.int32(), "INTEGER", "INT4"),
    _integer("bigint", _C.LONGLONG, _J.BIGINT, 8, pa.int64(), "INT8"),
    TypeRow("float", _C.FLOAT, _S.REAL, _W.FLOAT, _J.REAL, pa.float32(), ("FLOAT4",), 4),
    TypeRow("double", _C.DOUBLE, _S.REAL, _W.FLOAT, _J.DOUBLE, pa.float64(), ("FLOAT8",), 8),
    TypeRow("decimal", _C.NEWDECIMAL, _S.DECIMAL, _W.DECIMAL, _J.DECIMAL, words=("DEC", "NUMERIC", "FIXED")),
    TypeRow("bit", _C.BIT, _S.BIT, _W.BITS, _J.BIT, pa.uint64(), length=1),
    TypeRow("year", _C.YEAR, _S.YEAR, _W.YEAR, _J.VARCHAR, pa.int16(), ("SQL_TSI_YEAR",), 1, digits_min=4),
    TypeRow("date", _C.DATE, _S.DATE, _W.BARE, _J.DATE, pa.date32(), size=3),
    _moment("time", _C.TIME2, _J.TIME, pa.duration("us"), 3, _C.TIME),
    _moment("datetime", _C.DATETIME2, _J.TIMESTAMP, pa.timestamp("us"), 5, _C.DATETIME),
    _moment("timestamp", _C.TIMESTAMP2, _J.TIMESTAMP, pa.timestamp("us", tz="UTC"), 4, _C.TIMESTAMP),
    TypeRow("char", _C.STRING, _S.CHAR, _W.CHAR, _J.CHAR, words=("CHARACTER",), length=1, of_bytes="binary"),
    TypeRow("binary", _C.STRING, _S.CHAR, _W.SIZED, _J.BLOB, length=1),
    TypeRow(
        "varchar",
        _C.VARCHAR,
        _S.VARCHAR,
        _W.VARCHAR,
        _J.VARCHAR,
        words=("VARCHARACTER",),
        of_bytes="varbinary",
        packed=_C.VARCHAR_COMPRESSED,
    ),
    TypeRow("varbinary", _C.VARCHAR, _S.VARCHAR, _W.SIZED, _J.BLOB, packed=_C.VARCHAR_COMPRESSED),
    _text("tinytext", "tinyblob", 1),
    _text("text", "blob", 2, _W.TEXT),
    _text("mediumtext", "mediumblob", 3),
    _text("longtext", "longblob", 4),
    _blob("tinyblob", 1),
    _blob("blob", 2, _W.BLOB),
    _blob("mediumblob", 3),
    _blob("longblob", 4),
    TypeRow("enum", _C.ENUM, _S.ENUM, _W.LISTED, _J.CHAR, pa.dictionary(pa.int32(), pa.utf8())),
    TypeRow("set", _C.SET, _S.SET, _W.LISTED, _J.CHAR, pa.utf8()),
    _address("uuid", 16, (10, 7)),
    _address("inet4", 4, (10, 10)),
    _address("inet6", 16, (10, 5)),
    TypeRow("json", _C.JSON, _S.JSON, _W.JSON, _J.VARCHAR, pa.utf8(), length_size=4),
    TypeRow(
        "vector",
        _C.VECTOR,
        _S.LIST,
        _W.SIZED,
        _J.VARCHAR,
        pa.list_(pa.float32()),
        length_size=4,
        unit=4,
        length=2048,
        hidden_in=_C.VARCHAR,
        counted_as_text=Vendor.MYSQL,
    ),
    _geometry("geometry", 0),
    # a key covers all of a point
    _geometry("point", 1, key_bytes=25),
    _geometry("linestring", 2),
    _geometry("polygon", 3),
    _geometry("multipoint", 4),
    _geometry("multilinestring", 5),
    _geometry("multipolygon", 6),
    _geometry("geometrycollection", 7),
    # MySQL's name of it since 8.0
    _geometry("geomcollection", 7),
)

#: `DATA_TYPE` in information_schema -> row
BY_NAME: Final = {row.name: row for row in TABLE}
#: word of a statement, in upper case -> row
BY_WORD: Final = {word: row for row in TABLE for word in (row.name.upper(), *row.words)}


def row_of(mysql_type: str) -> TypeRow | None:
    """Return the row of a type as a column's metadata has it, such as `bigint unsigned`; None: not known."""
    return BY_NAME.get(mysql_type.lower().partition("(")[0].partition(" ")[0])
