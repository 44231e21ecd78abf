"""Types: what a column's type means, by its words, its size and its charset.

`read_type` reads the words; `resolved` decides what depends on the table's collation: a text of charset
`binary` is a type of bytes, and a text with a length is of the smallest type that can hold it.

Rules: "Data Types" in MySQL's reference manual and MariaDB's, and what MySQL 9.7 and MariaDB 10.11 do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from actors.parse.charsets.charset_codecs import PREFIX
from actors.parse.charsets.charsets import BINARY_COLLATION, charset_of, text_decoder
from actors.parse.charsets.collations import bin_collation
from actors.parse.charsets.statement_text import charset_of_client
from actors.parse.schema.charset_words import Charsets, read_charset, skip_charset_words
from actors.parse.schema.definition import ColumnDefinition
from actors.parse.schema.statement import ServerVersion, SqlMode
from actors.parse.schema.tokens import Kind, UnreadableError
from actors.parse.schema.words import Words
from merge.errors import UnsupportedEvent

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
#: texts with their types of bytes, and the largest number of bytes
_TEXTS = {"tinytext": 0xFF, "text": 0xFFFF, "mediumtext": 0xFFFFFF, "longtext": 0xFFFFFFFF}
_BYTES_OF_TEXT = {
    "char": "binary",
    "varchar": "varbinary",
    "tinytext": "tinyblob",
    "text": "blob",
    "mediumtext": "mediumblob",
    "longtext": "longblob",
}
#: what MariaDB makes of a type of bytes that has a collation
_TEXT_OF_BYTES = {data: text for text, data in _BYTES_OF_TEXT.items()}
_CHARACTER_TYPES = {*_BYTES_OF_TEXT, "enum", "set"}
_SPATIAL = {
    "GEOMETRY",
    "POINT",
    "LINESTRING",
    "POLYGON",
    "MULTIPOINT",
    "MULTILINESTRING",
    "MULTIPOLYGON",
    "GEOMETRYCOLLECTION",
    "GEOMCOLLECTION",
}
#: qualifiers of types: whose meaning of DATE and TIMESTAMP they ask for
_DIALECTS = ("MARIADB_SCHEMA", "ORACLE_SCHEMA", "MAXDB_SCHEMA")
#: names that types have in Oracle's mode of MariaDB only
_OF_ORACLE = {"VARCHAR2": "VARCHAR", "RAW": "VARBINARY", "CLOB": "LONGTEXT"}
#: MariaDB's own, with the version that has them first
_OF_MARIADB = {"INET6": (10, 5), "INET4": (10, 10), "UUID": (10, 7)}
#: of a VARCHAR, by whether it is MariaDB's
_VARCHAR_BYTES_MAX = {False: 65535, True: 65532}
_FLOAT_DIGITS_MAX = 24
_DECIMAL_DIGITS = 10
_VECTOR_DIMENSIONS = 2048


@dataclass(frozen=True, slots=True)
class Type:
    """A column's type as a statement has it, before the table's collation is known."""

    #: as in `ColumnDefinition`; of a text without its charset
    name: str
    unsigned: bool = False
    #: None: not given
    length: int | None = None
    precision: int = 0
    scale: int = 0
    decimals: int = 0
    #: ENUM's or SET's; bytes where they are given as such
    values: tuple[str | bytes, ...] = ()
    #: the charset that values given as texts had in the session, as a collation; None: UTF-8
    connection: int | None = None
    #: the default collation of its charset; None: the table's collation
    charset: int | None = None
    #: the name of its collation, which may refer to its charset; empty: none is given
    collation: str = ""
    #: whether BINARY asks for the collation that compares by code
    by_code: bool = False
    #: SERIAL: NOT NULL, and with a UNIQUE key
    serial: bool = False


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
        return _number(words, Type(_INTEGERS[word]), sized=not word.startswith("BOOL"))
    if word in _DECIMALS:
        digits, scale = _digits(words) or (0, 0)
        return _number(words, Type("decimal", precision=digits or _DECIMAL_DIGITS, scale=scale), sized=False)
    if word in _FLOATS:
        return _floating(words, word)
    if word in _WITH_FRACTION:
        return Type(_WITH_FRACTION[word], decimals=_size(words) or 0)
    if word in ("ENUM", "SET"):
        return _listing(words, charsets, word.lower())
    if word in _SPATIAL:
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


def chosen(kind: Type, table_collation: int | None, charsets: Charsets) -> tuple[Type, int]:
    """Return a type and its collation; one of bytes that has a collation is a text.

    Args:
        kind: the type.
        table_collation: the table's default; None: not known.
        charsets: what names mean.

    Raises:
        UnreadableError: it is not known.
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
        UnreadableError: a value is no text of its charset.
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
        UnreadableError: it is a blob or a text on MySQL, which makes it another type then: which one depends
            on more than is known here.
    """
    own_bytes = kind.charset == BINARY_COLLATION or kind.collation.lower() == "binary"
    own_bytes |= kind.name not in _CHARACTER_TYPES
    if not mariadb and (kind.name in _TEXTS or kind.name.endswith("blob")):
        raise UnreadableError("a blob or text is defined while its table is converted")
    by_code = kind.by_code and kind.charset is None and not kind.collation
    kept = kind.collation if kind.collation.upper() == "DEFAULT" else ""
    return kind if own_bytes else replace(kind, charset=collation, collation=kept, by_code=by_code)


def converted(column: ColumnDefinition, collation: int, *, strict: bool, mariadb: bool) -> ColumnDefinition:
    """Return a column after CONVERT TO CHARACTER SET; columns without text stay as they are.

    A text keeps room for as many characters of the new charset as it had of the old one. But a VARCHAR that
    becomes too long is a TEXT on MySQL, if its old charset has more than one byte a character. The servers
    keep the bytes of ENUM's and SET's values, which may be other characters in the new charset.

    Raises:
        UnreadableError: they are no characters.
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
    return ColumnDefinition(
        column.name,
        changed.type,
        length=changed.length,
        collation=collation,
        values=tuple(_reread(value, column.collation, collation) for value in column.values),
        nullable=column.nullable,
        generated=column.generated,
        visibility=column.visibility,
    )


