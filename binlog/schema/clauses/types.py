"""Types: a column's type as a statement has it, with its size, sign, charset and values.

Rules: "Data Types" in MySQL's reference manual and MariaDB's, and how MySQL 9.7 and MariaDB 10.11 behave.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from canal_group.binlog.charsets.charsets import BINARY_COLLATION, charset_of, text_decoder
from canal_group.binlog.charsets.statement_text import charset_of_client
from canal_group.binlog.schema.clauses.charset_words import Charsets, read_charset, skip_charset_words
from canal_group.binlog.schema.clauses.tokens import Kind, UnreadableError
from canal_group.binlog.schema.clauses.words import Words
from canal_group.binlog.schema.resolving import Type
from canal_group.binlog.schema.statement import ServerVersion, SqlMode
from canal_group.merge.values.types.kinds import Spelling
from canal_group.merge.values.types.table import BY_NAME, BY_WORD, TypeRow

#: qualifiers of types: whose meaning of DATE and TIMESTAMP they ask for
_DIALECTS = ("MARIADB_SCHEMA", "ORACLE_SCHEMA", "MAXDB_SCHEMA")
#: names that types have in Oracle's mode of MariaDB only
_OF_ORACLE = {"VARCHAR2": "VARCHAR", "RAW": "VARBINARY", "CLOB": "LONGTEXT"}
_FLOAT_DIGITS_MAX = 24
_DECIMAL_DIGITS = 10


def read_type(words: Words, charsets: Charsets) -> Type:
    """Read a column's type with its size, sign, charset and values.

    Raises:
        UnreadableError: the type is unknown.
    """
    token = words.peek()
    if token.kind is not Kind.WORD:
        raise words.unexpected("a type should come")
    word = _word(words)
    if word in _PHRASES:
        return _PHRASES[word](words, charsets, word)
    row = BY_WORD.get(word)
    if row is None or not _has(words.statement.server, row):
        raise UnreadableError(f"type {word} is unknown")
    return _SPELLED[row.spelling](words, charsets, row)


def _word(words: Words) -> str:
    """Take a type's name; return it without the dialects of other databases."""
    statement = words.statement
    dialect, word = "", words.take().word
    if word in _DIALECTS and words.skip("."):
        dialect, word = word, words.take().word
    oracle = statement.server.mariadb and statement.has(SqlMode.ORACLE)
    if (word == "DATE" and dialect == "ORACLE_SCHEMA") or (word == "TIMESTAMP" and dialect == "MAXDB_SCHEMA"):
        return "DATETIME"
    if not dialect and (
        (word == "DATE" and oracle) or (word == "TIMESTAMP" and statement.has(SqlMode.MAXDB))
    ):
        return "DATETIME"
    if not oracle:
        return word
    if word == "NUMBER":
        return "DECIMAL" if words.sees("(") else "DOUBLE"
    if word == "BLOB" and not words.sees("("):
        return "LONGBLOB"
    return _OF_ORACLE.get(word, word)


def _has(server: ServerVersion, row: TypeRow) -> bool:
    """Return whether a server has a type, if it is one of MariaDB's own."""
    return row.since is None or (server.mariadb and (server.major, server.minor) >= row.since)


def _bare(_words: Words, _charsets: Charsets, row: TypeRow) -> Type:
    return Type(row.name)


def _meaningless(words: Words, _charsets: Charsets, row: TypeRow) -> Type:
    _sizes(words)
    return Type(row.name)


def _sized(words: Words, _charsets: Charsets, row: TypeRow) -> Type:
    size = _size(words)
    return Type(row.name, length=row.length if size is None else size)


def _bits(words: Words, _charsets: Charsets, row: TypeRow) -> Type:
    return Type(row.name, length=_size(words) or row.length)


def _integer(words: Words, _charsets: Charsets, row: TypeRow) -> Type:
    _skip_width(words)
    return Type(row.name, unsigned=_is_unsigned(words))


def _year(words: Words, charsets: Charsets, row: TypeRow) -> Type:
    return replace(_integer(words, charsets, row), unsigned=False)


