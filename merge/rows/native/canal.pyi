"""The interface of `canal.pyx`.

What does not fit together raises ValueError.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from canal_group.merge.rows.native.text import Values

_Bytes: TypeAlias = NDArray[np.uint8]
#: what stands in front of a column's value in each row; the same for a value that needs the wider type; what
#: stands after it; the values; above which number one needs the wider type, None: none does; (n,) which are
#: absent, (0,): none
Column: TypeAlias = tuple[bytes, bytes, bytes, Values, int | None, _Bytes]

class Rows:
    """Row changes of one table, each as field 12 of a RowChange, from the first to the last.

    Args:
        before: the columns of the images before the change, in order; none, if no row has one.
        after: the same for the images after it.
        ops: (n,) INSERT, UPDATE or DELETE; an image that an operation does not have is not looked at.
    """

    #: (n + 1,) where each row begins in `block`, and where the last one ends
    begins: NDArray[np.int64]
    block: _Bytes

    def __init__(self, before: Iterable[Column], after: Iterable[Column], ops: _Bytes) -> None: ...
    @staticmethod
    def of(texts: Sequence[bytes]) -> Rows:
        """Return whole RowChanges, such as those of statements, for entries whose `count` is 0."""

def encode(
    entries: NDArray[np.void],
    transactions: NDArray[np.void],
    names: Iterable[bytes],
    shards: Iterable[bytes],
    gtid_ends: NDArray[np.int32],
    gtids: _Bytes,
    pieces: Iterable[Rows],
    prefixes: Iterable[bytes],
    number: int,
) -> tuple[_Bytes, NDArray[np.int64]]:
    """Return entries one after the other in a block, (e + 1,) where each begins, and where the last one ends.

    Args:
        entries: (e,) `canal_group.merge.rows.canal.entries.ENTRY`.
        transactions: (t,) `canal_group.merge.rows.canal.entries.TRANSACTION`.
        names: of the binlog files, by index.
        shards: names of the shards, by index.
        gtid_ends: (t + 1,) offsets of the transactions' GTIDs.
        gtids: their text.
        pieces: rows, by index.
        prefixes: schema and table of each piece, as fields of a header.
        number: field of which each entry is one; 0: none.
    """
