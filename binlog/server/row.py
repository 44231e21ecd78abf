"""A row of a server's answer: a missing column or a value in another form raises an error of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from canal_group.merge.errors import CanalGroupError


class Row(dict[str, Any]):
    """The values of one row, by column name.

    Args:
        values: the row as the driver returned it.
        unfit: makes the error; its argument says what is wrong, as the end of a sentence.
    """

    def __init__(self, values: Mapping[str, Any], unfit: Callable[[str], CanalGroupError]) -> None:
        super().__init__(values)
        self._unfit = unfit

    def __missing__(self, column: str) -> Any:
        raise self._unfit(f"its answer has no column {column}")

    def number(self, column: str) -> int:
        """Return a value as a whole number.

        Raises:
            CanalGroupError: it is not a whole number.
        """
        value = self[column]
        try:
            return int(value)
        except (TypeError, ValueError):
            raise self._unfit(f"its answer has a value in column {column} that is not a number") from None
