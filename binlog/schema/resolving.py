"""Resolving: a column's type, once the collation of its table is known.

A text of charset `binary` is a type of bytes. A text with a length is of the smallest type that can hold it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from canal_group.binlog.charsets.charset_codecs import PREFIX, characters_of
from canal_group.binlog.charsets.charsets import BINARY_COLLATION, charset_of, shown_bytes, text_decoder
from canal_group.binlog.charsets.collations import bin_collation
from canal_group.binlog.schema.clauses.charset_words import Charsets
from canal_group.binlog.schema.clauses.tokens import UnreadableError
from canal_group.binlog.schema.definition import ColumnDefinition
from canal_group.merge.errors import UnsupportedEvent
from canal_group.merge.values.types.kinds import Storage
from canal_group.merge.values.types.table import BY_NAME, TABLE

#: texts without a length, with their largest number of bytes
_TEXTS = {row.name: row.bytes_max for row in TABLE if row.bytes_max}
_BYTES_OF_TEXT = {row.name: row.of_bytes for row in TABLE if row.of_bytes}
#: MariaDB's type for a type of bytes that has a collation
_TEXT_OF_BYTES = {data: text for text, data in _BYTES_OF_TEXT.items()}
_CHARACTER_TYPES = {row.name for row in TABLE if row.has_charset}
_UNLIMITED = {row.name for row in TABLE if row.is_unlimited}
_GEOMETRIES = {row.name for row in TABLE if row.geometry is not None}
#: bytes of a character of gb18030, which has all characters of Unicode
_WIDTH_OF_ALL = 4
#: of a VARCHAR, by whether it is MariaDB's
_VARCHAR_BYTES_MAX = {False: 65535, True: 65532}


@dataclass(frozen=True, slots=True)
class Type:
    """A column's type as a statement has it, before the table's collation is known."""

    #: as in `ColumnDefinition`; of a text without its charset
    name: str
    unsigned: bool = False
    #: None: without one
    length: int | None = None
    precision: int = 0
    scale: int = 0
    decimals: int = 0
    #: ENUM's or SET's; bytes where they are written as such
    values: tuple[str | bytes, ...] = ()
    #: the charset that values written as texts had in the session, as a collation; None: UTF-8
    connection: int | None = None
    #: the default collation of its charset; None: the table's collation
    charset: int | None = None
    #: name of the column's collation, which may refer to the column's charset; empty: no COLLATE
    collation: str = ""
    #: whether BINARY asks for the collation that compares by code
    by_code: bool = False
    #: SERIAL: NOT NULL, and with a UNIQUE key
    serial: bool = False


def with_collation(kind: Type, table_collation: int | None, charsets: Charsets) -> tuple[Type, int]:
    """Return a type and its collation; one of bytes that has a collation is a text.

    Args:
        kind: the type.
        table_collation: the table's default; None: unknown.
        charsets: the meaning of names.

    Raises:
        UnreadableError: the collation is unknown.
    """
    base = table_collation if kind.charset is None else kind.charset
    if kind.name in _CHARACTER_TYPES or kind.collation:
        collation = charsets.collation(kind.collation, base) if kind.collation else base
        if collation is None:
            raise UnreadableError("the default collation of its schema is not known")
        if kind.name in _CHARACTER_TYPES:
            return kind, bin_collation(collation) if kind.by_code else collation
        if kind.name in _TEXT_OF_BYTES:
            return replace(kind, name=_TEXT_OF_BYTES[kind.name]), collation
    return kind, BINARY_COLLATION


def resolved(kind: Type, collation: int, *, strict: bool, mariadb: bool) -> ColumnDefinition:
    """Return a column of a type, without a name.

    Args:
        kind: the type.
        collation: its collation.
        strict: whether a text that is too long for its type is an error; else its type is a larger one.
        mariadb: whether the server is MariaDB.

    Raises:
        UnreadableError: a value is not a text of its charset.
    """
    name, length = kind.name, kind.length or 0
    varchar_bytes_max = None if strict else _VARCHAR_BYTES_MAX[mariadb]
    if name in _CHARACTER_TYPES:
        name, length = _sized_text(kind, charset_of(collation).width, varchar_bytes_max)
        if collation == BINARY_COLLATION:
            name = _BYTES_OF_TEXT.get(name, name)
    elif name == "varbinary" and varchar_bytes_max is not None and length > varchar_bytes_max:
        name, length = _BYTES_OF_TEXT[_text_of(length)], 0
    elif name == "blob":
        name, length = _blob(kind)
    return ColumnDefinition(
        "",
        name,
        unsigned=kind.unsigned,
        length=length,
        precision=kind.precision,
        scale=kind.scale,
        decimals=kind.decimals,
        collation=collation,
        values=tuple(_value(value, collation, kind.connection) for value in kind.values),
    )


def in_charset(kind: Type, collation: int, *, mariadb: bool) -> Type:
    """Return the type of a column that is added by a statement which converts the table as well.

    Raises:
        UnreadableError: it is a blob or a text on MySQL, which changes its type then, by facts
            that are unknown here.
    """
    own_bytes = kind.charset == BINARY_COLLATION or kind.collation.lower() == "binary"
    if kind.collation and not own_bytes:
        kind = replace(kind, name=_TEXT_OF_BYTES.get(kind.name, kind.name))
    if not mariadb and BY_NAME[kind.name].storage is Storage.BLOB:
        raise UnreadableError("a blob or text is defined while its table is converted")
    by_code = kind.by_code and kind.charset is None and not kind.collation
    own = kind.collation if kind.collation.upper() == "DEFAULT" else ""
    return kind if own_bytes else replace(kind, charset=collation, collation=own, by_code=by_code)


def converted(column: ColumnDefinition, collation: int, *, strict: bool, mariadb: bool) -> ColumnDefinition:
    """Return a column after CONVERT TO CHARACTER SET; columns without text stay as they are.

    A text keeps room for as many characters of the new charset as it had of the old one. But a VARCHAR that
    becomes too long is a TEXT on MySQL, if its old charset has more than one byte a character. The servers
    keep the bytes of ENUM's and SET's values, which may be other characters in the new charset.

    Raises:
        UnreadableError: they are not characters.
    """
    if column.type not in _CHARACTER_TYPES or column.collation == BINARY_COLLATION:
        return column
    length: int | None = column.length
    name = column.type
    width = charset_of(column.collation).width
    if name in _TEXTS:
        name, length = "text", _TEXTS[name] // width
    changed = resolved(Type(name, length=length), collation, strict=strict, mariadb=mariadb)
    if column.type == "varchar" and changed.type in _TEXTS and not mariadb and width > 1:
        changed = replace(changed, type="text")
    return replace(
        column,
        type=changed.type,
        length=changed.length,
        collation=collation,
        values=tuple(_reread(value, column.collation, collation) for value in column.values),
    )


def is_text(column: ColumnDefinition) -> bool:
    """Return whether a column's length has no limit of its own: texts, blobs and geometries."""
    return column.type in _UNLIMITED


