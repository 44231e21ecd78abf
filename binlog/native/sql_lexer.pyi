"""The interface of `sql_lexer.pyx`."""

from enum import Enum

class UnreadableError(ValueError):
    """A statement, or a part of it, that is not understood."""

class Kind(Enum):
    """What a token is."""

    #: a keyword, or a name without quotes
    WORD = "word"
    #: a name in quotes
    NAME = "name"
    TEXT = "text"
    #: x'..', 0x..., b'..', 0b...: its bytes, in hexadecimal
    BYTES = "bytes"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end"

class Token:
    """One token."""

    @property
    def kind(self) -> Kind:
        """What it is."""

    @property
    def at(self) -> int:
        """Index of its first character in the statement."""

    @property
    def word(self) -> str:
        """A keyword in upper case, or a symbol; empty for anything else, such as a name in quotes."""

    @property
    def text(self) -> str:
        """Its text without quotes and with its escapes read; made anew each time."""

    @property
    def is_option(self) -> bool:
        """Whether it can be the name of an option; that of an engine may be in quotes."""

    @property
    def after_dot(self) -> bool:
        """Whether a dot stands directly before it."""

class Lexer:
    """Cuts one statement into tokens, from left to right.

    Args:
        sql: the statement.
        mariadb: whether its server is MariaDB.
        version: the server's version, as executable comments have it.
        ansi_quotes: whether double quotes enclose names.
        escapes: whether backslashes in texts are escapes.

    Each method raises UnreadableError if it comes to a quote or a comment that has no end.
    """

    def __init__(
        self, sql: str, *, mariadb: bool, version: int, ansi_quotes: bool, escapes: bool
    ) -> None: ...
    def next(self) -> Token:
        """Take the next token; at the end, one of kind END."""

    def go_to(self, token: Token) -> None:
        """Go to the beginning of a token that was taken."""

    def trim(self) -> None:
        """Read the whole statement, to check it; from then on leave out the semicolons at its end."""

    def skip_group(self) -> None:
        """Take everything up to the parenthesis that closes one that was taken.

        Raises:
            UnreadableError: it is not closed.
        """

    def skip_to(self, words: frozenset[str], flat: bool) -> Token:
        """Take everything up to one of these keywords or symbols, and that one; return it, or END.

        Args:
            words: in upper case.
            flat: whether to pass over what is in parentheses, and names after a dot.

        Raises:
            UnreadableError: a parenthesis that is passed over is not closed.
        """

    def after_parentheses(self) -> Token:
        """Take all opening parentheses that follow one another, and the token after them; return that."""
