"""Masks: what replaces the values of a column before they leave the shard.

`hash` and `last` take a value's text (see `canal_group.merge.rows.text`), `hash` the bytes of a binary
column; NULL stays NULL. A value that is no longer than `last` becomes empty, so that no value leaves whole.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from canal_group.merge.rows.text import text
from canal_group.merge.values.chunk import MYSQL_TYPE


class MaskKind(StrEnum):
    """What a mask does."""

    HASH = "hash"
    LAST = "last"
    NULL = "null"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class Mask:
    """The mask of one column."""

    kind: MaskKind
    #: of `LAST`: characters that remain
    last: int = 0
    #: of `CONSTANT`
    value: str | int = ""
    #: of `HASH`
    salt: bytes = field(default=b"", repr=False)

    @property
    def unique(self) -> bool:
        """Whether the mask keeps different values different, so that a primary key stays unique."""
        return self.kind is MaskKind.HASH

    def field(self, column: Any) -> Any:
        """Return the field of the masked column."""
        if self.kind is MaskKind.NULL:
            return column.with_nullable(True)
        number = self.kind is MaskKind.CONSTANT and isinstance(self.value, int)
        kind, name = (pa.int64(), b"bigint") if number else (pa.utf8(), b"text")
        return pa.field(column.name, kind, metadata={MYSQL_TYPE: name})

    def apply(self, values: Any, mysql_type: str) -> Any:
        """Return the masked values of a column.

        Args:
            values: (n,) Array.
            mysql_type: the column's type as the source writes it.
        """
        if self.kind is MaskKind.NULL:
            return pa.nulls(len(values), values.type)
        if self.kind is MaskKind.CONSTANT:
            return pa.repeat(
                pa.scalar(self.value, pa.int64() if isinstance(self.value, int) else pa.utf8()), len(values)
            )
        if self.kind is MaskKind.HASH and pa.types.is_binary(values.type):
            return keyed_hashes(self.salt, values)
        texts = text(values, mysql_type)
        if self.kind is MaskKind.HASH:
            return keyed_hashes(self.salt, texts)
        longer = pc.greater(pc.utf8_length(texts), self.last)
        return pc.if_else(longer, pc.utf8_slice_codeunits(texts, -self.last), "")


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
