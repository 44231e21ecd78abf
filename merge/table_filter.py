r"""Table filters: which tables are wanted, in canal's notation.

A list is comma-separated regular expressions on `schema.table`; commas inside {}, [] and () belong to the
expression, and so does an escaped one. Each expression matches the whole name, upper and lower case alike. A
statement on a schema as a whole has an empty table name: `shop\..*` matches its `shop.`.

Format: canal's AviaterRegexFilter; expressions are Python's, which agree with Java's in all that names need.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias

from merge.chunk import TableName
from merge.errors import ConfigError

Patterns: TypeAlias = tuple[re.Pattern[str], ...]

_CLOSES = {"(": ")", "{": "}"}


@dataclass(frozen=True, slots=True)
class TableFilter:
    """A white list and a black list; the black list wins.

    Guarantees the same answer for the same name; it does not remember answers, a caller on a hot path does.

    Raises:
        ConfigError: an expression is no regular expression; it names the list and the expression.
    """

    #: wanted tables; empty: every table
    white: str = ""
    #: tables not wanted although the white list names them; empty: none
    black: str = ""
    _white: Patterns = field(init=False, repr=False, compare=False)
    _black: Patterns = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_white", _compiled("white", self.white))
        object.__setattr__(self, "_black", _compiled("black", self.black))

    def matches(self, name: TableName) -> bool:
        """Return whether the table is wanted."""
        text = str(name)
        wanted = not self._white or any(pattern.fullmatch(text) for pattern in self._white)
        return wanted and not any(pattern.fullmatch(text) for pattern in self._black)


def split_patterns(text: str) -> list[str]:
    """Return the expressions of a comma-separated list, trimmed, empty ones left out.

    Never raises: brackets that do not close make one expression, which will not compile.
    """
    pieces, open_brackets, start, place = [], list[str](), 0, 0
    while place < len(text):
        char = text[place]
        if char == "\\":
            place += 1
        elif char == "[":
            place = _class_end(text, place)
        elif char in _CLOSES:
            open_brackets.append(_CLOSES[char])
        elif open_brackets and char == open_brackets[-1]:
            open_brackets.pop()
        elif char == "," and not open_brackets:
            pieces.append(text[start:place])
            start = place + 1
        place += 1
    pieces.append(text[start:])
    return [piece.strip() for piece in pieces if piece.strip()]


def compiled(pattern: str, setting: str) -> re.Pattern[str]:
    """Return the expression, ready to match names in upper and lower case alike.

    Args:
        pattern: one regular expression.
        setting: what the error calls the place it comes from.

    Raises:
        ConfigError: it is no regular expression.
    """
    try:
        return re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        raise ConfigError(
            f"{pattern!r} in the {setting} is no regular expression ({error}).",
            hint=r"Expected one on schema.table, such as shop\..* or shop\.(orders|items)_\d+.",
            setting=setting,
            pattern=pattern,
        ) from error


def _compiled(setting: str, text: str) -> Patterns:
    return tuple(compiled(pattern, f"{setting} list") for pattern in split_patterns(text))


def _class_end(text: str, begin: int) -> int:
    """Return the place of the bracket that closes the character class at `begin`; the text's end if none."""
    place = begin + 1
    place += text.startswith("^", place)
    place += text.startswith("]", place)  # right after the opening bracket it stands for itself
    while place < len(text) and text[place] != "]":
        place += 2 if text[place] == "\\" else 1
    return place
