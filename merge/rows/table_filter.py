r"""Table filters: which tables are wanted, in canal's notation.

A list is comma-separated regular expressions on `schema.table`; commas inside {}, [] and () belong to the
expression, and so does an escaped one. Each expression matches the whole name, upper and lower case alike. A
statement on a schema as a whole has an empty table name: `shop\..*` matches its `shop.`.

Format: canal's AviaterRegexFilter; `merge.rows.pattern_syntax` says what an expression may hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from merge.errors import ConfigError
from merge.printable import UNPRINTABLE
from merge.rows.pattern import MEMORY_MAX, READERS_MEMORY_MAX, PatternList, check_pattern
from merge.rows.pattern_syntax import PatternSyntax
from merge.values.chunk import TableName

#: a reader's filter is no longer, characters
READERS_FILTER_MAX = 4_096
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
    #: what the program of each list may take, bytes
    memory_max: int = field(default=MEMORY_MAX, repr=False, compare=False)
    _white: PatternList = field(init=False, repr=False, compare=False)
    _black: PatternList = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_white", _compiled("white", self.white, self.memory_max))
        object.__setattr__(self, "_black", _compiled("black", self.black, self.memory_max))

    @classmethod
    def of_reader(cls, white: str) -> Self:
        """Return the filter that a reader brings, within the bounds of what everybody may have to wait for.

        Raises:
            ConfigError: it is too long, or too large, cannot be printed, or an expression is no regular
                expression.
        """
        if len(white) > READERS_FILTER_MAX:
            raise ConfigError(
                f"The filter has {len(white)} characters; the bound is {READERS_FILTER_MAX}.",
                hint="Write one expression for many tables, or filter in the instance file.",
                setting="filter",
            )
        made = cls(white, memory_max=READERS_MEMORY_MAX)
        if UNPRINTABLE.search(" ".join(white.split())):
            # Everybody who asks for the state is shown it.
            raise ConfigError(
                "The filter has control characters.",
                hint="Write the names of tables as they are printed.",
                setting="filter",
            )
        return made

    def matches(self, name: TableName) -> bool:
        """Return whether the table is wanted."""
        text = str(name)
        return (not self._white or self._white.matches(text)) and not self._black.matches(text)


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


def refused(pattern: str, setting: str, why: PatternSyntax) -> ConfigError:
    """Return the error of a pattern that cannot be used.

    Args:
        pattern: one regular expression.
        setting: what the error calls the place it comes from.
        why: it cannot.
    """
    return ConfigError(
        f"{pattern!r} in the {setting} is not a usable regular expression ({why}).",
        hint=r"Expected a regular expression on schema.table, such as shop\..* or shop\.(orders|items)_\d+.",
        setting=setting,
        pattern=pattern,
    )


def _compiled(setting: str, text: str, memory_max: int) -> PatternList:
    patterns = split_patterns(text)
    try:
        return PatternList(patterns, memory_max)
    except PatternSyntax as error:
        together = error
    for pattern in patterns:
        try:
            check_pattern(pattern)
        except PatternSyntax as error:
            raise refused(pattern, f"{setting} list", error) from None
    raise refused(text, f"{setting} list", together) from None


def _class_end(text: str, begin: int) -> int:
    """Return the place of the bracket that closes the character class at `begin`; the text's end if none."""
    place = begin + 1
    place += text.startswith("^", place)
    place += text.startswith("]", place)  # right after the opening bracket it stands for itself
    while place < len(text) and text[place] != "]":
        place += 2 if text[place] == "\\" else 1
    return place
