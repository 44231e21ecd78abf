"""Charset codecs: charsets that Python lacks, or decodes differently from the servers.

The tables were queried from MySQL 9.7 and MariaDB 10.11, byte by byte, and both answered the same:
`CONVERT(CONVERT(CHAR(n USING binary) USING charset) USING utf8mb4)`. Each is a codec of Python's, called
`canal_group_` and the charset's name.
"""

from __future__ import annotations

import codecs
import contextlib
import re
from functools import lru_cache
from typing import Protocol

from typing_extensions import Buffer

PREFIX = "canal_group_"
#: stands for a byte that the charset does not have
_NONE = "\ufffe"
_ASCII = bytes(range(128)).decode("ascii")
#: bytes from 0x80 on
_UPPER = {
    "armscii8": (
        "\u0080\u0081\u0082\u0083\u0084\u0085\u0086\u0087\u0088\u0089\u008a\u008b\u008c\u008d\u008e\u008f"
        "\u0090\u0091\u0092\u0093\u0094\u0095\u0096\u0097\u0098\u0099\u009a\u009b\u009c\u009d\u009e\u009f"
        "\u00a0\u2741\u00a7\u0589)(\u00bb\u00ab\u2014.\u055d,-\u055f\u2026\u055c\u055b\u055e\u0531\u0561"
        "\u0532\u0562\u0533\u0563\u0534\u0564\u0535\u0565\u0536\u0566\u0537\u0567\u0538\u0568\u0539\u0569"
        "\u053a\u056a\u053b\u056b\u053c\u056c\u053d\u056d\u053e\u056e\u053f\u056f\u0540\u0570\u0541\u0571"
        "\u0542\u0572\u0543\u0573\u0544\u0574\u0545\u0575\u0546\u0576\u0547\u0577\u0548\u0578\u0549\u0579"
        "\u054a\u057a\u054b\u057b\u054c\u057c\u054d\u057d\u054e\u057e\u054f\u057f\u0550\u0580\u0551\u0581"
        "\u0552\u0582\u0553\u0583\u0554\u0584\u0555\u0585\u0556\u0586\u2019'"
    ),
    "dec8": (
        "\u0080\u0081\u0082\u0083\u0084\u0085\u0086\u0087\u0088\u0089\u008a\u008b\u008c\u008d\u008e\u008f"
        "\u0090\u0091\u0092\u0093\u0094\u0095\u0096\u0097\u0098\u0099\u009a\u009b\u009c\u009d\u009e\u009f"
        "\u00a0\u00a1\u00a2\u00a3\ufffe\u00a5\ufffe\u00a7\u00a4\u00a9\u00aa\u00ab\ufffe\ufffe\ufffe\ufffe"
        "\u00b0\u00b1\u00b2\u00b3\ufffe\u00b5\u00b6\u00b7\ufffe\u00b9\u00ba\u00bb\u00bc\u00bd\ufffe\u00bf"
        "\u00c0\u00c1\u00c2\u00c3\u00c4\u00c5\u00c6\u00c7\u00c8\u00c9\u00ca\u00cb\u00cc\u00cd\u00ce\u00cf"
        "\ufffe\u00d1\u00d2\u00d3\u00d4\u00d5\u00d6\u0152\u00d8\u00d9\u00da\u00db\u00dc\u0178\ufffe\u00df"
        "\u00e0\u00e1\u00e2\u00e3\u00e4\u00e5\u00e6\u00e7\u00e8\u00e9\u00ea\u00eb\u00ec\u00ed\u00ee\u00ef"
        "\ufffe\u00f1\u00f2\u00f3\u00f4\u00f5\u00f6\u0153\u00f8\u00f9\u00fa\u00fb\u00fc\u00ff\ufffe\ufffe"
    ),
    "geostd8": (
        "\u20ac\ufffe\u201a\ufffe\u201e\u2026\u2020\u2021\ufffe\u2030\ufffe\u2039\ufffe\ufffe\ufffe\ufffe"
        "\ufffe\u2018\u2019\u201c\u201d\u2022\u2013\u2014\ufffe\ufffe\ufffe\u203a\ufffe\ufffe\ufffe\ufffe"
        "\u00a0\u00a1\u00a2\u00a3\u00a4\u00a5\u00a6\u00a7\u00a8\u00a9\u00aa\u00ab\u00ac\u00ad\u00ae\u00af"
        "\u00b0\u00b1\u00b2\u00b3\u00b4\u00b5\u00b6\u00b7\u00b8\u00b9\u00ba\u00bb\u00bc\u00bd\u00be\u00bf"
        "\u10d0\u10d1\u10d2\u10d3\u10d4\u10d5\u10d6\u10f1\u10d7\u10d8\u10d9\u10da\u10db\u10dc\u10f2\u10dd"
        "\u10de\u10df\u10e0\u10e1\u10e2\u10f3\u10e3\u10e4\u10e5\u10e6\u10e7\u10e8\u10e9\u10ea\u10eb\u10ec"
        "\u10ed\u10ee\u10f4\u10ef\u10f0\u10f5\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe"
        "\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\u2116\ufffe\ufffe"
    ),
    "keybcs2": (
        "\u010c\u00fc\u00e9\u010f\u00e4\u010e\u0164\u010d\u011b\u011a\u0139\u00cd\u013e\u013a\u00c4\u00c1"
        "\u00c9\u017e\u017d\u00f4\u00f6\u00d3\u016f\u00da\u00fd\u00d6\u00dc\u0160\u013d\u00dd\u0158\u0165"
        "\u00e1\u00ed\u00f3\u00fa\u0148\u0147\u016e\u00d4\u0161\u0159\u0155\u0154\u00bc\u00a1\u00ab\u00bb"
        "\u2591\u2592\u2593\u2502\u2524\u2561\u2562\u2556\u2555\u2563\u2551\u2557\u255d\u255c\u255b\u2510"
        "\u2514\u2534\u252c\u251c\u2500\u253c\u255e\u255f\u255a\u2554\u2569\u2566\u2560\u2550\u256c\u2567"
        "\u2568\u2564\u2565\u2559\u2558\u2552\u2553\u256b\u256a\u2518\u250c\u2588\u2584\u258c\u2590\u2580"
        "\u03b1\u00df\u0393\u03c0\u03a3\u03c3\u00b5\u03c4\u03a6\u0398\u03a9\u03b4\u221e\u03c6\u03b5\u2229"
        "\u2261\u00b1\u2265\u2264\u2320\u2321\u00f7\u2248\u00b0\u2219\u00b7\u221a\u207f\u00b2\u25a0\u00a0"
    ),
}
#: charset -> Python's codec, and the characters that the servers decode differently
_CORRECTED = {
    "cp866": ("cp866", {0xFC: "\u207f", 0xFD: "\u00b2"}),
    "greek": ("iso8859_7", {0xA1: "\u02bd", 0xA2: "\u02bc"}),
    "hebrew": ("iso8859_8", {0xAF: "\u203e"}),
    "koi8u": ("koi8_u", {0x95: "\u2022"}),
    "swe7": (
        "ascii",
        dict(
            zip(b"@[\\]^`{|}~", "\u00c9\u00c4\u00d6\u00c5\u00dc\u00e9\u00e4\u00f6\u00e5\u00fc", strict=True)
        ),
    ),
}
#: charset -> Python's codec, and a character of it -> the servers'
_REPLACED = {
    "sjis": ("shift_jis", {"\uff3c": "\\"}),
    "gb18030": ("gb18030", {"\ue7c7": "\u1e3f"}),
}
#: half-width katakana, which stay as they are; triples; pairs; pairs of the user's own
_EUC_PARTS = re.compile(
    rb"\x8e[\xa1-\xdf]|\x8f([\xa1-\xfe]{2})|((?:[\xa1-\xf4][\xa1-\xfe])+)|((?:[\xf5-\xfe][\xa1-\xfe])+)"
)
#: the first row of the user's own characters, and where those of pairs and of triples begin
_EUC_OWN, _PRIVATE, _PRIVATE_TRIPLES = 0xF5, 0xE000, 0xE3AC
#: triples of eucjpms from 8F F3 F3 on, which euc_jp lacks, and those that it reads otherwise
_EUC_EXTENDED_FROM = b"\xf3\xf3"
_EUC_EXTENDED = (
    "\u2170\u2171\u2172\u2173\u2174\u2175\u2176\u2177\u2178\u2179\u2160\u2161\u2162\u2163\u2164\u2165"
    "\u2166\u2167\u2168\u2169\uff07\uff02\u3231\u2116\u2121\u70bb\u4efc\u50f4\u51ec\u5307\u5324\ufa0e"
    "\u548a\u5759\ufa0f\ufa10\u589e\u5bec\u5cf5\u5d53\ufa11\u5fb7\u6085\u6120\u654e\u663b\u6665\ufa12"
    "\uf929\u6801\ufa13\ufa14\u6a6b\u6ae2\u6df8\u6df2\u7028\ufa15\ufa16\u7501\u7682\u769e\ufa17\u7930"
    "\ufa18\ufa19\ufa1a\ufa1b\u7ae7\ufa1c\ufa1d\u7da0\u7dd6\ufa1e\u8362\ufa1f\u85b0\ufa20\ufa21\u8807"
    "\ufa22\u8b7f\u8cf4\u8d76\ufa23\ufa24\ufa25\u90de\ufa26\u9115\ufa27\ufa28\u9592\uf9dc\ufa29\u973b"
    "\u974d\u9751\ufa2a\ufa2b\ufa2c\u999e\u9ad9\u9b72\ufa2d\u9ed1"
)
_EUC_OTHER = {b"\xa2\xb7": "\uff5e", b"\xa2\xc3": "\uffe4"}
#: EUC's first row, its rows in one block, and the second row of a pair in Shift-JIS
_EUC_FIRST, _CELLS = 0xA1, 94


