"""The kind of a statement, as the filter's `keep` names it: `ddl`, `dcl` or `query`.

`dcl` is what defines accounts and their rights: GRANT, REVOKE, statements on users and roles, SET PASSWORD.
Such a statement may hold a password or its hash. It is recognised by its first words. A comment that some
server executes counts as what is in it, whichever server wrote it: a rule that leaves out `dcl` then leaves
out too much, never too little.
"""

from __future__ import annotations

import re

#: what canal calls a statement that is neither a change of definitions nor one of rows
QUERY = "QUERY"

# Possessive: a text that does not match is refused in one pass.
_GAP = r"(?:\s|--[ \t][^\n]*+(?:\n|$)|\#[^\n]*+(?:\n|$)|/\*M?!\d*+|/\*(?!M?!)(?:[^*]|\*(?!/))*+\*/|\*/)"
_SPACE = rf"{_GAP}++"
_QUOTED = r"""'(?:[^'\\]|\\.|'')*+'|"(?:[^"\\]|\\.|"")*+"|`(?:[^`]|``)*+`"""
#: MariaDB: SET STATEMENT max_statement_time=1 FOR GRANT ...
_SET_STATEMENT = rf"SET{_SPACE}STATEMENT\b(?:{_QUOTED}|(?!\bFOR\b)[^'\"`])*+\bFOR{_SPACE}"
_DCL = re.compile(
    rf"{_GAP}*+(?:{_SET_STATEMENT})?(?:(?:GRANT|REVOKE)\b"
    rf"|CREATE{_SPACE}(?:OR{_SPACE}REPLACE{_SPACE})?(?:USER|ROLE)\b"
    rf"|(?:ALTER|DROP|RENAME){_SPACE}(?:USER|ROLE)\b"
    rf"|SET{_SPACE}(?:PASSWORD|(?:DEFAULT{_SPACE})?ROLE)\b)",
    re.IGNORECASE | re.DOTALL,
)


def statement_kind(op: str, sql: str) -> str:
    """Return the kind of a statement that changes no rows.

    Args:
        op: canal's EventType.
        sql: its text.
    """
    if op != QUERY:
        return "ddl"
    return "dcl" if is_dcl(sql) else "query"


def is_dcl(sql: str) -> bool:
    """Return whether a statement defines accounts or their rights."""
    return _DCL.match(sql) is not None
