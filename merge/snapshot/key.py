"""Keys of a table as its server has them, and their text.

A value is a literal of SQL: it says its type, and compares with its column as another value of the column
does. Only the server knows the order of keys: nothing here compares two of them but for equality.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

#: a literal for each column of the key, in the key's order
Key: TypeAlias = tuple[str, ...]

#: a number; digits of a date or time; bytes, or a text in its charset. No other text reaches a statement
_LITERAL: Final = re.compile(
    r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?|'[0-9:. -]*'|(_[a-z0-9]+ )?X'([0-9a-f]{2})*'"
)


def key_of_json(value: Any) -> Key | None:
    """Return the key that a JSON value is: a list of literals; null, no bound, is None.

    Raises:
        TypeError, ValueError: it is neither.
    """
    if value is None:
        return None
    if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
        raise TypeError(f"{value!r} is not a list of texts")
    for literal in value:
        if _LITERAL.fullmatch(literal) is None:
            raise ValueError(f"{literal!r} is not a literal")
    return tuple(value)


def keys_of_json(values: Any) -> tuple[Key, ...]:
    """Return the keys of a list, none of which is null; raises as `key_of_json`."""
    if not isinstance(values, Sequence) or isinstance(values, str) or None in values:
        raise TypeError("keys are a list of lists")
    return tuple(key for key in map(key_of_json, values) if key is not None)


def real_literal(text: str) -> str:
    """Return the literal of a floating-point number's shortest text: without an exponent it is a DECIMAL."""
    return text if "e" in text else f"{text}e0"
