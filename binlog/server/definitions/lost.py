"""Lost: a statement that an operator has left out, as what a history keeps of it.

What it defined is not known. Its text is not kept: it may be why it was left out.
"""

from __future__ import annotations

from canal_group.binlog.formats.events import Query
from canal_group.binlog.schema.named import Named, named_in
from canal_group.binlog.schema.statement import ServerVersion, Statement
from canal_group.binlog.statements.logged_statement import statement_of
from canal_group.merge.errors import CorruptEvent


def lost(query: Query | None, version: ServerVersion) -> Statement | None:
    """Return the statement that stands for one that is left out; None: that one defines nothing.

    Args:
        query: what is left out; None: it cannot be read.
        version: of the server that wrote it.
    """
    named = _named(query, version)
    if named.nothing:
        return None
    names = sorted(named.tables)
    if named.any or named.schemas or named.dropped or named.whole:
        names = []  # a schema may have any tables
    text = ", ".join(".".join(f"`{part.replace('`', '``')}`" for part in name) for name in names)
    return Statement(text, "", version, left_out=True)


def _named(query: Query | None, version: ServerVersion) -> Named:
    if query is None:
        return Named(any=True)
    try:
        return named_in(statement_of(query, version))
    except CorruptEvent:
        return Named(any=True)