def is_text(column: ColumnDefinition) -> bool:
    """Return whether a column's length has no limit of its own: texts, blobs and geometries."""
    return column.type in _TEXTS or column.type.endswith("blob") or is_geometry(column)


def is_geometry(column: ColumnDefinition) -> bool:
    """Return whether a column's values are geometries."""
    return column.type.upper() in _SPATIAL


def _number(words: Words, kind: Type, *, sized: bool) -> Type:
    if sized:
        _size(words)
    unsigned = False
    while words.sees_any("UNSIGNED", "ZEROFILL", "SIGNED"):
        unsigned |= words.take().word != "SIGNED"
    return Type(kind.name, unsigned=unsigned, precision=kind.precision, scale=kind.scale)


def _floating(words: Words, word: str) -> Type:
    single = word.startswith("FLOAT") and word != "FLOAT8"
    if word == "DOUBLE":
        words.skip("PRECISION")
    if word == "REAL":
        single = words.statement.has(SqlMode.REAL_AS_FLOAT)
    sizes = _sizes(words)
    if word.startswith("FLOAT") and len(sizes) == 1:
        single = single and sizes[0] <= _FLOAT_DIGITS_MAX
    return _number(words, Type("float" if single else "double"), sized=False)


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
        raise UnreadableError(f"a text cannot be converted to the connection's charset ({error})") from error


def _client_bytes(words: Words) -> bytes:
    """Take a text as the bytes that the client sent."""
    charset = charset_of_client(words.statement.client_collation)
    try:
        return words.take().text.encode(charset.codec, "surrogateescape")
    except UnicodeError as error:
        raise UnreadableError(
            f"the bytes of a text of charset {charset.name} are not known ({error})"
        ) from error


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
            _number(words, Type("year"), sized=True)
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
        case _ if server.mariadb and (server.major, server.minor) >= _OF_MARIADB.get(word, (1000, 0)):
            _size(words)  # may be given, and has no meaning
            return Type(word.lower())
        case _:
            return None


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
            words.skip("=")
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


def _spatial(word: str, server: ServerVersion) -> str:
    if word in ("GEOMETRYCOLLECTION", "GEOMCOLLECTION"):
        modern = not server.mariadb and server.major >= 8  # noqa: PLR2004 - where it was renamed
        return "geomcollection" if modern else "geometrycollection"
    return word.lower()


def _reread(value: str, old: int, new: int) -> str:
    codec, errors = text_decoder(charset_of(old))
    try:
        data = value.encode(codec, errors)
        return (
            data.decode("ascii") if new == BINARY_COLLATION else data.decode(*text_decoder(charset_of(new)))
        )
    except (UnicodeError, LookupError, UnsupportedEvent) as error:
        raise UnreadableError(f"value {value!r} is no text in the new charset ({error})") from error


def _value(value: str | bytes, collation: int, connection: int | None) -> str:
    """Return a value of ENUM or SET as the server keeps it: trailing blanks are no part of it."""
    if isinstance(value, str) and collation == BINARY_COLLATION and connection is not None:
        # Its bytes are those that the connection's charset has.
        value = value.encode(text_decoder(charset_of(connection))[0], "replace")
    if isinstance(value, bytes):
        if collation == BINARY_COLLATION:
            return value.decode("utf-8", "replace")
        try:
            codec, errors = text_decoder(charset_of(collation))
            value = value.decode(codec, errors)
        except (UnsupportedEvent, UnicodeError) as error:
            raise UnreadableError(f"a value given in hexadecimal is no text ({error})") from error
    if collation == BINARY_COLLATION:
        return value
    codec, _ = text_decoder(charset_of(collation))
    if not value.isascii() and not codec.startswith(PREFIX):
        # Without strict mode a server takes a question mark for what the charset lacks.
        value = value.encode(codec, "replace").decode(codec)
    return value.rstrip(" ")
