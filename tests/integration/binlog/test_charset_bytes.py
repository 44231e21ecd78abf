"""Every sequence of bytes that a charset may have is the text that both servers make of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from canal_group.binlog.charsets import charsets
from canal_group.binlog.charsets.charset_codecs import PREFIX, characters_of

#: sequences in one query
AT_ONCE = 2000
#: charsets of one byte that Python lacks
SINGLE = ("armscii8", "dec8", "geostd8", "keybcs2", "swe7")
#: what the servers make of big5's signs that its standard has, and they do not
REPLACEMENT = "\ufffd"


def sequences(width: int) -> Iterator[bytes]:
    for lead in range(0x80, 0x100):
        yield from (bytes([lead, byte]) for byte in range(0x40, 0x100))
    if width == 3:
        for row in range(0xA1, 0xFF):
            yield from (bytes([0x8F, row, cell]) for cell in range(0xA1, 0xFF))


def asked(server, made, items):
    """Return the server's answers, NULL as empty, item by item."""
    for begin in range(0, len(items), AT_ONCE):
        ((*found,),) = server.execute(f"SELECT {','.join(map(made, items[begin : begin + AT_ONCE]))}")
        yield from (bytes.fromhex(text or "") for text in found)


def read(stored: bytes, codec: str, errors: str) -> str:
    try:
        return stored.decode(codec, errors)
    except UnicodeDecodeError:
        return ""


@pytest.mark.soak
@pytest.mark.parametrize("name", ["big5", "cp932", "euckr", "eucjpms", "gb2312", "gbk", "sjis", "ujis"])
def test_every_pair_and_triple_is_decoded_as_the_server_does(unprepared_server, name):
    charset = charsets._CHARSETS[name]
    codec, errors = charsets.text_decoder(charset)
    stored = list(sequences(charset.width))
    made = f"HEX(CONVERT(CONVERT(0x{{}} USING {name}) USING utf8mb4))"
    answers = asked(unprepared_server, lambda each: made.format(each.hex()), stored)
    texts = {each: text.decode() for each, text in zip(stored, answers, strict=True)}
    defined = {each: text for each, text in texts.items() if text and not {"?", REPLACEMENT} & set(text)}
    assert len(defined) > 7000
    differing = [each.hex() for each, text in defined.items() if read(each, codec, errors) != text]
    assert not differing, f"{len(differing)}: {differing[:10]}"


@pytest.mark.soak
@pytest.mark.parametrize("name", [*SINGLE, "eucjpms", "sjis", "ujis"])
def test_a_charset_lacks_what_the_server_replaces_by_a_question_mark(unprepared_server, name):
    charset = charsets._CHARSETS[name]
    letters = [chr(code) for code in range(0x80, 0x10000) if not 0xD800 <= code < 0xE000]
    made = f"HEX(CONVERT(_utf8mb4 0x{{}} USING {name}))"
    answers = asked(unprepared_server, lambda each: made.format(each.encode().hex()), letters)
    kept = {each for each, data in zip(letters, answers, strict=True) if data != b"?"}
    differing = sorted(kept ^ (characters_of(PREFIX + name, charset.width) & set(letters)))
    assert not differing, f"{len(differing)}: {differing[:10]}"
