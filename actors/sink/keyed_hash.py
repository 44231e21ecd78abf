"""Keyed hashes: HMAC-SHA256 of every value of a column at once, with numpy.

Layout: FIPS 180-4 (SHA-256) and RFC 2104 (HMAC).
"""

from __future__ import annotations

import hmac
from math import isqrt
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_BLOCK: Final = 64
#: a longer value is hashed by itself: its own bytes then cost more than the call
LONG_BYTES: Final = 4_096
#: values that are hashed at once: bounds the words in memory
_VALUES_MAX: Final = 8_192


def keyed_hashes(key: bytes, values: Any) -> Any:
    """Return HMAC-SHA256 of each value as 64 hexadecimal digits; null for null.

    Args:
        key: the salt.
        values: (n,) array of utf8 or binary.

    Returns:
        (n,) array of utf8.
    """
    coded = values.cast(pa.binary()).dictionary_encode()
    distinct = coded.dictionary
    digests = np.zeros((len(distinct), 32), np.uint8)
    for begin in range(0, len(distinct), _VALUES_MAX):
        part = distinct.slice(begin, _VALUES_MAX)
        digests[begin : begin + len(part)] = _digests(key, part)
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    text = np.stack((digits[digests >> 4], digits[digests & 15]), axis=2)
    offsets = pa.py_buffer(np.arange(0, 64 * len(distinct) + 1, 64, dtype=np.int32))
    hashes = pa.Array.from_buffers(pa.utf8(), len(distinct), [None, offsets, pa.py_buffer(text.tobytes())])
    return hashes.take(coded.indices)


def _digests(key: bytes, values: Any) -> NDArray[np.uint8]:
    _, offset_buffer, data_buffer = values.buffers()
    stored = np.frombuffer(offset_buffer, np.int32)[values.offset : values.offset + len(values) + 1]
    offsets = stored.astype(np.int64)
    data = np.zeros(1, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    data = data if len(data) else np.zeros(1, np.uint8)
    lengths = np.diff(offsets)
    digests = np.zeros((len(values), 32), np.uint8)
    short = np.flatnonzero(lengths <= LONG_BYTES)
    padded = np.frombuffer((key if len(key) <= _BLOCK else _plain(key)).ljust(_BLOCK, b"\0"), np.uint8)
    inner, outer = (_after_key(padded ^ np.uint8(pad)) for pad in (0x36, 0x5C))
    first = _bytes(_hashed(inner, data, offsets[short], lengths[short]))
    starts = np.arange(len(short), dtype=np.int64) * 32
    digests[short] = _bytes(_hashed(outer, first.reshape(-1), starts, np.full_like(starts, 32)))
    for index in np.flatnonzero(lengths > LONG_BYTES).tolist():
        value = data[offsets[index] : offsets[index + 1]].tobytes()
        digests[index] = np.frombuffer(hmac.digest(key, value, "sha256"), np.uint8)
    return digests


def _plain(key: bytes) -> bytes:
    data = np.frombuffer(key, np.uint8)
    none = np.zeros(1, np.int64)
    return _bytes(_hashed(_INITIAL.reshape(8, 1), data, none, none + len(data), before=0)).tobytes()


def _after_key(block: NDArray[np.uint8]) -> NDArray[np.uint32]:
    return _compressed(_INITIAL.reshape(8, 1), _words(block.reshape(1, _BLOCK)))


def _hashed(
    state: NDArray[np.uint32],
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    before: int = _BLOCK,
) -> NDArray[np.uint32]:
    """Return the (8, n) states after messages that follow `before` bytes, which led to `state`."""
    states = np.repeat(state, len(starts), axis=1)
    blocks = (lengths + 9 + _BLOCK - 1) // _BLOCK
    places = np.arange(_BLOCK, dtype=np.int64)
    for block in range(int(blocks.max(initial=0))):
        rows = np.flatnonzero(blocks > block)
        within = block * _BLOCK + places[None, :] - lengths[rows, None]
        found = np.minimum(starts[rows, None] + block * _BLOCK + places, len(data) - 1)
        message = np.where(within < 0, data[found], np.where(within == 0, np.uint8(0x80), np.uint8(0)))
        last = np.flatnonzero(blocks[rows] == block + 1)
        bits = ((lengths[rows[last]] + before) * 8).astype(">u8")
        message[last, _BLOCK - 8 :] = bits.view(np.uint8).reshape(-1, 8)
        states[:, rows] = _compressed(states[:, rows], _words(message))
    return states


def _words(blocks: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return the 16 words of each block, as (16, n)."""
    return np.ascontiguousarray(np.ascontiguousarray(blocks).view(">u4").astype(np.uint32).T)


def _bytes(states: NDArray[np.uint32]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(states.T.astype(">u4")).view(np.uint8)


def _turned(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (words >> np.uint32(bits)) | (words << np.uint32(32 - bits))


def _compressed(state: NDArray[np.uint32], words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    schedule = list(words)
    for index in range(16, 64):
        low, high = schedule[index - 15], schedule[index - 2]
        near = _turned(low, 7) ^ _turned(low, 18) ^ (low >> np.uint32(3))
        far = _turned(high, 17) ^ _turned(high, 19) ^ (high >> np.uint32(10))
        schedule.append(schedule[index - 16] + near + schedule[index - 7] + far)
    a, b, c, d, e, f, g, h = state
    for constant, word in zip(_ROUNDS, schedule, strict=True):
        choice = (e & f) ^ (~e & g)
        one = h + (_turned(e, 6) ^ _turned(e, 11) ^ _turned(e, 25)) + choice + constant + word
        two = (_turned(a, 2) ^ _turned(a, 13) ^ _turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))
        a, b, c, d, e, f, g, h = one + two, a, b, c, d + one, e, f, g
    return np.stack((a, b, c, d, e, f, g, h)) + state


def _primes(count: int) -> list[int]:
    found: list[int] = []
    number = 2
    while len(found) < count:
        if all(number % prime for prime in found):
            found.append(number)
        number += 1
    return found


def _cube_root(number: int) -> int:
    low, high = 0, 1 << (number.bit_length() // 3 + 2)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**3 <= number else (low, middle)
    return low


#: the first 32 bits of the fractions of square roots and cube roots of primes
_INITIAL = np.array([isqrt(prime << 64) & 0xFFFFFFFF for prime in _primes(8)], np.uint32)
_ROUNDS = np.array([_cube_root(prime << 96) & 0xFFFFFFFF for prime in _primes(64)], np.uint32)
