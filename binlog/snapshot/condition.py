"""Conditions: which rows of a table an operator wants, as SQL that reads columns of this table alone.

A condition runs as the snapshot's account, and the rows that come tell its answer. So each of its words has
to be a keyword, a function that computes a value of its arguments alone, or a column whose values leave the
shard as they are. No word begins a subquery, or names another table, a variable or a stored function.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(
    r"[ \t\r\n\f\v]+|(?P<text>[xXbBnN]?'(?:[^'\\]|'')*')"
    r"|(?P<name>`(?:[^`]|``)+`)|(?P<word>[A-Za-z_\x80-\U0010ffff][\w$]*)"
    r"|(?P<number>(?:0[xX][0-9a-fA-F]+|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?![\w$.`@]))"
    r"|(?P<symbol>-(?!-)|/(?!\*)|[+*%=<>!~^&|(),])"
)
_KEYWORD: Final = re.compile(
    r"AND|AS|BETWEEN|BINARY|CASE|COLLATE|DIV|ELSE|END|ESCAPE|FALSE|IN|INTERVAL|IS|LIKE|MOD|NOT|NULL|OR"
    r"|REGEXP|RLIKE|THEN|TRUE|UNKNOWN|WHEN|XOR|CHAR|DATE|DATETIME|DECIMAL|SIGNED|TIME|TIMESTAMP"
    r"|UNSIGNED|MICROSECOND|SECOND|MINUTE|HOUR|DAY|WEEK|MONTH|QUARTER|YEAR",
    re.IGNORECASE,
)
_FUNCTION: Final = re.compile(
    r"ABS|ASCII|BIT_COUNT|BIT_LENGTH|CAST|CEIL|CEILING|CHARACTER_LENGTH|CHAR_LENGTH|COALESCE|CONCAT"
    r"|CONCAT_WS|CONVERT|CRC32|CURDATE|DATEDIFF|DATE_ADD|DATE_FORMAT|DATE_SUB|DAYOFMONTH|DAYOFWEEK"
    r"|DAYOFYEAR|FIELD|FIND_IN_SET|FLOOR|FROM_UNIXTIME|GREATEST|HEX|IF|IFNULL|INET_ATON|INSTR|ISNULL"
    r"|JSON_CONTAINS|JSON_EXTRACT|JSON_UNQUOTE|JSON_VALUE|LCASE|LEAST|LEFT|LENGTH|LOCATE|LOWER|LPAD"
    r"|LTRIM|MD5|MID|NOW|NULLIF|OCTET_LENGTH|ORD|POW|POWER|REPLACE|REVERSE|RIGHT|ROUND|RPAD|RTRIM|SHA1"
    r"|SHA2|SIGN|SQRT|STR_TO_DATE|SUBSTR|SUBSTRING|TO_DAYS|TO_SECONDS|TRIM|TRUNCATE|UCASE|UNHEX"
    r"|UNIX_TIMESTAMP|UPPER|UTC_DATE|UTC_TIMESTAMP|WEEKDAY",
    re.IGNORECASE,
)
#: begin, or end, something that is not a condition; a column of such a name is quoted
_RESERVED: Final = re.compile(
    r"ALL|ANY|DEFAULT|EXISTS|EXCEPT|FETCH|FOR|FROM|GROUP|HAVING|INTERSECT|INTO|JOIN|LIMIT|LOCK|MATCH"
    r"|OFFSET|ON|ORDER|PROCEDURE|ROW|SELECT|SOME|TABLE|UNION|USING|VALUES|WINDOW|WITH",
    re.IGNORECASE,
)


class ConditionRefused(Exception):  # noqa: N818  it is what an operator is told
    """A condition reads, or may read, more than it may: a sentence that follows the table's name."""


class _Token(NamedTuple):
    kind: str
    text: str


def checked_condition(text: str, clear: Collection[str], hidden: Collection[str]) -> str:
    """Return a condition that reads only columns of its table whose values leave the shard as they are.

    Args:
        text: the condition; empty: all rows.
        clear: names of these columns.
        hidden: names of the other columns.

    Raises:
        ConditionRefused: it does not, or is not understood.
    """
    hidden_words = {name.lower() for name in hidden}
    tokens = list(_tokens(text))
    _check_closed(tokens)
    for index, token in enumerate(tokens):
        follower = tokens[index + 1].text if index + 1 < len(tokens) else ""
        before = tokens[index - 1].text.upper() if index else ""
        word = token.text[1:-1].replace("``", "`") if token.kind == "name" else token.text
        if token.kind not in ("name", "word") or (before == "COLLATE" and token.kind == "word"):
            continue
        if word.lower() in hidden_words:
            raise ConditionRefused(
                f"its condition reads column {word}, whose values a rule of the filter keeps from consumers:"
                " leave it out of the condition"
            )
        if token.kind == "word":
            if _KEYWORD.fullmatch(word) or (follower == "(" and _FUNCTION.fullmatch(word)):
                continue
            if follower == "(" or _RESERVED.fullmatch(word):
                raise ConditionRefused(
                    f"its condition has the word {word}, which a snapshot's condition may not have: write the"
                    " table's columns, values and functions of them; a column of this name in backticks"
                )
        if not any(_is_name(word, name) for name in clear):
            raise ConditionRefused(f"its condition names {word}, which is not a column of the table")
    return text


def _check_closed(tokens: Collection[_Token]) -> None:
    """Return if each parenthesis is closed after it is opened: no range of a page is bypassed."""
    depth = 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if depth < 0:
            break
    if depth:
        raise ConditionRefused("its condition leaves a parenthesis open, or closes more than it opens")


def _is_name(word: str, name: str) -> bool:
    """Return whether a word names a column: beyond ASCII servers differ in which letters are alike."""
    return word == name or (word.isascii() and name.isascii() and word.lower() == name.lower())


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ConditionRefused(
                f"its condition is not understood from character {at + 1} on: texts are in single quotes,"
                " without backslashes, and columns without their table; comments, variables and ; are refused"
            )
        at = found.end()
        if found.lastgroup is not None:
            yield _Token(found.lastgroup, found[0])
