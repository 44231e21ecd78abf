"""A row of a server's answer: what it lacks, or says in another form, is an error of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from merge.errors import CanalGroupError


class Row(dict[str, Any]):
    """The values of one row, by column name.

    Args:
        values: the same.
        unfit: makes the error of what does not fit; is given what that is, as the end of a sentence.
    """

    def __init__(self, values: Mapping[str, Any], unfit: Callable[[str], CanalGroupError]) -> None:
        super().__init__(values)
        self._unfit = unfit

    def __missing__(self, column: str) -> Any:
        raise self._unfit(f"its answer has no column {column}")

    def number(self, column: str) -> int:
        """Return a value that is a whole number.

        Raises:
            CanalGroupError: it is none.
        """
        value = self[column]
        try:
            return int(value)
        except (TypeError, ValueError):
            raise self._unfit(f"its answer says {value!r} in column {column}, which is no number") from None
