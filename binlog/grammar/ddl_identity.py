"""DDL identity: a number that equal statements on tables with one routed name share.

What does not count: comments, blanks, the case of words, quotes of names, a semicolon at the end, and the
names of the source. The table's own name, with or without its schema, becomes the routed one. So does another
table's name after a schema, and after REFERENCES, LIKE, TO, AS and RENAME; one that no route changes stays as
it is, without its schema if that is the statement's. Everything else counts: the order of columns, texts,
numbers, and `INT` or `INTEGER`.

A statement that cannot be cut into tokens is identified by its text.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator

from canal_group.binlog.schema.clauses.tokens import Kind
from canal_group.binlog.schema.clauses.words import Words
from canal_group.binlog.schema.statement import Statement
from canal_group.merge.values.chunk import TableName

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
        route: returns the consumers' name of a table of the source, or None if it is left out.
    """
    try:
        return _number((op, *name), _words(Words(statement), source, statement.schema, route))
    except Exception:  # noqa: BLE001 - any error of its reader means that the text is not understood
        return _number((op, *name), [statement.sql.strip()])


def _number(head: Iterable[str], words: Iterable[str]) -> int:
    digest = hashlib.blake2b(digest_size=8)
    between = ""
    for each in itertools.chain(head, words):
        digest.update((between + each).encode(errors="surrogatepass"))
        between = _BETWEEN
    return (int.from_bytes(digest.digest(), "big") >> 1) or 1


def _words(words: Words, source: TableName, schema: str, route: Route) -> Iterator[str]:
    last, own = "", False
    while not words.ended:
        token = words.take()
        if token.kind not in _NAMES:
            text = token.text
            yield f"{len(text)}:{text}" if token.kind is Kind.TEXT else text
            last = ""
            continue
        qualified = words.sees(".") and words.peek(1).kind in _NAMES
        if qualified:
            words.take()
        name = TableName(token.text, words.take().text) if qualified else TableName(schema, token.text)
        if _same(name, source) and (qualified or not own):
            own = True
            last = ""
            yield ""
        elif qualified and _folded(name.schema) == _folded(source.table):
            # A column with its table.
            yield name.table.upper()
        elif qualified or last in _BEFORE_NAMES:
            yield _routed(name, source.schema if qualified else name.schema, route)
            last = ""
        else:
            last = name.table.upper()
            yield last


def _routed(name: TableName, schema: str, route: Route) -> str:
    """Return a name as consumers see it; without its schema if no route changes it and it is of `schema`."""
    routed = route(*name) or name
    unchanged = routed == name and _folded(name.schema) == _folded(schema)
    return name.table.upper() if unchanged else str(routed).upper()


def _same(one: TableName, other: TableName) -> bool:
    return _folded(one.schema) == _folded(other.schema) and _folded(one.table) == _folded(other.table)


def _folded(name: str) -> str:
    return name.lower()
