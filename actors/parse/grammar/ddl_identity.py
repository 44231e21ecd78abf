"""DDL identity: a number that statements share which say the same of tables with one routed name.

What does not count: comments, blanks, the case of words, quotes of names, a semicolon at the end, and the
names of the source. The table's own name, with or without its schema, becomes the routed one. So does another
table's name after a schema, and after REFERENCES, LIKE, TO, AS and RENAME; one that no route changes stays as
it is, without its schema if that is the statement's. Everything else counts: the order of columns, texts,
numbers, and `INT` or `INTEGER`.

A statement that cannot be cut into tokens is identified by its text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

from actors.parse.schema.clauses.tokens import Kind, Token, UnreadableError, tokens_of
from actors.parse.schema.statement import Statement
from merge.values.chunk import TableName

#: words after which a table's name may come
_BEFORE_NAMES = frozenset({"REFERENCES", "LIKE", "TO", "AS", "RENAME"})
_NAMES = (Kind.WORD, Kind.NAME)
#: between what is hashed; in no token but a text, which is hashed with its length
_BETWEEN = "\x1f"

Route = Callable[[str, str], TableName | None]


def statement_id(op: str, name: TableName, source: TableName, statement: Statement, route: Route) -> int:
    """Return a statement's number, from 1, below 2**63.

    Args:
        op: canal's EventType.
        name: its table, as consumers see it.
        source: the same in the source.
        statement: the statement.
        route: returns what consumers call a table of the source, or None if it is left out.
    """
    try:
        words = list(_words(tokens_of(statement), source, statement.schema, route))
    except UnreadableError:
        words = [statement.sql.strip()]
    text = _BETWEEN.join([op, name.schema, name.table, *words])
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 1) or 1


def _words(tokens: list[Token], source: TableName, schema: str, route: Route) -> Iterator[str]:
    """Yield what counts of a statement's tokens."""
    at, last, own = 0, "", False
    end = next(at for at in range(len(tokens) - 1, -1, -1) if tokens[at].kind is not Kind.END) + 1
    while end and tokens[end - 1].kind is Kind.SYMBOL and tokens[end - 1].text == ";":
        end -= 1
    while at < end:
        token = tokens[at]
        if token.kind not in _NAMES:
            yield f"{len(token.text)}:{token.text}" if token.kind is Kind.TEXT else token.text
            at, last = at + 1, ""
            continue
        qualified = at + 2 < end and _is_dot(tokens[at + 1]) and tokens[at + 2].kind in _NAMES
        found = TableName(token.text, tokens[at + 2].text) if qualified else TableName(schema, token.text)
        at += 3 if qualified else 1
        if _same(found, source) and (qualified or not own):
            own = True
            last = ""
            yield ""
        elif qualified and _folded(found.schema) == _folded(source.table):
            # A column with its table.
            yield found.table.upper()
        elif qualified or last in _BEFORE_NAMES:
            yield _routed(found, source.schema if qualified else found.schema, route)
            last = ""
        else:
            last = token.text.upper()
            yield last


def _routed(found: TableName, schema: str, route: Route) -> str:
    """Return a name as consumers see it; without its schema if no route changes it and it is of `schema`."""
    name = route(*found) or found
    unchanged = name == found and _folded(found.schema) == _folded(schema)
    return found.table.upper() if unchanged else str(name).upper()


def _same(one: TableName, other: TableName) -> bool:
    return _folded(one.schema) == _folded(other.schema) and _folded(one.table) == _folded(other.table)


def _folded(name: str) -> str:
    return name.lower()


def _is_dot(token: Token) -> bool:
    return token.kind is Kind.SYMBOL and token.text == "."
