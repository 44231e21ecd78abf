"""Charsets: from the collation number in a table map to a decoder of text.

Collation numbers below 576 mean the same on MySQL and MariaDB, or are used by one of them only. MariaDB adds
1024 for its NOPAD variants, and numbers its UCA 14 collations from 2048 on, 256 for each charset.

Source: `information_schema.COLLATIONS` of MySQL 9 and `COLLATION_CHARACTER_SET_APPLICABILITY` of MariaDB
10.11.
"""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

from canal_group.binlog.charsets.charset_codecs import PREFIX
from canal_group.merge.errors import UnsupportedEvent

BINARY_COLLATION = 63
#: bytes that "surrogateescape" keeps
_ESCAPED = re.compile("[\udc80-\udcff]")
_NOPAD = 1024
_UCA14 = 2048
_UCA14_CHARSETS = ("utf8mb3", "utf8mb4", "ucs2", "utf16", "utf32")
_C1 = "canal_group_c1"
_ETEN = "canal_group_eten"
#: pairs of big5 that Python has in cp950 only
ETEN_FIRST, ETEN_LAST = b"\xf9\xd6", b"\xf9\xdc"


class Charset(NamedTuple):
    """A server's charset."""

    name: str
    #: Python's codec, or our own (`charset_codecs`); empty for bytes
    codec: str
    #: largest number of bytes of one character
    width: int


def _c1_for_undefined(error: UnicodeError) -> tuple[str, int]:
    """Decode the bytes that Windows code pages leave undefined the way the servers do: as C1 controls."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("latin-1"), error.end


codecs.register_error(_C1, _c1_for_undefined)


def _eten_for_undefined(error: UnicodeError) -> tuple[str, int]:
    """Decode seven characters of big5 that the servers take from ETEN, and Python has in cp950 only."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    pair = error.object[error.start : error.start + 2]
    if not ETEN_FIRST <= pair <= ETEN_LAST:
        raise error
    return pair.decode("cp950"), error.start + 2


codecs.register_error(_ETEN, _eten_for_undefined)

_CHARSETS = {
    charset.name: charset
    for charset in (
        Charset("ascii", "ascii", 1),
        Charset("armscii8", PREFIX + "armscii8", 1),
        Charset("big5", "big5", 2),
        Charset("binary", "", 1),
        Charset("cp1250", "cp1250", 1),
        Charset("cp1251", "cp1251", 1),
        Charset("cp1256", "cp1256", 1),
        Charset("cp1257", "cp1257", 1),
        Charset("cp850", "cp850", 1),
        Charset("cp852", "cp852", 1),
        Charset("cp866", PREFIX + "cp866", 1),
        Charset("cp932", "cp932", 2),
        Charset("dec8", PREFIX + "dec8", 1),
        Charset("eucjpms", PREFIX + "eucjpms", 3),
        Charset("euckr", "cp949", 2),
        Charset("gb18030", PREFIX + "gb18030", 4),
        Charset("gb2312", "gb2312", 2),
        Charset("gbk", "gbk", 2),
        Charset("geostd8", PREFIX + "geostd8", 1),
        Charset("greek", PREFIX + "greek", 1),
        Charset("hebrew", PREFIX + "hebrew", 1),
        Charset("hp8", "hp_roman8", 1),
        Charset("keybcs2", PREFIX + "keybcs2", 1),
        Charset("koi8r", "koi8_r", 1),
        Charset("koi8u", PREFIX + "koi8u", 1),
        Charset("latin1", "cp1252", 1),
        Charset("latin2", "iso8859_2", 1),
        Charset("latin5", "iso8859_9", 1),
        Charset("latin7", "iso8859_13", 1),
        Charset("macce", "mac_latin2", 1),
        Charset("macroman", "mac_roman", 1),
        Charset("sjis", PREFIX + "sjis", 2),
        Charset("swe7", PREFIX + "swe7", 1),
        Charset("tis620", "tis_620", 1),
        Charset("ucs2", "utf_16_be", 2),
        Charset("ujis", PREFIX + "ujis", 3),
        Charset("utf16", "utf_16_be", 4),
        Charset("utf16le", "utf_16_le", 4),
        Charset("utf32", "utf_32_be", 4),
        Charset("utf8mb3", "utf_8", 3),
        Charset("utf8mb4", "utf_8", 4),
    )
}