class Decode(Protocol):
    """The decoder of a codec, the only direction that is needed."""

    def __call__(self, data: Buffer, errors: str = ..., /) -> tuple[str, int]:
        """Return the text, and how many bytes were read."""


def _table_of(name: str) -> str:
    if name in _UPPER:
        return _ASCII + _UPPER[name]
    codec, other = _CORRECTED[name]
    return "".join(other.get(byte) or _character(byte, codec) for byte in range(256))


def _character(byte: int, codec: str) -> str:
    try:
        return bytes([byte]).decode(codec)
    except UnicodeDecodeError:
        return _NONE


def _by_table(name: str) -> Decode:
    table = _table_of(name)

    def decode(data: Buffer, errors: str = "strict", /) -> tuple[str, int]:
        return codecs.charmap_decode(data, errors, table)

    return decode


def _by_replacing(name: str) -> Decode:
    codec, other = _REPLACED[name]
    table = str.maketrans(other)

    def decode(data: Buffer, errors: str = "strict", /) -> tuple[str, int]:
        source = bytes(data)
        return source.decode(codec, errors).translate(table), len(source)

    return decode


def _euc(*, windows: bool) -> Decode:
    """Return the decoder of EUC-JP with the user's own characters.

    Args:
        windows: whether it is as Windows has it: its pairs are those of code page 932 in another order.
    """

    def decode(data: Buffer, errors: str = "strict", /) -> tuple[str, int]:
        parts, at, source = [], 0, bytes(data)
        for part in _EUC_PARTS.finditer(source):
            triple, pairs, own = part.groups()
            if own or (triple and triple[0] >= _EUC_OWN):
                text = _private(own, _PRIVATE) if own else _private(triple, _PRIVATE_TRIPLES)
            elif windows and pairs:
                text = _shifted(pairs).decode("cp932", errors)
            elif windows and triple:
                text = _triple(triple)
            else:
                continue
            if text:
                parts += [rest(source[at : part.start()], errors), text]
                at = part.end()
        parts.append(rest(source[at:], errors))
        return "".join(parts), len(source)

    def rest(source: bytes, errors: str) -> str:
        text = source.decode("euc_jp", errors)
        return text if windows else text.replace("\uff3c", "\\")

    return decode


