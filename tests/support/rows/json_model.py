"""JSON: the model that the compiled reader of MySQL's binary JSON is compared with, in plain Python.

Objects and arrays are written with ", " and ": ", keys in the stored order. Values that JSON has no type for
are printed the way `SELECT` prints them: decimals as numbers, dates and times as strings, everything else as
"base64:typeN:...", with an escaped line break after every 76 characters.

Layout: the comment at the top of MySQL's `sql-common/json_binary.h`. Nothing is read beyond the given bytes:
a value that points outside raises CorruptEvent.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable

from support.rows.number_texts import json_double_text

from canal_group.merge.errors import CorruptEvent
from canal_group.merge.values.types.table import ColumnType

#: MySQL breaks base64 after 76 characters
_LINE_BYTES, _LINE_BREAK = 57, "\\n"
_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY = 0, 1, 2, 3
_LITERAL, _INT16, _UINT16, _INT32, _UINT32, _INT64, _UINT64, _DOUBLE, _STRING = 4, 5, 6, 7, 8, 9, 10, 11, 12
_OPAQUE = 15
_LITERALS = {0: "null", 1: "true", 2: "false"}
_NUMBERS: dict[int, str] = {
    _INT16: "<h",
    _UINT16: "<H",
    _INT32: "<i",
    _UINT32: "<I",
    _INT64: "<q",
    _UINT64: "<Q",
}
_DEPTH_MAX = 100  # MySQL's own limit


def json_text(value: bytes) -> str:
    """Return a JSON column's value as text; an empty value is JSON null, as after a non-strict insert.

    Raises:
        CorruptEvent: the bytes are not binary JSON.
    """
    if not value:
        return "null"
    try:
        return _text(value[0], memoryview(value)[1:], 0)
    except (IndexError, struct.error, UnicodeDecodeError, KeyError) as error:
        raise CorruptEvent(f"A JSON value cannot be read ({type(error).__name__}: {error}).") from error


def _text(kind: int, data: memoryview, depth: int) -> str:
    if depth > _DEPTH_MAX:
        raise CorruptEvent("A JSON value is nested deeper than the server allows.")
    if kind <= _LARGE_ARRAY:
        return _container(kind, data, depth)
    if kind == _LITERAL:
        return _LITERALS[data[0]]
    if kind in _NUMBERS:
        return str(struct.unpack_from(_NUMBERS[kind], data)[0])
    if kind == _DOUBLE:
        return json_double_text(struct.unpack_from("<d", data)[0])
    if kind == _STRING:
        return _quoted(_sized(data).decode("utf-8"))
    if kind == _OPAQUE:
        return _opaque(data[0], _sized(data[1:]))
    raise CorruptEvent(f"JSON type {kind} is not known.")


def _container(kind: int, data: memoryview, depth: int) -> str:
    large = kind in (_LARGE_OBJECT, _LARGE_ARRAY)
    is_object = kind in (_SMALL_OBJECT, _LARGE_OBJECT)
    width, word = (4, "<I") if large else (2, "<H")
    count, size = (struct.unpack_from(word, data, at)[0] for at in (0, width))
    if size > len(data):
        raise CorruptEvent("A JSON value is shorter than it says.")
    keys_at = 2 * width
    values_at = keys_at + (count * (width + 2) if is_object else 0)
    texts = []
    for index in range(count):
        text = _entry(data, values_at + index * (width + 1), word, large, depth)
        if is_object:
            key_entry = keys_at + index * (width + 2)
            (key_at,) = struct.unpack_from(word, data, key_entry)
            (key_size,) = struct.unpack_from("<H", data, key_entry + width)
            text = f"{_quoted(_slice(data, key_at, key_size).decode('utf-8'))}: {text}"
        texts.append(text)
    inside = ", ".join(texts)
    return f"{{{inside}}}" if is_object else f"[{inside}]"


def _entry(data: memoryview, at: int, word: str, large: bool, depth: int) -> str:
    """Return the text of one value: small values are in the entry itself, others where it points."""
    kind = data[at]
    inlined = kind in (_LITERAL, _INT16, _UINT16) or (large and kind in (_INT32, _UINT32))
    if inlined:
        return _text(kind, data[at + 1 :], depth + 1)
    (value_at,) = struct.unpack_from(word, data, at + 1)
    return _text(kind, data[value_at:], depth + 1)


def _slice(data: memoryview, at: int, size: int) -> bytes:
    part = bytes(data[at : at + size])
    if len(part) < size:
        raise CorruptEvent("A JSON value points outside itself.")
    return part


def _sized(data: memoryview) -> bytes:
    """Return a value that has its length before it: 7 bits a byte, the lowest first."""
    size = at = 0
    while True:
        byte = data[at]
        size |= (byte & 0x7F) << (7 * at)
        at += 1
        if byte < 0x80:
            return _slice(data, at, size)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _opaque(kind: int, data: bytes) -> str:
    printer = _OPAQUE_PRINTERS.get(kind)
    if printer is not None:
        return printer(data)
    lines = (data[at : at + _LINE_BYTES] for at in range(0, len(data), _LINE_BYTES))
    return f'"base64:type{kind}:{_LINE_BREAK.join(base64.b64encode(line).decode("ascii") for line in lines)}"'


def decimal_text(data: bytes, precision: int, scale: int) -> str:
    """Return a packed DECIMAL as text (`decimal2bin` in MySQL's strings/decimal.cc)."""
    sizes = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
    negative = not data[0] & 0x80
    raw = bytearray(data)
    raw[0] ^= 0x80
    if negative:
        raw = bytearray(byte ^ 0xFF for byte in raw)
    whole, fraction = precision - scale, scale
    groups = [whole % 9, *[9] * (whole // 9)]
    digits, at = "", 0
    for width in groups:
        digits += f"{int.from_bytes(raw[at : at + sizes[width]], 'big'):0{width}d}" if width else ""
        at += sizes[width]
    decimals = ""
    for width in [*[9] * (fraction // 9), fraction % 9]:
        decimals += f"{int.from_bytes(raw[at : at + sizes[width]], 'big'):0{width}d}" if width else ""
        at += sizes[width]
    text = digits.lstrip("0") or "0"
    return f"{'-' if negative else ''}{text}{'.' if decimals else ''}{decimals}"


def _packed_time(data: bytes) -> tuple[str, int, int]:
    (packed,) = struct.unpack("<q", data)
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    return sign, packed >> 24, packed & 0xFFFFFF


def _decimal(data: bytes) -> str:
    return decimal_text(data[2:], data[0], data[1])


def _time(data: bytes) -> str:
    sign, whole, micros = _packed_time(data)
    return f'"{sign}{(whole >> 12) & 0x3FF:02d}:{(whole >> 6) & 0x3F:02d}:{whole & 0x3F:02d}.{micros:06d}"'


def _date_part(whole: int) -> str:
    months, day = (whole >> 22), (whole >> 17) & 0x1F
    return f"{months // 13:04d}-{months % 13:02d}-{day:02d}"


def _date(data: bytes) -> str:
    return f'"{_date_part(_packed_time(data)[1])}"'


def _datetime(data: bytes) -> str:
    _, whole, micros = _packed_time(data)
    clock = f"{(whole >> 12) & 0x1F:02d}:{(whole >> 6) & 0x3F:02d}:{whole & 0x3F:02d}"
    return f'"{_date_part(whole)} {clock}.{micros:06d}"'


_OPAQUE_PRINTERS: dict[int, Callable[[bytes], str]] = {
    ColumnType.NEWDECIMAL: _decimal,
    ColumnType.TIME: _time,
    ColumnType.DATE: _date,
    ColumnType.DATETIME: _datetime,
    ColumnType.TIMESTAMP: _datetime,
}