#: charset -> inclusive ranges of its collation numbers
_RANGES: dict[str, tuple[tuple[int, int], ...]] = {
    "big5": ((1, 1), (84, 84)),
    "latin2": ((2, 2), (9, 9), (21, 21), (27, 27), (77, 77)),
    "dec8": ((3, 3), (69, 69)),
    "cp850": ((4, 4), (80, 80)),
    "latin1": ((5, 5), (8, 8), (15, 15), (31, 31), (47, 49), (94, 94)),
    "hp8": ((6, 6), (72, 72)),
    "koi8r": ((7, 7), (74, 74)),
    "swe7": ((10, 10), (82, 82)),
    "ascii": ((11, 11), (65, 65)),
    "ujis": ((12, 12), (91, 91)),
    "sjis": ((13, 13), (88, 88)),
    "cp1251": ((14, 14), (23, 23), (50, 52)),
    "hebrew": ((16, 16), (71, 71)),
    "tis620": ((18, 18), (89, 89)),
    "euckr": ((19, 19), (85, 85)),
    "latin7": ((20, 20), (41, 42), (79, 79)),
    "koi8u": ((22, 22), (75, 75)),
    "gb2312": ((24, 24), (86, 86)),
    "greek": ((25, 25), (70, 70)),
    "cp1250": ((26, 26), (34, 34), (44, 44), (66, 66), (99, 99)),
    "gbk": ((28, 28), (87, 87)),
    "cp1257": ((29, 29), (58, 59)),
    "latin5": ((30, 30), (78, 78)),
    "armscii8": ((32, 32), (64, 64)),
    "utf8mb3": ((33, 33), (76, 76), (83, 83), (192, 215), (223, 223), (576, 578)),
    "ucs2": ((35, 35), (90, 90), (128, 151), (159, 159), (640, 642)),
    "cp866": ((36, 36), (68, 68)),
    "keybcs2": ((37, 37), (73, 73)),
    "macce": ((38, 38), (43, 43)),
    "macroman": ((39, 39), (53, 53)),
    "cp852": ((40, 40), (81, 81)),
    "utf8mb4": ((45, 46), (224, 247), (255, 323), (608, 610)),
    "utf16": ((54, 55), (101, 124), (672, 674)),
    "utf16le": ((56, 56), (62, 62)),
    "cp1256": ((57, 57), (67, 67)),
    "utf32": ((60, 61), (160, 183), (736, 738)),
    "binary": ((63, 63),),
    "geostd8": ((92, 93),),
    "cp932": ((95, 96),),
    "eucjpms": ((97, 98),),
    "gb18030": ((248, 250),),
}
_BY_COLLATION = {
    number: _CHARSETS[name]
    for name, ranges in _RANGES.items()
    for first, last in ranges
    for number in range(first, last + 1)
}


def charset_of(collation: int) -> Charset:
    """Return the charset of a collation number.

    Raises:
        UnsupportedEvent: no known server uses the number.
    """
    if collation >= _UCA14:
        index = (collation - _UCA14) // 256
        if index < len(_UCA14_CHARSETS):
            return _CHARSETS[_UCA14_CHARSETS[index]]
    charset = _BY_COLLATION.get(collation - _NOPAD if collation > _NOPAD else collation)
    if charset is None:
        raise UnsupportedEvent(
            f"Collation number {collation} is unknown.",
            hint="Convert the column to utf8mb4, or leave its table out.",
        )
    return charset


def shown_bytes(value: bytes) -> str:
    """Return bytes as SHOW CREATE TABLE has them in a binary ENUM or SET: `?` for each that is not UTF-8."""
    return _ESCAPED.sub("?", value.decode("utf-8", "surrogateescape"))


def text_decoder(charset: Charset) -> tuple[str, str]:
    """Return the codec and the error handler that read a charset's text.

    Raises:
        UnsupportedEvent: the charset is not one of text.
    """
    if not charset.codec:
        raise UnsupportedEvent(
            f"Charset {charset.name} cannot be decoded.",
            hint="Convert the column to utf8mb4, or leave its table out.",
        )
    if charset.name == "big5":
        return charset.codec, _ETEN
    return charset.codec, _C1 if charset.codec.startswith("cp12") else "strict"