def _decimal(words: Words, _charsets: Charsets, row: TypeRow) -> Type:
    digits, scale = _digits(words) or (0, 0)
    return Type(row.name, precision=digits or _DECIMAL_DIGITS, scale=scale, unsigned=_is_unsigned(words))


def _float(words: Words, _charsets: Charsets, row: TypeRow) -> Type:
    words.skip("PRECISION")
    sizes = _sizes(words)
    wide = len(sizes) == 1 and sizes[0] > _FLOAT_DIGITS_MAX
    return Type("double" if wide else row.name, unsigned=_is_unsigned(words))


def _real(words: Words, charsets: Charsets, _word: str) -> Type:
    single = words.statement.has(SqlMode.REAL_AS_FLOAT)
    kind = _float(words, charsets, BY_NAME["double"])
    return replace(kind, name="float") if single else kind


def _fraction(words: Words, _charsets: Charsets, row: TypeRow) -> Type:
    return Type(row.name, decimals=_size(words) or 0)


def _skip_width(words: Words) -> None:
    if words.skip("("):
        words.skip_number()  # the width of an integer or a year
        words.expect(")")


def _is_unsigned(words: Words) -> bool:
    unsigned = False
    while words.sees_any("UNSIGNED", "ZEROFILL", "SIGNED"):
        unsigned |= words.take().word != "SIGNED"
    return unsigned


def _listing(words: Words, charsets: Charsets, row: TypeRow) -> Type:
    def value() -> str | bytes:
        if words.peek().kind is Kind.BYTES:
            return bytes.fromhex(words.take().text)
        return _literal(words)

    values = words.in_parentheses(value)
    return _with_charset(
        words, charsets, Type(row.name, values=tuple(values), connection=words.statement.connection_collation)
    )


def _literal(words: Words) -> str | bytes:
    """Take a text as the connection's charset has it; that of a binary one is bytes.

    Raises:
        UnreadableError: it has other characters than it can be read of.
    """
    client, connection = words.statement.client_collation, words.statement.connection_collation
    if connection == BINARY_COLLATION:
        return _client_bytes(words)
    if connection in (None, client) or (words.peek().text.isascii() and client != BINARY_COLLATION):
        return words.text()
    codec, _ = text_decoder(charset_of(connection))
    try:
        if client == BINARY_COLLATION:
            return _client_bytes(words).decode(codec)
        # The servers take a question mark for a character that the charset lacks.
        return words.text().encode(codec, "replace").decode(codec)
    except UnicodeError as error:
        raise UnreadableError("a text cannot be converted to the connection's charset") from error


def _client_bytes(words: Words) -> bytes:
    """Take a text as the bytes that the client sent."""
    charset = charset_of_client(words.statement.client_collation)
    try:
        return words.take().text.encode(charset.codec, "surrogateescape")
    except UnicodeError as error:
        raise UnreadableError(f"the bytes of a text of charset {charset.name} are not known") from error


def _char(words: Words, charsets: Charsets, row: TypeRow) -> Type:
    varying = words.skip("VARYING")
    kind = _sized(words, charsets, row)
    return _with_charset(words, charsets, replace(kind, name="varchar") if varying else kind)


def _varchar(words: Words, charsets: Charsets, row: TypeRow) -> Type:
    return _with_charset(words, charsets, _sized(words, charsets, row))


def _text(words: Words, charsets: Charsets, row: TypeRow) -> Type:
    return _with_charset(words, charsets, _blob(words, charsets, row))


def _unsized_text(words: Words, charsets: Charsets, row: TypeRow) -> Type:
    return _with_charset(words, charsets, Type(row.name))


def _blob(words: Words, _charsets: Charsets, row: TypeRow) -> Type:
    size = _size(words)
    return Type(row.name, length=None if size == 0 and words.statement.server.mariadb else size)


def _json(words: Words, charsets: Charsets, row: TypeRow) -> Type:
    if not words.statement.server.mariadb:
        return Type(row.name)
    return _with_charset(words, charsets, Type("longtext", charset=charsets.collation("utf8mb4_bin", None)))


