"""DDL marks: what the control plane knows of a statement that changes the definition of a table.

A header says only that there is one. A mark stands beside its header, so that headers stay small: DDL is
rare.
"""

from __future__ import annotations

from dataclasses import dataclass

#: `op` of a statement after which a table exists that did not before
CREATE = "CREATE"
#: `op` of a statement after which a table does not exist any more
ERASE = "ERASE"
#: `op` of a statement after which it may have another name
RENAME = "RENAME"


@dataclass(frozen=True, slots=True)
class DdlMark:
    """A DDL statement on a table of one shard."""

    #: the same for statements that say the same of tables of one routed name; from 1, below 2**63
    statement: int
    #: canal's EventType: CREATE ALTER ERASE RENAME TRUNCATE CINDEX DINDEX
    op: str
    #: `schema.table` as consumers see it
    table: str
    #: `schema.table` in the source
    source: str
    #: tables of the shard that have the routed name, with this one; 0: not known
    tables: int = 0
