"""The interface of `json_writer.pyx`."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from canal_group.merge.rows.native.text import Values

class Member:
    """What a member of n JSON objects has in each of them.

    Args:
        kind: how it is written. `plain`: the values' texts as they are. `string`: in quotes, escaped.
            `object`: maps from text to text. `listed`: the same, each in a list of its own. `names`: the keys
            of maps, as a list. null is written for a null, and for `names` of no keys.
        values: n; of maps those of their entries. Of kind `text`, except for `plain`.
        keys: of the entries of maps, `text` without nulls.
        begins: (n + 1,) int32, where the entries of each map begin.
        valid: (n,) uint8, 0: the map is null.

    Raises:
        ValueError: what is given does not fit together.
    """

    #: n
    rows: int

    def __init__(
        self,
        kind: Literal["plain", "string", "object", "listed", "names"],
        values: Values,
        keys: Values | None = None,
        begins: NDArray[np.int32] | None = None,
        valid: NDArray[np.uint8] | None = None,
    ) -> None: ...

def write(
    members: Sequence[tuple[bytes, Member]], tail: bytes, rows: int
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return texts: (rows + 1,) offsets and the bytes that they point into.

    Args:
        members: what stands before each member, and the member, which has `rows` values.
        tail: what stands after the last one.
        rows: how many texts.

    Raises:
        ValueError: members have another number of values; more bytes than offsets of 32 bits can say.
    """

def above(
    maps: Member, indexes: NDArray[np.int64], names: Sequence[bytes], limits: Sequence[bytes]
) -> NDArray[np.uint8]:
    """Return of r rows and k names whether the value of that name is above a limit: (r, k), 0 or 1.

    Args:
        maps: whole numbers by name.
        indexes: (r,) the rows.
        names: k different names.
        limits: (k,) whole numbers, without zeros before them.

    Raises:
        ValueError: `maps` is of another kind, or has not these rows.
    """
