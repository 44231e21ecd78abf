"""Lost: a statement that an operator has left out, as what a history keeps of it.

What it defined is not known. Its text is not kept: it may be why it was left out.
"""

from __future__ import annotations

from typing import Final

from actors.parse.formats.events import Query
from actors.parse.history.touches import Touches, touches_of
from actors.parse.schema.catalog import Catalog
from actors.parse.schema.statement import ServerVersion, Statement
from actors.parse.statements.logged_statement import statement_of

#: a collation for a catalog that is asked for names only: utf8mb4_general_ci
_ANY_COLLATION: Final = 45


def lost(query: Query | None, version: ServerVersion) -> Statement | None:
    """Return the statement that stands for one that is left out; None: that one defines nothing.

    Args:
        query: what is left out; None: it cannot be read.
        version: of the server that wrote it.
    """
    touches = _touches(query, version)
    if not touches:
        return None
    names = sorted(touches.names)
    if touches.all or touches.schemas or touches.gone:
        names = []  # a schema may have any tables
    text = ", ".join(".".join(f"`{part.replace('`', '``')}`" for part in name) for name in names)
    return Statement(text, "", version, left_out=True)


def _touches(query: Query | None, version: ServerVersion) -> Touches:
    if query is None:
        return Touches(all=True)
    try:
        return touches_of(lambda: Catalog(_ANY_COLLATION), statement_of(query, version))
    except Exception:  # noqa: BLE001 - whatever the reader of statements cannot read is why it is left out
        return Touches(all=True)
