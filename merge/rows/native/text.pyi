"""What callers see of `text.pyx`.

Each function writes the texts of n values one after another into `out`, and where each begins into
`out_offsets`, (n + 1,) int32; the last one is where they all end.
"""

import numpy as np
from numpy.typing import NDArray

def write_times(
    micros: NDArray[np.int64], digits: int, out_offsets: NDArray[np.int32], out: NDArray[np.uint8]
) -> None:
    """Write [-]HH:MM:SS[.f] for (n,) microseconds, with `digits` of the fraction, 0 to 6.

    Raises:
        ValueError: `out` has less than 24 bytes a value.
    """

def write_datetimes(
    micros: NDArray[np.int64], digits: int, out_offsets: NDArray[np.int32], out: NDArray[np.uint8]
) -> None:
    """Write YYYY-MM-DD HH:MM:SS[.f] for (n,) microseconds since 1970, with `digits` of the fraction, 0 to 6.

    Raises:
        ValueError: `out` has less than 32 bytes a value; a year is not from 0 to 9999.
    """

def write_decimals(
    values: NDArray[np.uint64], scale: int, out_offsets: NDArray[np.int32], out: NDArray[np.uint8]
) -> None:
    """Write (n, 2) integers of 128 bits, the lower word first, with `scale` digits behind the point, 0 to 38.

    Raises:
        ValueError: `out` has less than 80 bytes a value.
    """

def count_high(data: NDArray[np.uint8]) -> int:
    """Return how many bytes are not ASCII."""

def write_latin1(
    offsets: NDArray[np.int32],
    data: NDArray[np.uint8],
    out_offsets: NDArray[np.int32],
    out: NDArray[np.uint8],
) -> None:
    """Write each byte as the ISO-8859-1 character of its number, in UTF-8; value i is `offsets[i:i + 2]`.

    Raises:
        ValueError: an offset is beyond the data, or `out` has no room.
    """
