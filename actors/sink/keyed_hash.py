"""Keyed hashes: HMAC-SHA256 of the values of a column."""

from __future__ import annotations

import hmac
from typing import Any

import pyarrow as pa


def keyed_hashes(key: bytes, values: Any) -> Any:
    """Return HMAC-SHA256 of each value as 64 hexadecimal digits; null for null.

    Each different value is hashed once, by the library: there is no function for a whole array.

    Args:
        key: the salt.
        values: (n,) array of utf8 or binary.

    Returns:
        (n,) array of utf8.
    """
    coded = values.cast(pa.binary()).dictionary_encode()
    hashes = [hmac.digest(key, value, "sha256").hex() for value in coded.dictionary.to_pylist()]
    return pa.array(hashes, pa.utf8()).take(coded.indices)
