"""Words: a cursor over a statement's tokens, with the questions that its grammar asks."""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import TypeVar

from canal_group.binlog.charsets.statement_text import charset_of_client, is_whole
from canal_group.binlog.schema.clauses.tokens import Kind, Token, UnreadableError
from canal_group.binlog.schema.definition import SourceName
from canal_group.binlog.schema.names import folded
from canal_group.binlog.schema.statement import Statement

_Item = TypeVar("_Item")
#: words of a statement that are recorded as not understood
PASSED_OVER_MAX = 8
#: names in one expression: as many as a table has columns
NAMES_MAX = 4_096
#: the items that one statement may list, each item with its weight: more than an ENUM has values (65,535)
WEIGHT_MAX = 131_072
#: weight of what is more than a value: more of it fits than a table has columns (4,096), with its keys
CLAUSE = 24
#: of a number, without zeros before it: no size and no count has more
_DIGITS_MAX = 20
#: of a word that is noted
_SHOWN_CHARS = 40
_SUPPLEMENTARY = re.compile("[\U00010000-\U0010ffff]")
_QUERY_WORDS = ("SELECT", "WITH", "VALUES", "TABLE")


class Words:
    """Reads a statement from left to right; it holds no more of its tokens than it looks ahead.

    Args:
        statement: the statement.
        shown: whether it is the text of SHOW CREATE TABLE, which says NOT NULL wherever it is meant.
        whole: whether all of it is cut into tokens first; then semicolons at its end are left out.

    Raises:
        UnreadableError: it cannot be cut into tokens.
    """

    def __init__(self, statement: Statement, *, shown: bool = False, whole: bool = True) -> None:
        self.statement = statement
        self.shown = shown
        #: the first words of what was not understood and has no meaning for rows
        self.passed_over: list[str] = []
        #: tokens that were looked at, and not taken
        self._ahead: list[Token] = []
        self._weight = 0
        #: the words that `collect_names` has collected; None before `collect_names` is called
        self._names: set[str] | None = None
        self._lexer = statement.lexer()
        if whole:
            self._lexer.trim()

    def collect_names(self) -> None:
        """Begin to collect the words of an expression that may be names."""
        self._names = set()

    def collected(self) -> tuple[str, ...]:
        """Return the words since `collect_names`, folded and in order, and collect no more."""
        names, self._names = self._names or (), None
        return tuple(sorted(names))

    def peek(self, ahead: int = 0) -> Token:
        """Return a token without taking it; after the last one is END."""
        while len(self._ahead) <= ahead:
            if self._ahead and self._ahead[-1].kind is Kind.END:
                return self._ahead[-1]
            self._ahead.append(self._lexer.next())
        return self._ahead[ahead]

    def take(self) -> Token:
        """Take any token."""
        token = self.peek()
        if token.kind is Kind.END:
            raise self.unexpected()
        del self._ahead[0]
        if self._names is not None and token.kind in (Kind.WORD, Kind.NAME):
            self._names.add(folded(token.text))
            if len(self._names) > NAMES_MAX:
                raise UnreadableError(f"an expression has more than {NAMES_MAX:,} names")
        return token

    @property
    def ended(self) -> bool:
        """Whether all is read."""
        return self.peek().kind is Kind.END

    def sees(self, *words: str) -> bool:
        """Return whether these keywords, or symbols, come next; quoted names are none."""
        for ahead, word in enumerate(words):  # noqa: SIM110 - a generator costs as much as three tokens
            if self.peek(ahead).word != word:
                return False
        return True

    def sees_any(self, *words: str) -> bool:
        """Return whether one of these keywords, or symbols, comes next."""
        return self.peek().word in words

    def skip(self, *words: str) -> bool:
        """Take the keywords if all of them come next; return whether they were taken."""
        comes = self.sees(*words)
        if comes:
            del self._ahead[: len(words)]
        return comes

    def skip_any(self, *words: str) -> bool:
        """Take the next word if it equals a given keyword; return whether the word was taken."""
        comes = self.peek().word in words
        if comes:
            del self._ahead[0]
        return comes

    def expect(self, *words: str) -> None:
        """Take these keywords.

        Raises:
            UnreadableError: something else comes.
        """
        if not self.skip(*words):
            raise self.unexpected(f"{' '.join(words)} should come")

    def name(self) -> str:
        """Take a name.

        Raises:
            UnreadableError: something else comes.
        """
        if self.peek().kind not in (Kind.WORD, Kind.NAME):
            raise self.unexpected("a name should come")
        # The servers keep names in utf8mb3, and have a question mark for what it lacks.
        return _SUPPLEMENTARY.sub("?", self._whole())

    def column_name(self) -> str:
        """Take a column's name, and what it may be qualified by: its table, and the table's schema."""
        self.skip(".")
        name = self.name()
        while self.skip("."):
            name = self.name()
        return name

    @property
    def sees_table_name(self) -> bool:
        """Whether a table's name may come next."""
        return self.peek().kind in (Kind.WORD, Kind.NAME) or self.sees(".")

    def table_name(self) -> SourceName:
        """Take a table's name, with the statement's schema if it names none."""
        if self.skip("."):  # MariaDB: the session's schema
            return SourceName(self.statement.schema, self.name())
        first = self.name()
        return SourceName(first, self.name()) if self.skip(".") else SourceName(self.statement.schema, first)

    def text(self) -> str:
        """Take a text."""
        if self.peek().kind is not Kind.TEXT:
            raise self.unexpected("a text should come")
        return self._whole()

    def _whole(self) -> str:
        """Take a token that says something, which all of its bytes must.

        Raises:
            UnreadableError: some are not characters of the client's charset.
        """
        if not is_whole(self.peek().text):
            charset = charset_of_client(self.statement.client_collation).name
            raise self.unexpected(f"bytes that are not characters of {charset}, the client's charset")
        return self.take().text

    def number(self) -> int:
        """Take a whole number."""
        # The servers read 19.5 where a whole number should be, and take 19.
        digits = self._whole_number().partition(".")[0].lstrip("0")
        if len(digits) > _DIGITS_MAX:
            raise self.unexpected(f"a number of at most {_DIGITS_MAX} digits should come")
        self.take()
        return int(digits or 0)

    def skip_number(self) -> None:
        """Take a whole number that says nothing: it may have any number of digits."""
        self._whole_number()
        self.take()

    def _whole_number(self) -> str:
        token = self.peek()
        if token.kind is not Kind.NUMBER or "e" in token.text.lower():
            raise self.unexpected("a whole number should come")
        return token.text

    def skip_if_exists(self) -> bool:
        """Take IF EXISTS or IF NOT EXISTS if it comes; return whether it did."""
        return self.skip("IF", "EXISTS") or self.skip("IF", "NOT", "EXISTS")

    def skip_group(self) -> None:
        """Take everything from a parenthesis to the one that closes it.

        Raises:
            UnreadableError: no parenthesis comes, or it is not closed.
        """
        self.expect("(")
        if self._names is None:
            self._rewind()
            self._lexer.skip_group()
            return
        depth = 1
        while depth:
            token = self.take()
            if token.kind is Kind.SYMBOL:
                depth += (token.text == "(") - (token.text == ")")

    def skip_to(self, *words: str, flat: bool = False) -> bool:
        """Take everything up to one of these keywords or symbols; return whether one came.

        Args:
            words: in upper case.
            flat: whether to skip parentheses with their content, and names after a dot.

        Raises:
            UnreadableError: a parenthesis that is skipped is not closed.
        """
        self._rewind()
        self._ahead = [self._lexer.skip_to(frozenset(words), flat)]
        return not self.ended

    def finds(self, *words: str) -> str:
        """Return which of these keywords comes first in the rest, and take nothing; empty if none does."""
        here = self.peek()
        self._rewind()
        token = self._lexer.skip_to(frozenset(words), False)
        self._lexer.go_to(here)
        return token.word

    def skip_item(self) -> None:
        """Take everything up to the next comma, or the end of the list, which has no meaning for rows."""
        while not self.ended and not self.sees_any(",", ")"):
            self.skip_part()

    def sees_query(self) -> bool:
        """Return whether a query comes next, maybe in parentheses."""
        here = self.peek()
        if here.word != "(":
            return here.word in _QUERY_WORDS
        self._rewind()
        token = self._lexer.after_parentheses()
        self._lexer.go_to(here)
        return token.word in _QUERY_WORDS

    def sees_option(self) -> bool:
        """Return whether an option with an equals sign comes next."""
        return self.peek().is_option and self.peek(1).word == "="

    def skip_option(self, options: AbstractSet[str]) -> bool:
        """Take an option with an equals sign and its value, and record it if it is unknown.

        Returns:
            Whether one came.
        """
        if not self.sees_option():
            return False
        if self.peek().word not in options:
            self.pass_over()
        self.take()
        self.take()
        self.skip_part()
        return True

    def pass_over(self) -> None:
        """Record that the next word is not understood, and has no meaning for rows."""
        word = self.peek().word
        if word and len(self.passed_over) < PASSED_OVER_MAX:
            self.passed_over.append(word[:_SHOWN_CHARS])

    def skip_part(self) -> None:
        """Take any token, or everything in parentheses."""
        if self.sees("("):
            self.skip_group()
        else:
            self.take()

    def skip_rest(self) -> None:
        """Take everything."""
        self.skip_to()

    def count(self, weight: int) -> None:
        """Count something that a statement has any number of, and that is held.

        Raises:
            UnreadableError: there is more than any statement has.
        """
        self._weight += weight
        if self._weight > WEIGHT_MAX:
            raise UnreadableError("it lists more names, values or clauses than a table has")

    def listed(self, item: Callable[[], _Item], weight: int = 1) -> list[_Item]:
        """Take items between commas.

        Args:
            item: takes one.
            weight: of one.

        Raises:
            UnreadableError: there are too many, or one is not understood.
        """
        items = [item()]
        while self.skip(","):
            self.count(weight)
            items.append(item())
        return items

    def in_parentheses(self, item: Callable[[], _Item], weight: int = 1) -> list[_Item]:
        """Take a list in parentheses, see `listed`."""
        self.expect("(")
        items = self.listed(item, weight)
        self.expect(")")
        return items

    def unexpected(self, complaint: str = "it is not understood") -> UnreadableError:
        """Return the error that says where something else comes than should; it quotes nothing."""
        token = self.peek()
        if token.kind is Kind.END:
            return UnreadableError(f"the statement ends, and {complaint}")
        return UnreadableError(f"at character {token.at}: {complaint}")

    def _rewind(self) -> None:
        """Let the lexer go on at the next token, whatever was looked at."""
        if self._ahead:
            self._lexer.go_to(self._ahead[0])
            self._ahead.clear()


class FirstWords(Words):
    """Reads a statement only as far as it is asked for: one that changes rows may have megabytes of them.

    So a fault in its text is found where the reading comes to it. A semicolon at its end is a token.
    """

    def __init__(self, statement: Statement) -> None:
        super().__init__(statement, whole=False)
