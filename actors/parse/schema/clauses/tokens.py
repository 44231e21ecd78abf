"""Tokens: a statement's words, names, texts, numbers and symbols, as the servers' lexers cut it.

Comments are left out. Executable comments (`/*!80023 ... */`, `/*M!100200 ... */`) are part of the statement
if the server executes them, else they are comments as well.

sqlglot's tokenizer is not used: it loses escapes in texts (a line feed becomes `n`), splits names that begin
with a digit, and takes `{#` for a comment.

Rules: "Lexical Structure" and "Comments" in MySQL's reference manual, "Comment Syntax" in MariaDB's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from actors.parse.schema.statement import ServerVersion, SqlMode, Statement


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


class Token(NamedTuple):
    """One token."""

    kind: Kind
    #: without quotes, and with its escapes read
    text: str
    #: index of its first character in the statement
    at: int

    @property
    def word(self) -> str:
        """A keyword in upper case, or a symbol; empty for anything else, such as a name in quotes."""
        if self.kind not in (Kind.WORD, Kind.SYMBOL) or not self.text.isascii():
            return ""
        return self.text.upper()

    @property
    def is_option(self) -> bool:
        """Whether it can be the name of an option; that of an engine may be in quotes."""
        return self.kind in (Kind.WORD, Kind.NAME)


_WORD = r"[0-9A-Za-z$_\u0080-\U0010ffff]"
_TOKEN = re.compile(
    rf"""
    (?P<space>\s+)
  | (?P<line>\#[^\n]* | --(?=[\x00-\x20\x7f]|$)[^\n]*)
  | (?P<executable>/\*(?P<vendor>M?)!(?P<version>\d{{5,6}})?)
  | (?P<comment>/\*)
  | (?P<end>\*/)
  | (?P<bytes>[xX]'(?:[0-9a-fA-F]{{2}})*' | 0x[0-9a-fA-F]+(?!{_WORD}) | [bB]'[01]*' | 0b[01]+(?!{_WORD}))
  | (?P<national>[nN](?='))
  | (?P<number>(?:\d+(?:\.\d*)?|(?<![0-9A-Za-z$_`\u0080-\U0010ffff])\.\d+)(?:[eE][+-]?\d+)?(?!{_WORD}))
  | (?P<word>{_WORD}+)
  | (?P<quote>['"`])
  | (?P<symbol>.)
    """,
    # The servers know only ASCII's blanks and digits: others are letters.
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_NAME_AFTER_DOT = re.compile(rf"(?P<word>{_WORD}+)")
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_COMMENT_END = re.compile(r"\*/")
#: the server's versions in executable comments that MariaDB leaves to MySQL
_MYSQL_ONLY = range(50700, 100000)
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def tokens_of(statement: Statement) -> list[Token]:
    """Return a statement's tokens; the last one is of kind END.

    Raises:
        UnreadableError: a quote or a comment has no end.
    """
    return list(tokens_in(statement))


def tokens_in(statement: Statement) -> Iterator[Token]:
    """Yield what `tokens_of` returns, and read the statement only as far as it is asked for.

    Raises:
        UnreadableError: as `tokens_of`, where the reading comes to it.
    """
    return _Lexer(statement).tokens()


class _Lexer:
    def __init__(self, statement: Statement) -> None:
        self._sql = statement.sql
        self._server = statement.server
        self._ansi_quotes = statement.has(SqlMode.ANSI_QUOTES)
        self._escapes = not statement.has(SqlMode.NO_BACKSLASH_ESCAPES)
        self._tokens: list[Token] = []
        self._in_executable = False

    def tokens(self) -> Iterator[Token]:
        at = given = 0
        while at < len(self._sql):
            at = self._step(at)
            yield from self._tokens[given:]
            given = len(self._tokens)
        if self._in_executable:
            raise UnreadableError("An executable comment has no end.")
        yield Token(Kind.END, "", at)

    def _step(self, at: int) -> int:  # noqa: PLR0911 - one case a kind
        """Read one token, or leave out a comment; return where the next one begins."""
        match = self._match(at)
        kind, text = str(match.lastgroup), match[0]
        match kind:
            case "space" | "line" | "national":
                return match.end()
            case "version" | "vendor" | "executable":
                return self._executable(match)
            case "comment":
                return self._after_comment(match.end(), nested=False)
            case "end" if self._in_executable:
                self._in_executable = False
                return match.end()
            case "quote":
                return self._quoted(at, text)
            case "bytes":
                self._add(Kind.BYTES, _hexadecimal(text), at)
            case "number":
                self._add(Kind.NUMBER, text, at)
            case "word":
                self._add(Kind.WORD, text, at)
            case _:
                self._add(Kind.SYMBOL, text[0], at)
                return at + 1
        return match.end()

    def _match(self, at: int) -> re.Match[str]:
        match = None
        if at and self._sql[at - 1] == "." and self._tokens and self._tokens[-1].text == ".":
            # After a name's dot comes a name, also one of digits only.
            match = _NAME_AFTER_DOT.match(self._sql, at)
        match = match or _TOKEN.match(self._sql, at)
        assert match is not None, "any character is a symbol"
        return match

    def _add(self, kind: Kind, text: str, at: int) -> None:
        self._tokens.append(Token(kind, text, at))

    def _executable(self, match: re.Match[str]) -> int:
        runs = not self._in_executable and _runs(self._server, match["vendor"], match["version"])
        if not runs:
            return self._after_comment(match.end(), nested=True)
        self._in_executable = True
        return match.end()

    def _after_comment(self, at: int, *, nested: bool) -> int:
        """Return where a comment ends; only one that is executable elsewhere may have comments in it."""
        ends = 1
        while ends:
            edge = (_COMMENT_EDGE if nested and ends == 1 else _COMMENT_END).search(self._sql, at)
            if edge is None:
                raise UnreadableError("A comment has no end.")
            at = edge.end()
            ends += 1 if edge[0] == "/*" else -1
        return at

    def _quoted(self, at: int, quote: str) -> int:
        is_name = quote == "`" or (quote == '"' and self._ansi_quotes)
        escapes = self._escapes and not is_name
        inner = rf"\\.|{quote}{quote}|[^\\{quote}]" if escapes else rf"{quote}{quote}|[^{quote}]"
        match = re.compile(rf"{quote}((?:{inner})*){quote}", re.DOTALL).match(self._sql, at)
        if match is None:
            raise UnreadableError("A quoted text or name has no end.")
        text = match[1]
        if escapes and "\\" in text:
            parts = re.findall(rf"\\.|{quote}{quote}|[^\\{quote}]+", text, re.DOTALL)
            text = "".join(_unescaped(part, quote) for part in parts)
        else:
            text = text.replace(quote * 2, quote)
        self._add(Kind.NAME if is_name else Kind.TEXT, text, at)
        return match.end()


def _unescaped(part: str, quote: str) -> str:
    if part == quote * 2:
        return quote
    return _ESCAPES.get(part[1], part[1]) if part[0] == "\\" else part


def _hexadecimal(literal: str) -> str:
    digits = literal[2:].rstrip("'")
    if literal[0] in "xX" or literal[1] == "x":
        return digits if len(digits) % 2 == 0 else "0" + digits
    width = (len(digits) + 7) // 8
    return int(digits, 2).to_bytes(width, "big").hex() if digits else ""


def _runs(server: ServerVersion, vendor: str, version: str | None) -> bool:
    if vendor and not server.mariadb:
        return False
    if version is None:
        return True
    number = int(version)
    if server.mariadb and not vendor and number in _MYSQL_ONLY:
        return False
    return number <= server.number