def is_geometry(column: ColumnDefinition) -> bool:
    """Return whether a column's values are geometries."""
    return column.type in _GEOMETRIES


def _sized_text(kind: Type, width: int, varchar_bytes_max: int | None) -> tuple[str, int]:
    """Return the type that holds a text's length in characters of up to `width` bytes, and its length."""
    if kind.length is None:
        return kind.name, 0
    size = kind.length * width
    if kind.name == "text":
        return _text_of(size), 0
    if kind.name == "varchar" and varchar_bytes_max is not None and size > varchar_bytes_max:
        return _text_of(size), 0
    return kind.name, kind.length


def _text_of(size: int) -> str:
    return next((name for name, largest in _TEXTS.items() if size <= largest), "longtext")


def _blob(kind: Type) -> tuple[str, int]:
    return ("blob" if kind.length is None else _BYTES_OF_TEXT[_text_of(kind.length)]), 0


def _reread(value: str, old: int, new: int) -> str:
    codec, errors = text_decoder(charset_of(old))
    try:
        data = value.encode(codec, errors)
        return (
            data.decode("ascii") if new == BINARY_COLLATION else data.decode(*text_decoder(charset_of(new)))
        )
    except (UnicodeError, LookupError, UnsupportedEvent) as error:
        raise UnreadableError("a value is not a text in the new charset") from error


def _value(value: str | bytes, collation: int, connection: int | None) -> str:
    """Return a value of ENUM or SET as the server keeps it: trailing blanks are not part of it."""
    if isinstance(value, str) and collation == BINARY_COLLATION and connection is not None:
        # The server stores the bytes that the text had in the connection's charset.
        value = value.encode(text_decoder(charset_of(connection))[0], "replace")
    if isinstance(value, bytes):
        if collation == BINARY_COLLATION:
            return shown_bytes(value)
        try:
            codec, errors = text_decoder(charset_of(collation))
            value = value.decode(codec, errors)
        except (UnsupportedEvent, UnicodeError) as error:
            raise UnreadableError("a value given in hexadecimal is not a text") from error
    if collation == BINARY_COLLATION:
        return value
    charset = charset_of(collation)
    codec, _ = text_decoder(charset)
    # A server takes a question mark for a character that the charset lacks.
    if codec.startswith(PREFIX):  # these only decode
        if charset.width < _WIDTH_OF_ALL:
            letters = characters_of(codec, charset.width)
            value = "".join(char if char in letters else "?" for char in value)
    elif not value.isascii():
        value = value.encode(codec, "replace").decode(codec)
    return value.rstrip(" ")
