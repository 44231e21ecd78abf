"""Hash codes of text as Java's String.hashCode computes them, vectorised.

h = 31 * h + c over the UTF-16 code units c of the text, in signed integers of 32 bits that overflow. So
h = sum of c[i] * 31^(length - 1 - i), which needs no loop over the text.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ASCII_END, _FOLLOWING, _FOLLOWING_END, _FOUR_BYTES = 0x80, 0x80, 0xC0, 0xF0


def java_hash(texts: Any) -> NDArray[np.int32]:
    """Return the hash code of each text; 0 for null and for empty text.

    Args:
        texts: (n,) utf8 Array.

    Returns:
        (n,) int32.
    """
    units, ends = _code_units(texts.fill_null(""))
    lengths = np.diff(ends)
    hashes = np.zeros(len(lengths), np.uint32)
    filled = np.flatnonzero(lengths)
    if len(filled):
        exponents = np.repeat(ends[1:] - 1, lengths) - np.arange(len(units))
        terms = units.astype(np.uint32) * _powers(int(lengths.max()).bit_length())[exponents]
        hashes[filled] = np.add.reduceat(terms, ends[:-1][filled])
    return hashes.view(np.int32)


def java_modulus(hashes: NDArray[np.int32], count: int) -> NDArray[np.int64]:
    """Return canal's partition of each hash code: Math.abs(Math.abs(hash) % count).

    Math.abs of the least integer is that integer itself; the second one makes its remainder positive.
    """
    wide = hashes.astype(np.int64)
    return np.abs(wide) % count


@lru_cache(maxsize=32)
def _powers(bits: int) -> NDArray[np.uint32]:
    """Return 31^0, 31^1, ... of 2^bits texts' lengths, modulo 2^32."""
    powers = np.full(1 << bits, 31, np.uint32)
    powers[0] = 1
    return np.multiply.accumulate(powers, dtype=np.uint32)


def _code_units(texts: Any) -> tuple[NDArray[np.uint8 | np.uint16], NDArray[np.int64]]:
    """Return the UTF-16 code units of all texts one after the other, and (n + 1,) where each begins."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset :][: len(texts) + 1].astype(np.int64)
    begin, end = int(ends[0]), int(ends[-1])
    octets = np.frombuffer(data, np.uint8)[begin:end] if end > begin else np.empty(0, np.uint8)
    ends -= begin
    if not (octets >= _ASCII_END).any():
        return octets, ends
    # A character has one unit, of four bytes it has two; its other bytes have none.
    following = (octets >= _FOLLOWING) & (octets < _FOLLOWING_END)
    counts = np.where(following, 0, np.where(octets >= _FOUR_BYTES, 2, 1))
    before = np.concatenate(([0], np.cumsum(counts)))
    return np.frombuffer(octets.tobytes().decode().encode("utf-16-le"), "<u2"), before[ends]
