"""Keys of a table as its server has them, and their text.

A value is a literal of SQL: it says its type, and compares with its column as another value of the column
does. `literal` makes every literal of a statement to a source, and `key_of_json` checks those of a caller's
position. Only the server knows the order of keys: nothing here compares two of them but for equality.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias

from canal_group.merge.errors import CorruptEvent

#: a literal for each column of the key, in the key's order
Key: TypeAlias = tuple[str, ...]

#: a number; digits of a date or time; bytes, or a text in its charset. No other text reaches a statement
_LITERAL: Final = re.compile(
    r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?|'[0-9:. -]*'|(_[a-z0-9]+ )?X'([0-9a-f]{2})*'"
)


def literal(value: float | Decimal | bytes | str, charset: str = "") -> str:
    """Return a value as a literal of SQL.

    Args:
        value: a number; bytes; or the digits of a date or time, as a `str`.
        charset: of bytes that are a text; empty: they are none.

    Raises:
        CorruptEvent: no column has such a value.
    """
    match value:
        case bytes():
            text = f"_{charset} X'{value.hex()}'" if charset else f"X'{value.hex()}'"
        case str():
            text = f"'{value}'"
        case Decimal():
            text = format(value, "f")
        case int():
            text = str(value)
        case _:
            # Without an exponent a REAL is a DECIMAL.
            text = repr(value) if "e" in repr(value) else f"{value!r}e0"
    return checked(text)


def checked(text: str) -> str:
    """Return a text that is a literal.

    Raises:
        CorruptEvent: it is not.
    """
    if _LITERAL.fullmatch(text) is None:
        raise CorruptEvent("A value of a key is not a number, a date or time, or bytes in hex.")
    return text


def key_of_json(value: Any) -> Key | None:
    """Return the key that a JSON value is: a list of literals; null, no bound, is None.

    Raises:
        TypeError, CorruptEvent: it is neither.
    """
    if value is None:
        return None
    if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
        raise TypeError(f"{value!r} is not a list of texts")
    return tuple(map(checked, value))


def keys_of_json(values: Any) -> tuple[Key, ...]:
    """Return the keys of a list, none of which is null; raises as `key_of_json`."""
    if not isinstance(values, Sequence) or isinstance(values, str) or None in values:
        raise TypeError("keys are a list of lists")
    return tuple(key for key in map(key_of_json, values) if key is not None)
