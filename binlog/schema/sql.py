"""SQL: how names and texts enter a statement to a source; `literal` lets values of keys enter."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from canal_group.merge.errors import PositionRefused

#: a text that is one literal whatever the session's sql_mode and charset are
_PLAIN: Final = re.compile(r"[^'\"`\\\x00-\x1f\x7f]*")


def quoted(name: str) -> str:
    """Return a name as an identifier."""
    return "`" + name.replace("`", "``") + "`"


def quoted_table(name: Iterable[str]) -> str:
    """Return a table's schema and name as an identifier."""
    return ".".join(map(quoted, name))


def probe(name: Iterable[str]) -> str:
    """Return a statement that selects no row of a table: a server refuses it if it refuses the table."""
    return f"SELECT 1 FROM {quoted_table(name)} LIMIT 0"  # noqa: S608 - it is quoted


def plain_text(text: str) -> str:
    """Return the name of a binlog file, or a GTID set, as a literal.

    Raises:
        PositionRefused: it has characters that neither of them has.
    """
    if _PLAIN.fullmatch(text) is None:
        raise PositionRefused(
            f"{text!r} is not the name of a binlog file, or a set of GTIDs, of a source.",
            hint="Begin at a position that canal-group or the source's SHOW BINARY LOGS has named.",
        )
    return f"'{text}'"
