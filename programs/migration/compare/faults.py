"""Faults: what canal is known to do wrong. Each has a name, under which it is counted and documented.

docs/canal-protocol.md has the list. A difference is one of them only if the streams show what a fault leaves
behind: the same values under other names, a text that no decoder could read, a statement that canal took for
something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from canal_group.programs.migration.compare.change import Change, Column
from canal_group.programs.migration.compare.known import known_difference

#: rows of an XA transaction are delivered when it is prepared, whether or not it commits
XA_BEFORE_OUTCOME: Final = "canal's fault xa-before-outcome"
_STATEMENT_AS_MARK: Final = "canal's fault statement-as-mark"
_COMPRESSED_STATEMENT: Final = "canal's fault compressed-statement"
_CURRENT_DEFINITION: Final = "canal's fault current-definition"
_CONNECTION_CHARSET: Final = "canal's fault connection-charset"

#: bytes from which MariaDB compresses a statement, as it is configured by default
_COMPRESSED_BYTES: Final = 256
_MARKS: Final = ("BEGIN", "COMMIT")
_TEXTS: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_REPLACEMENT: Final = "\ufffd"


def fault_of_missing(change: Change) -> str | None:
    """Return the fault for which canal lacks a statement of ours; None: it is not known to have one."""
    if change.sql is None:
        return None
    text = change.sql.strip().rstrip(";").rstrip()
    if text.upper().endswith(_MARKS):
        return _STATEMENT_AS_MARK
    return _COMPRESSED_STATEMENT if len(text.encode()) >= _COMPRESSED_BYTES else None


def fault_of_columns(ours: Sequence[Column], theirs: Sequence[Column]) -> str | None:
    """Return the fault for which two images have the same values in columns of other names."""
    if len(ours) != len(theirs) or [each.name for each in ours] == [each.name for each in theirs]:
        return None
    same = all(
        mine.value == other.value
        or known_difference(other.mysql_type or mine.mysql_type, mine.value, other.value) is not None
        for mine, other in zip(ours, theirs, strict=True)
    )
    return _CURRENT_DEFINITION if same else None


def fault_of_value(mysql_type: str, ours: str | None, theirs: str | None) -> str | None:
    """Return the fault for which canal has another value of a column."""
    word = mysql_type.lower().partition("(")[0].partition(" ")[0]
    if ours is None or theirs is None or word not in _TEXTS:
        return None
    unreadable = _REPLACEMENT in theirs and _REPLACEMENT not in ours
    as_latin1 = ours.encode(errors="replace").decode("latin-1") == theirs
    return _CONNECTION_CHARSET if unreadable or as_latin1 else None