def _long(words: Words, charsets: Charsets, _word: str) -> Type:
    if words.skip("VARBINARY"):
        return Type("mediumblob")
    if not words.sees("CHARACTER", "SET") and not words.sees("CHAR", "SET"):
        words.skip_any("CHAR", "CHARACTER", "VARCHAR", "VARCHARACTER")
        words.skip("VARYING")
    return _with_charset(words, charsets, Type("mediumtext"))


def _serial(_words: Words, _charsets: Charsets, _word: str) -> Type:
    return Type("bigint", unsigned=True, serial=True)


def _national(words: Words, charsets: Charsets, word: str) -> Type:
    varying = word == "NVARCHAR"
    if word == "NATIONAL":
        varying = words.skip_any("VARCHAR", "VARCHARACTER")
        if not varying and not words.skip_any("CHAR", "CHARACTER"):
            raise words.unexpected("CHAR should come")
    elif word == "NCHAR":
        varying = words.skip_any("VARCHAR", "VARCHARACTER")
    varying = words.skip("VARYING") or varying
    size = _size(words)
    kind = Type("varchar" if varying else "char", length=1 if size is None else size)
    return _with_charset(words, charsets, replace(kind, charset=charsets.default("utf8mb3")))


def _with_charset(words: Words, charsets: Charsets, kind: Type) -> Type:
    """Read the words after a text type: ASCII, UNICODE, BYTE, BINARY and CHARACTER SET, in any order."""
    charset, by_code = kind.charset, False
    while True:
        if words.skip("BINARY"):
            by_code = True
        elif words.skip("ASCII"):
            charset = charsets.default("latin1")
        elif words.skip("UNICODE"):
            charset = charsets.default("ucs2")
        elif words.skip("BYTE"):
            charset = BINARY_COLLATION
        elif words.skip("COMPRESSED"):
            if words.skip("="):
                words.take()
        elif skip_charset_words(words):
            charset = read_charset(words, charsets)
        else:
            break
    return replace(kind, charset=charset, by_code=by_code)


def _sizes(words: Words) -> list[int]:
    return words.in_parentheses(words.number) if words.sees("(") else []


def _size(words: Words) -> int | None:
    sizes = _sizes(words)
    if len(sizes) > 1:
        raise UnreadableError("a type has more sizes than one")
    return sizes[0] if sizes else None


def _digits(words: Words) -> tuple[int, int] | None:
    match _sizes(words):
        case []:
            return None
        case [digits]:
            return digits, 0
        case [digits, scale]:
            return digits, scale
        case _:
            raise UnreadableError("a type has more sizes than two")


def _spatial(words: Words, _charsets: Charsets, _word: str) -> Type:
    server = words.statement.server
    modern = not server.mariadb and server.major >= 8  # noqa: PLR2004 - where it was renamed
    _sizes(words)
    return Type("geomcollection" if modern else "geometrycollection")


#: the reader of the words after the name of a type
_SPELLED: dict[Spelling, Callable[[Words, Charsets, TypeRow], Type]] = {
    Spelling.BARE: _bare,
    Spelling.MEANINGLESS: _meaningless,
    Spelling.SIZED: _sized,
    Spelling.BITS: _bits,
    Spelling.INTEGER: _integer,
    Spelling.YEAR: _year,
    Spelling.DECIMAL: _decimal,
    Spelling.FLOAT: _float,
    Spelling.FRACTION: _fraction,
    Spelling.LISTED: _listing,
    Spelling.CHAR: _char,
    Spelling.VARCHAR: _varchar,
    Spelling.TEXT: _text,
    Spelling.UNSIZED_TEXT: _unsized_text,
    Spelling.BLOB: _blob,
    Spelling.JSON: _json,
}
#: words that may mean several types, or begin a name of several words
_PHRASES: dict[str, Callable[[Words, Charsets, str], Type]] = {
    "REAL": _real,
    "LONG": _long,
    "SERIAL": _serial,
    **dict.fromkeys(("NATIONAL", "NCHAR", "NVARCHAR"), _national),
    **dict.fromkeys(("GEOMETRYCOLLECTION", "GEOMCOLLECTION"), _spatial),
}
