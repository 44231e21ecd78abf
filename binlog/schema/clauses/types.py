"""Types: a column's type as a statement has it, with its size, sign, charset and values.

Rules: "Data Types" in MySQL's reference manual and MariaDB's, and what MySQL 9.7 and MariaDB 10.11 do.
"""

from __future__ import annotations

from dataclasses import replace

from binlog.charsets.charsets import BINARY_COLLATION, charset_of, text_decoder
from binlog.charsets.statement_text import charset_of_client
from binlog.schema.clauses.charset_words import Charsets, read_charset, skip_charset_words
from binlog.schema.clauses.tokens import Kind, UnreadableError
from binlog.schema.clauses.words import Words
from binlog.schema.resolving import SPATIAL, Type
from binlog.schema.statement import ServerVersion, SqlMode

_INTEGERS = {
    "TINYINT": "tinyint",
    "INT1": "tinyint",
    "BOOL": "tinyint",
    "BOOLEAN": "tinyint",
    "SMALLINT": "smallint",
    "INT2": "smallint",
    "MEDIUMINT": "mediumint",
    "INT3": "mediumint",
    "MIDDLEINT": "mediumint",
    "INT": "int",
    "INTEGER": "int",
    "INT4": "int",
    "BIGINT": "bigint",
    "INT8": "bigint",
}
_DECIMALS = {"DECIMAL", "DEC", "NUMERIC", "FIXED"}
_FLOATS = {"FLOAT", "FLOAT4", "DOUBLE", "FLOAT8", "REAL"}
_WITH_FRACTION = {"TIME": "time", "DATETIME": "datetime", "TIMESTAMP": "timestamp"}
#: qualifiers of types: whose meaning of DATE and TIMESTAMP they ask for
_DIALECTS = ("MARIADB_SCHEMA", "ORACLE_SCHEMA", "MAXDB_SCHEMA")
#: names that types have in Oracle's mode of MariaDB only
_OF_ORACLE = {"VARCHAR2": "VARCHAR", "RAW": "VARBINARY", "CLOB": "LONGTEXT"}
#: MariaDB's own, with the version that has them first
_OF_MARIADB = {"INET6": (10, 5), "INET4": (10, 10), "UUID": (10, 7)}
_FLOAT_DIGITS_MAX = 24
_DECIMAL_DIGITS = 10
_VECTOR_DIMENSIONS = 2048


def read_type(words: Words, charsets: Charsets) -> Type:  # noqa: PLR0911 - one return a family
    """Read a column's type with what belongs to it: size, sign, charset, values.

    Raises:
        UnreadableError: the type is unknown.
    """
    token = words.peek()
    if token.kind is not Kind.WORD:
        raise words.unexpected("a type should come")
    word = _word(words)
    if word in _INTEGERS:
        return _number(words, Type(_INTEGERS[word]))
    if word in _DECIMALS:
        digits, scale = _digits(words) or (0, 0)
        return _number(words, Type("decimal", precision=digits or _DECIMAL_DIGITS, scale=scale))
    if word in _FLOATS:
        return _floating(words, word)
    if word in _WITH_FRACTION:
        return Type(_WITH_FRACTION[word], decimals=_size(words) or 0)
    if word in ("ENUM", "SET"):
        return _listing(words, charsets, word.lower())
    if word in SPATIAL:
        _sizes(words)  # MariaDB: may be given, and have no meaning
        return Type(_spatial(word, words.statement.server))
    found = _text(words, charsets, word) or _other(words, word)
    if found is None:
        raise UnreadableError(f"type {word} is unknown")
    return found


def _word(words: Words) -> str:
    """Take a type's name; return what it is called without the dialects of other databases."""
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


def _number(words: Words, kind: Type) -> Type:
    if words.skip("("):
        words.skip_number()  # the width of an integer or a year
        words.expect(")")
    unsigned = False
    while words.sees_any("UNSIGNED", "ZEROFILL", "SIGNED"):
        unsigned |= words.take().word != "SIGNED"
    return Type(kind.name, unsigned=unsigned, precision=kind.precision, scale=kind.scale)