def _private(pairs: bytes, begin: int) -> str:
    cells = zip(pairs[::2], pairs[1::2], strict=True)
    return "".join(chr(begin + (row - _EUC_OWN) * _CELLS + cell - _EUC_FIRST) for row, cell in cells)


def _triple(pair: bytes) -> str:
    """Return the character of a triple that eucjpms reads otherwise than euc_jp; empty: it does not."""
    if pair < _EUC_EXTENDED_FROM:
        return _EUC_OTHER.get(pair, "")
    row, cell = (one - other for one, other in zip(pair, _EUC_EXTENDED_FROM, strict=True))
    return _EUC_EXTENDED[row * _CELLS + cell]


def _shifted(pairs: bytes) -> bytes:
    """Return pairs of EUC-JP in Shift-JIS: two rows of 94 cells there are one of 188."""
    shifted = bytearray()
    for row, cell in zip(pairs[::2], pairs[1::2], strict=True):
        half, odd = divmod(row - _EUC_FIRST, 2)
        trail = cell - _EUC_FIRST + odd * _CELLS
        # Lead bytes leave out what half-width katakana take, trail bytes leave out DEL.
        lead = half + (0x81 if half < 0xA0 - 0x81 else 0xE0 - (0xA0 - 0x81))
        shifted += bytes([lead, trail + (0x40 if trail < 0x7F - 0x40 else 0x41)])
    return bytes(shifted)


def _search(name: str) -> codecs.CodecInfo | None:
    charset = name.removeprefix(PREFIX)
    if charset == name:
        return None
    if charset in ("eucjpms", "ujis"):
        decode = _euc(windows=charset == "eucjpms")
    else:
        decode = _by_replacing(charset) if charset in _REPLACED else _by_table(charset)
    return codecs.CodecInfo(encode=_encode, decode=decode, name=name)


@lru_cache
def characters_of(codec: str, width: int) -> frozenset[str]:
    """Return the characters of one of these charsets.

    Args:
        codec: its name here.
        width: bytes of its widest character, at most 3: with four, a charset has all.
    """
    single, high = [bytes([byte]) for byte in range(256)], range(0x80, 256)
    pairs = [bytes([lead, byte]) for lead in high for byte in range(256)] if width > 1 else []
    triples = [b"\x8f" + pair for pair in pairs] if width > 2 else []  # noqa: PLR2004 - bytes
    characters: set[str] = set()
    for each in [*single, *pairs, *triples]:
        with contextlib.suppress(UnicodeDecodeError):
            characters |= set(each.decode(codec))
    return frozenset(characters)


def _encode(text: str, _errors: str = "strict") -> tuple[bytes, int]:
    raise UnicodeEncodeError(PREFIX, text, 0, 1, "nothing is written in a source's charset")


codecs.register(_search)
