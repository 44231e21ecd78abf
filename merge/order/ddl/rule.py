"""The DDL rule: which of the statements that say the same of tables with one name are delivered."""

from __future__ import annotations

from enum import StrEnum


class DdlRule(StrEnum):
    """Values of `merge.ddl`."""

    #: each
    EVERY = "every"
    #: the one that comes first in the merged order
    FIRST = "first"
    #: the statement that completes the last table
    LAST = "last"