def _floating(words: Words, word: str) -> Type:
    single = word.startswith("FLOAT") and word != "FLOAT8"
    words.skip("PRECISION")
    if word == "REAL":
        single = words.statement.has(SqlMode.REAL_AS_FLOAT)
    sizes = _sizes(words)
    if word.startswith("FLOAT") and len(sizes) == 1:
        single = single and sizes[0] <= _FLOAT_DIGITS_MAX
    return _number(words, Type("float" if single else "double"))


def _listing(words: Words, charsets: Charsets, name: str) -> Type:
    def value() -> str | bytes:
        if words.peek().kind is Kind.BYTES:
            return bytes.fromhex(words.take().text)
        return _literal(words)

    values = words.in_parentheses(value)
    return _with_charset(
        words, charsets, Type(name, values=tuple(values), connection=words.statement.connection_collation)
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
        # The servers take a question mark for what the charset lacks.
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


def _text(words: Words, charsets: Charsets, word: str) -> Type | None:  # noqa: PLR0911 - one return a word
    """Read the types of texts, which have as many names as all others together."""
    if word in ("NATIONAL", "NCHAR", "NVARCHAR"):
        return _national(words, charsets, word)
    if word in ("CHAR", "CHARACTER"):
        varying = words.skip("VARYING")
        size = _size(words)
        return _with_charset(
            words, charsets, Type("varchar" if varying else "char", length=1 if size is None else size)
        )
    if word in ("VARCHAR", "VARCHARACTER"):
        return _with_charset(words, charsets, Type("varchar", length=_size(words)))
    if word == "TEXT":
        return _with_charset(words, charsets, Type("text", length=_lob_size(words)))
    if word in ("TINYTEXT", "MEDIUMTEXT", "LONGTEXT"):
        return _with_charset(words, charsets, Type(word.lower()))
    if word == "LONG":
        if words.skip("VARBINARY"):
            return Type("mediumblob")
        if not words.sees("CHARACTER", "SET") and not words.sees("CHAR", "SET"):
            words.skip_any("CHAR", "CHARACTER", "VARCHAR", "VARCHARACTER")
            words.skip("VARYING")
        return _with_charset(words, charsets, Type("mediumtext"))
    if word == "JSON" and words.statement.server.mariadb:
        return _with_charset(
            words, charsets, Type("longtext", charset=charsets.collation("utf8mb4_bin", None))
        )
    return None


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


def _other(words: Words, word: str) -> Type | None:  # noqa: C901, PLR0911 - one case a type
    server = words.statement.server
    match word:
        case "SERIAL":
            return Type("bigint", unsigned=True, serial=True)
        case "BIT":
            return Type("bit", length=_size(words) or 1)
        case "DATE":
            return Type("date")
        case "YEAR":
            _number(words, Type("year"))
            return Type("year")
        case "BINARY":
            size = _size(words)
            return Type("binary", length=1 if size is None else size)
        case "VARBINARY":
            return Type("varbinary", length=_size(words))
        case "BLOB":
            return Type("blob", length=_lob_size(words))
        case "TINYBLOB" | "MEDIUMBLOB" | "LONGBLOB":
            return Type(word.lower())
        case "JSON":
            return Type("json")
        case "VECTOR":
            size = _size(words)
            return Type("vector", length=_VECTOR_DIMENSIONS if size is None else size)
        case _ if _has_own(server, word):
            _size(words)  # may be given, and has no meaning
            return Type(word.lower())
        case _:
            return None


def _has_own(server: ServerVersion, word: str) -> bool:
    """Return whether a server has a type of MariaDB's own."""
    return server.mariadb and word in _OF_MARIADB and (server.major, server.minor) >= _OF_MARIADB[word]


def _with_charset(words: Words, charsets: Charsets, kind: Type) -> Type:
    """Read what may follow a text type: ASCII, UNICODE, BYTE, BINARY and CHARACTER SET, in any order."""
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


def _lob_size(words: Words) -> int | None:
    size = _size(words)
    return None if size == 0 and words.statement.server.mariadb else size


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


def _spatial(word: str, server: ServerVersion) -> str:
    if word in ("GEOMETRYCOLLECTION", "GEOMCOLLECTION"):
        modern = not server.mariadb and server.major >= 8  # noqa: PLR2004 - where it was renamed
        return "geomcollection" if modern else "geometrycollection"
    return word.lower()
