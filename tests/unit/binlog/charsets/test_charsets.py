# ruff: noqa: RUF001 - characters of many charsets
"""Every charset has a codec, and the page on charsets says which are our own."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

import pytest

from canal_group.binlog.charsets import charsets
from canal_group.binlog.charsets.charset_codecs import PREFIX
from canal_group.binlog.charsets.charsets import BINARY_COLLATION, charset_of, text_decoder
from canal_group.merge.errors import UnsupportedEvent

PAGE = Path(__file__).parents[4] / "docs" / "charsets.md"
EVERY = sorted(set(charsets._CHARSETS) - {"binary"})
#: charsets that have a codec of our own
OWN = {name for name in EVERY if charsets._CHARSETS[name].codec.startswith(PREFIX)}


def test_the_page_names_the_charsets_that_have_a_codec_of_our_own():
    rows = re.findall(r"^\| ([a-z0-9 ]+) \|", PAGE.read_text(), re.MULTILINE)
    named = {name for row in rows for name in row.split()} - {"charset"}
    assert named == OWN


@pytest.mark.parametrize("name", EVERY)
def test_every_charset_is_decoded(name):
    codec, errors = text_decoder(charsets._CHARSETS[name])
    assert codecs.lookup(codec)
    width = 2 if name == "ucs2" or name.startswith("utf16") else 4 if name == "utf32" else 1
    order = "little" if name == "utf16le" else "big"
    assert ord("A").to_bytes(width, order).decode(codec, errors) == "A"


def test_binary_is_not_text():
    with pytest.raises(UnsupportedEvent, match="binary"):
        text_decoder(charset_of(BINARY_COLLATION))


@pytest.mark.parametrize(
    ("name", "stored", "text"),
    [
        ("swe7", b"@[a]~", "ÉÄaÅü"),
        ("keybcs2", b"\x80a\x87", "Čač"),
        ("koi8u", b"\x95", "•"),
        ("big5", b"a\xf9\xdc\xa4\xf9\xd6@", "a嫺片淐"),
        ("euckr", b"\x81\x41", "갂"),
        ("sjis", b"\x81\x5f", "\\"),
        ("ujis", b"\xa1\xc0a", "\\a"),
        ("ujis", b"\xf5\xa1\xf5\xa2a\x8f\xf5\xa1\x8f\xfe\xfe", "\ue000\ue001a\ue3ac\ue757"),
        ("eucjpms", b"\x8f\xf3\xf3a\x8f\xf4\xa1\x8f\xf4\xfe\x8f\xf5\xa1", "ⅰaⅢ黑\ue3ac"),
        ("eucjpms", b"\x8f\xa2\xb7\x8f\xa2\xc3", "～￤"),
        ("eucjpms", b"a\xad\xa1\xa1\xc1\x8e\xb1\xa4\xa2\x8f\xb0\xa1\xf5\xa1", "a①～ｱあ丂\ue000"),
    ],
)
def test_characters_as_the_servers_have_them(name, stored, text):
    codec, errors = text_decoder(charsets._CHARSETS[name])
    assert stored.decode(codec, errors) == text


@pytest.mark.parametrize("name", sorted(OWN))
def test_bytes_that_a_charset_does_not_have(name):
    codec, _ = text_decoder(charsets._CHARSETS[name])
    stored = b"a\xff"
    try:
        text = stored.decode(codec)
    except UnicodeDecodeError:
        assert stored.decode(codec, "replace").startswith("a\ufffd")
    else:
        assert len(text) == 2
