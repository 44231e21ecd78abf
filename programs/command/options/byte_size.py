"""Sizes in options, such as 64MiB."""

from __future__ import annotations

import re
from typing import Final

from canal_group.merge.errors import UsageError

_SIZE: Final = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB)?")
_UNITS: Final = {None: 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def parse_size(text: str) -> int:
    """Return the bytes that `64MiB`, `100 KiB` or a plain number says.

    Raises:
        UsageError: the text is not a size, or zero.
    """
    match = _SIZE.fullmatch(text)
    size = int(match[1]) * _UNITS[match[2]] if match else 0
    if not size:
        raise UsageError(f"{text!r} is not a valid size.", hint="Expected a size such as 64MiB or 512KiB.")
    return size
