"""Text: a column's stored strings, in any charset, as UTF-8.

A column is checked as a whole: if all of it is ASCII or valid UTF-8, its bytes are used without a copy.
Single-byte charsets are converted with a table. Only other charsets, and columns with invalid bytes, are
decoded value by value.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from canal_group.binlog.charsets.charsets import Charset, text_decoder
from canal_group.binlog.native.images import converted, is_ascii, is_utf8
from canal_group.binlog.native.shapes import ColumnBuffers

_ASCII = bytes(range(128))


@dataclass(frozen=True, slots=True)
class TextRule:
    """How text in one charset becomes UTF-8."""

    #: Python's codec, and the error handler that decodes what the servers accept
    codec: str
    errors: str
    #: whether single bytes below 128 are ASCII
    ascii: bool
    #: for each byte its UTF-8, lowest first, and its length in the highest byte, 0 if undefined: 256 u32,
    #: little-endian; empty unless each byte is a character
    table: bytes

    @property
    def utf8(self) -> bool:
        """Whether it is UTF-8 already."""
        return self.codec == "utf_8"


@functools.cache
def text_rule(charset: Charset) -> TextRule:
    """Return the rule of a charset.

    Raises:
        UnsupportedEvent: Python has no codec for it.
    """
    codec, errors = text_decoder(charset)
    is_superset = _decoded(_ASCII, codec, errors) == _ASCII.decode("ascii")
    table = b"".join(_entry(byte, codec, errors) for byte in range(256)) if charset.width == 1 else b""
    return TextRule(codec, errors, is_superset, table)


def _decoded(value: bytes, codec: str, errors: str) -> str | None:
    try:
        return value.decode(codec, errors)
    except UnicodeDecodeError:
        return None


def _entry(byte: int, codec: str, errors: str) -> bytes:
    text = _decoded(bytes([byte]), codec, errors)
    encoded = text.encode() if text is not None else b""
    return encoded.ljust(3, b"\0") + bytes([len(encoded)])


def text_array(rule: TextRule, rows: int, buffers: ColumnBuffers) -> tuple[Any, int]:
    """Return a column of text as a utf8 array, and how many of its values are invalid in their charset.

    An invalid value keeps its valid parts and gets U+FFFD for the rest.

    Args:
        rule: the rule of the column's charset.
        rows: how many values.
        buffers: the column's buffers, of values of any size.

    Raises:
        OverflowError: the text has more than 2 GiB.
    """
    valid, nulls, slots, data = buffers
    assert data is not None, "text has values of any size"
    fitting = is_utf8(data, slots) if rule.utf8 else rule.ascii and is_ascii(data)
    if not fitting and rule.table:
        text = converted(data, slots, rule.table)
        if text is not None:
            fitting = True
            data, slots = text
    validity = None if valid is None else pa.py_buffer(valid)
    stored = [validity, pa.py_buffer(slots), pa.py_buffer(data)]
    if fitting:
        return pa.Array.from_buffers(pa.utf8(), rows, stored, nulls), 0
    return _decoded_array(rule, pa.Array.from_buffers(pa.binary(), rows, stored, nulls))


def _decoded_array(rule: TextRule, stored: Any) -> tuple[Any, int]:
    invalid = 0
    texts: list[str | None] = []
    for value in stored.to_pylist():
        text = None if value is None else _decoded(value, rule.codec, rule.errors)
        if text is None and value is not None:
            invalid += 1
            text = value.decode(rule.codec, "replace")
        texts.append(text)
    array = pa.array(texts, type=pa.utf8())
    if not isinstance(array, pa.Array):
        raise OverflowError("a column of text has more than 2 GiB in one chunk")
    return array, invalid
