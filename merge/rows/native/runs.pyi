"""The interface of `runs.pyx`.

A run is a range of rows of one chunk: `chunk` its index, `begin` its first row there, `length` how many, each
(r,) int64. Addresses are (chunks,) int64, of the memory that row 0 of each chunk has; where `out` ends is
not checked: it has room for all runs together.
"""

import numpy as np
from numpy.typing import NDArray

def find(
    sequence: NDArray[np.int64],
    row: NDArray[np.int64],
    is_other: NDArray[np.bool_],
    first_sequence: int,
    ranks: NDArray[np.int64],
    seq_of_row_zero: NDArray[np.int64],
    base: int,
    other_base: int,
    out: NDArray[np.int64],
) -> int:
    """Find the runs of n rows that follow each other in the merged stream, and return how many there are.

    Args:
        sequence: (n,) the ring's sequence of each row's header.
        row: (n,) each row's ordinal in its transaction.
        is_other: (n,) which rows are deletes, which have images of their own; (0,): none.
        first_sequence: of the shard's first header.
        ranks: by `sequence - first_sequence`: the header's index in the batch.
        seq_of_row_zero: by rank: the number in the merged stream of a row with ordinal 0.
        base: index of row 0 among all rows.
        other_base: the same for the rows of `is_other`.
        out: (4, n), filled with a column for each run: index of its first row, rows, rank, number of its
            first row.

    Raises:
        AssertionError: a row's header is not in the batch.
    """

def copy_values(
    chunk: NDArray[np.int64],
    begin: NDArray[np.int64],
    length: NDArray[np.int64],
    addresses: NDArray[np.int64],
    width: int,
    out: NDArray[np.uint8],
) -> None:
    """Copy values of `width` bytes each."""

def copy_bits(
    chunk: NDArray[np.int64],
    begin: NDArray[np.int64],
    length: NDArray[np.int64],
    addresses: NDArray[np.int64],
    offsets: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> None:
    """Copy bits, the lowest of a byte first.

    Address 0 stands for a bitmap whose bits are all set; `offsets` are the bits of row 0 of each chunk.
    """

def text_bytes(
    chunk: NDArray[np.int64],
    begin: NDArray[np.int64],
    length: NDArray[np.int64],
    offset_addresses: NDArray[np.int64],
) -> int:
    """Return how many bytes the values of all runs have."""

def copy_text(
    chunk: NDArray[np.int64],
    begin: NDArray[np.int64],
    length: NDArray[np.int64],
    offset_addresses: NDArray[np.int64],
    data_addresses: NDArray[np.int64],
    out_offsets: NDArray[np.int32],
    out: NDArray[np.uint8],
) -> None:
    """Copy values of any size, with offsets of 32 bits.

    `offset_addresses` are those of the offset of row 0, `data_addresses` of what the offsets point into;
    `out_offsets` has room for one more than there are rows, `out` for `text_bytes`, less than 2 GiB.
    """

def fill_ascending(first: NDArray[np.int64], length: NDArray[np.int64], out: NDArray[np.int64]) -> None:
    """Write the numbers of r ranges one after the other: `length` of them from `first` on, each (r,)."""

def repeat_text(
    counts: NDArray[np.int64],
    offsets: NDArray[np.int32],
    data: NDArray[np.uint8],
    out_offsets: NDArray[np.int32],
    out: NDArray[np.uint8],
) -> None:
    """Write each of r values as often as its count in (r,) `counts`, see `copy_text`."""
