"""Statement text: the bytes of a statement as text, by the charset of the client that sent it.

A server's lexer reads bytes, and knows which of them belong to one character: the second byte of a character
of gbk, sjis or big5 may be that of a backslash. So the text is decoded before it is cut into tokens.

Bytes that are not text in the charset are kept as lone surrogates, as Python's `surrogateescape` does. So are
those whose character would look like a symbol of SQL though the lexer does not take it for one. No name and
no value may hold one: its text is unknown then. They do no harm in a comment. `printable` shows them.
"""

from __future__ import annotations

import codecs
import re
from functools import cache

from canal_group.binlog.charsets.charsets import (
    BINARY_COLLATION,
    ETEN_FIRST,
    ETEN_LAST,
    Charset,
    charset_of,
    text_decoder,
)

UTF8MB4 = 45

_ESCAPES = "canal_group_kept_bytes"
_ESCAPED = re.compile("[\ud800-\udfff]")
_SURROGATE = 0xDC00
#: a name in quotes; servers have names of 64 characters, each of which may be a quote that is doubled
_QUOTED = "`(?:[^`]|``){1,64}`"
#: what the servers make of CREATE TABLE ... SELECT, and ... LIKE of a temporary table: UTF-8 for any client.
#: What a client writes like this, as dumps do, and in another charset, is hardly ever valid UTF-8.
_GENERATED = re.compile(rf"CREATE (?:OR REPLACE )?TABLE (?:IF NOT EXISTS )?(?:{_QUOTED}\.)?{_QUOTED} \(\n  `")
#: the servers take this character of these charsets for a backslash, but not when they read SQL
_WIDE_BACKSLASH = {"sjis": ("shift_jis", b"\x81\x5f"), "ujis": ("euc_jp", b"\xa1\xc0")}
#: this charset has letters in place of these; also of the backquote, which encloses names all the same
_SWE7 = str.maketrans({char: chr(_SURROGATE + ord(char)) for char in "@[\\]^{|}~"})


def statement_text(data: bytes, collation: int | None) -> str:
    """Return a statement's text.

    Args:
        data: its bytes.
        collation: `character_set_client` of its session, as a collation number; None: not logged, UTF-8.
    """
    charset = charset_of_client(collation)
    if data.startswith(b"CREATE ") and (text := _utf8(data)) is not None and is_generated(text):
        return text
    if charset.name == "swe7":
        return data.decode("ascii", _ESCAPES).translate(_SWE7)
    if data.isascii():
        return data.decode("ascii")
    if charset.width == 1:
        return codecs.charmap_decode(data, "strict", _table(charset))[0]
    codec, pair = _WIDE_BACKSLASH.get(charset.name, (charset.codec, b""))
    text = data.decode(codec, _ESCAPES)
    return text.replace(pair.decode(codec), _surrogates(pair)) if pair else text


def is_generated(text: str) -> bool:
    """Return whether a server made a statement's text: what a query selects, or a temporary table."""
    return _GENERATED.match(text) is not None


def _utf8(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def charset_of_client(collation: int | None) -> Charset:
    """Return the charset that a client's statements are in; names of a `binary` client are in UTF-8.

    Raises:
        UnsupportedEvent: no known server uses the number.
    """
    return charset_of(UTF8MB4 if collation in (None, BINARY_COLLATION) else collation)


def is_whole(text: str) -> bool:
    """Return whether a text consists of characters only, without bytes that could not be decoded."""
    return text.isascii() or _ESCAPED.search(text) is None


def printable(text: str) -> str:
    r"""Return a text in which bytes that are not characters appear as `\xe9`."""
    return text if is_whole(text) else _ESCAPED.sub(lambda match: rf"\x{ord(match[0]) & 0xFF:02x}", text)


@cache
def _table(charset: Charset) -> str:
    """Return the characters of a charset's bytes; what only looks like ASCII is kept as its byte."""
    ascii_part = "".join(map(chr, range(0x80)))
    return ascii_part + "".join(_upper(byte, charset) for byte in range(0x80, 0x100))


def _upper(byte: int, charset: Charset) -> str:
    codec, errors = text_decoder(charset)
    try:
        char = bytes([byte]).decode(codec, errors)
    except UnicodeDecodeError:
        char = ""
    return _surrogates(bytes([byte])) if not char or char.isascii() else char


def _surrogates(data: bytes) -> str:
    return "".join(chr(_SURROGATE + byte) for byte in data)


def _keep_bytes(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    pair = error.object[error.start : error.start + 2]
    if error.encoding == "big5" and ETEN_FIRST <= pair <= ETEN_LAST:
        return pair.decode("cp950"), error.start + 2
    # What follows the first byte is read again: it may be a character of its own.
    return _surrogates(pair[:1]), error.start + 1


codecs.register_error(_ESCAPES, _keep_bytes)
