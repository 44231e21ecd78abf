"""The interface of `text.pyx`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

class Values:
    """The values of a column, which are printed as `canal_group.merge.rows.text` says.

    Args:
        kind: int8 to int64, uint8 to uint64, float, double, decimal (of 128 bits), wide_decimal (of 256),
            datetime and time (int64, microseconds), text and latin1 (offsets of 32 bits; utf8, or bytes that
            are ISO-8859-1 characters), or dictionary (int32, indexes of `members`).
        rows: how many.
        offset: index of the first one in the buffers.
        buffers: of its Arrow array, the validity bitmap first.
        digits: of decimals, datetimes and times: how many are printed after the point.
        members: the texts of a dictionary.

    Raises:
        ValueError: a buffer is too short, an offset or index points outside, a year is not from 0 to 9999.
    """

    kind: str
    rows: int
    #: most bytes that all texts have together
    size_max: int

    def __init__(
        self,
        kind: str,
        rows: int,
        offset: int,
        buffers: Sequence[Any],
        *,
        digits: int = 0,
        members: Values | None = None,
    ) -> None: ...
    def texts(self) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        """Return (rows + 1,) offsets and the bytes that they point into; a null's text is empty.

        Raises:
            ValueError: there may be more bytes than offsets of 32 bits can say.
        """
