"""Patterns: regular expressions on names, matched in a time that grows with the name's length only.

Readers bring patterns of their own. An engine that tries one way after the other (Python's, Java's) can be
given a short one that takes it hours, with the interpreter's lock held. RE2 tries all at once.

Memory bounds the engine's program, and so the time that compiling and matching may take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from canal_group.merge.rows.pattern_syntax import PatternSyntax, in_engine

#: the program of an operator's patterns, bytes: thousands of table names in one list
MEMORY_MAX = 8 << 20
#: the same of a reader's. Compiling it, and a name that it has not seen, take less than 0.1 s each
READERS_MEMORY_MAX = 128 << 10
#: enough to read a pattern, and not to make a program of it
_READING_MEMORY = 4 << 10
#: lists that a process caches compiled, and names whose answers are cached with each
_LISTS_CACHED, _NAMES_CACHED = 64, 4_096
_TOO_LARGE = "pattern too large"


class Pattern:
    """One pattern, with groups.

    Args:
        text: a regular expression.

    Raises:
        PatternSyntax: it cannot be used.
    """

    __slots__ = ("_regexp", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._regexp = _engine(in_engine(text), MEMORY_MAX, captures=True)

    def __reduce__(self) -> tuple[Any, ...]:
        return Pattern, (self.text,)

    @property
    def group_names(self) -> dict[str, int]:
        """Named groups and their numbers."""
        return dict(self._regexp.groupindex)

    @property
    def group_count(self) -> int:
        """How many groups there are."""
        return int(self._regexp.groups)

    def groups(self, name: str) -> tuple[str, ...] | None:
        """Return the whole name and its groups where the pattern matches; a group without a part in it is "".

        None: it does not match.
        """
        match = self._regexp.fullmatch(name)
        return None if match is None else (name, *match.groups(default=""))


class PatternList:
    """Several patterns, of which any may match.

    Args:
        texts: regular expressions.
        memory_max: the most memory of their program, bytes.

    Raises:
        PatternSyntax: one of them cannot be used (see `check_pattern`), or all together are too large.
    """

    __slots__ = ("_matches", "_memory_max", "_texts")

    def __init__(self, texts: Sequence[str], memory_max: int = MEMORY_MAX) -> None:
        self._texts, self._memory_max = tuple(texts), memory_max
        self._matches = _any_of(self._texts, memory_max) if self._texts else None

    def __reduce__(self) -> tuple[Any, ...]:
        return PatternList, (self._texts, self._memory_max)

    def __bool__(self) -> bool:
        return bool(self._texts)

    def matches(self, name: str) -> bool:
        """Return whether one of the patterns matches a whole name."""
        return self._matches is not None and self._matches(name)


def check_pattern(text: str) -> None:
    """Return if a text is a pattern, of any size.

    Raises:
        PatternSyntax: it is not a pattern.
    """
    try:
        _engine(in_engine(text), _READING_MEMORY, captures=False)
    except PatternSyntax as error:
        if str(error) != _TOO_LARGE:
            raise


@lru_cache(_LISTS_CACHED)
def _any_of(texts: tuple[str, ...], memory_max: int) -> Callable[[str], bool]:
    # Each is read alone first: brackets that do not pair in one could pair with those of another.
    for text in texts:
        check_pattern(text)
    together = "|".join(f"(?:{in_engine(text)})" for text in texts)
    regexp = _engine(together, memory_max, captures=False)

    @lru_cache(_NAMES_CACHED)
    def matches(name: str) -> bool:
        return regexp.fullmatch(name) is not None

    return matches


def _engine(pattern: str, memory_max: int, *, captures: bool) -> Any:
    import re2

    options = re2.Options()
    options.case_sensitive = False
    # A name may have the end of a line in it, and is one name all the same.
    options.dot_nl = True
    options.log_errors = False
    options.max_mem = memory_max
    options.never_capture = not captures
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise PatternSyntax(_reason(error, pattern)) from None


def _reason(error: Exception, pattern: str) -> str:
    """Return why RE2 refuses a pattern, without the pattern itself where all of it is meant."""
    message = error.args[0] if error.args else ""
    text = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
    what, _, where = text.partition(": ")
    if what.startswith(_TOO_LARGE):
        return _TOO_LARGE
    return what if where in ("", pattern) else f"{what}: {where}"
