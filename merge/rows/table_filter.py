r"""Table filters: which tables are selected, in canal's notation.

A list is comma-separated regular expressions on `schema.table`; commas inside {}, [] and () belong to the
expression, and so does an escaped one. Each expression matches the whole name, upper and lower case alike. A
statement on a schema as a whole has an empty table name: `shop\..*` matches its `shop.`.

Format: canal's AviaterRegexFilter; `canal_group.merge.rows.pattern_syntax` describes the syntax of
expressions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from canal_group.merge.errors import ConfigError
from canal_group.merge.printable import UNPRINTABLE
from canal_group.merge.rows.pattern import MEMORY_MAX, READERS_MEMORY_MAX, PatternList, check_pattern
from canal_group.merge.rows.pattern_syntax import PatternSyntax
from canal_group.merge.values.chunk import TableName

#: a reader's filter is no longer, characters
READERS_FILTER_MAX = 4_096
_CLOSES = {"(": ")", "{": "}"}


@dataclass(frozen=True, slots=True)
class TableFilter:
    """A white list and a black list; the black list wins.

    Guarantees the same answer for the same name; it does not remember answers, a caller on a hot path does.

    Raises:
        ConfigError: an expression is not a regular expression; it names the list and the expression.
    """

    #: selected tables; empty: every table
    white: str = ""
    #: tables that are left out although the white list names them; empty: none
    black: str = ""
    #: the most memory of the program of each list, bytes
    memory_max: int = field(default=MEMORY_MAX, repr=False, compare=False)
    _white: PatternList = field(init=False, repr=False, compare=False)
    _black: PatternList = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_white", _compiled("white", self.white, self.memory_max))
        object.__setattr__(self, "_black", _compiled("black", self.black, self.memory_max))

    @classmethod
    def of_reader(cls, white: str) -> Self:
        """Return the filter that a reader brings, within bounds: its program may delay every reader.

        Raises:
            ConfigError: it is too long, or too large, cannot be printed, or an expression is not a regular
                expression.
        """
        if len(white) > READERS_FILTER_MAX:
            raise ConfigError(
                f"The filter has {len(white)} characters; the bound is {READERS_FILTER_MAX}.",
                hint="Write one expression for many tables, or filter in the instance file.",
                setting="filter",
            )
        own = cls(white, memory_max=READERS_MEMORY_MAX)
        if UNPRINTABLE.search(" ".join(white.split())):
            # The state, which any reader may ask for, shows it.
            raise ConfigError(
                "The filter has control characters.",
                hint="Write the names of tables as they are printed.",
                setting="filter",
            )
        return own

    def matches(self, name: TableName) -> bool:
        """Return whether the table is selected."""
        text = str(name)
        return (not self._white or self._white.matches(text)) and not self._black.matches(text)


def split_patterns(text: str) -> list[str]:
    """Return the expressions of a comma-separated list, trimmed, empty ones left out.

    Never raises: brackets that do not close make one expression, which will not compile.
    """
    pieces, open_brackets, start, index = [], list[str](), 0, 0
    while index < len(text):
        char = text[index]
        if char == "\\":
            index += 1
        elif char == "[":
            index = _class_end(text, index)
        elif char in _CLOSES:
            open_brackets.append(_CLOSES[char])
        elif open_brackets and char == open_brackets[-1]:
            open_brackets.pop()
        elif char == "," and not open_brackets:
            pieces.append(text[start:index])
            start = index + 1
        index += 1
    pieces.append(text[start:])
    return [piece.strip() for piece in pieces if piece.strip()]


def refused(pattern: str, setting: str, why: PatternSyntax) -> ConfigError:
    """Return the error of a pattern that cannot be used.

    Args:
        pattern: one regular expression.
        setting: the name of its source, for the error.
        why: the reason.
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
    """Return the index of the bracket that closes the character class at `begin`; the text's end if none."""
    index = begin + 1
    index += text.startswith("^", index)
    index += text.startswith("]", index)  # right after the opening bracket it stands for itself
    while index < len(text) and text[index] != "]":
        index += 2 if text[index] == "\\" else 1
    return index
