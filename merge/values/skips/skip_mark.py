"""Skip marks: what consumers get in place of an event that is left out.

A mark is a statement that concerns no table, with canal's EventType QUERY. Its text is a statement that does
nothing, for consumers that run what they get, with a comment that is one JSON object. It says where the event
is and what it was, and never what it said: no text or value of the source is in it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

from canal_group.merge.values.skips.skipped_event import Unit

#: how the text of a mark begins, and of no other statement
BEGIN: Final = "DO 0 /* canal-group left out "
_END: Final = " */"


@dataclass(frozen=True, slots=True)
class SkipMark:
    """What was left out."""

    shard: str
    #: identity of the server that wrote it; empty: not known
    server: str
    file: str
    #: where the event begins and ends there; of a compressed transaction, where that does
    from_offset: int
    to_offset: int
    #: what was left out
    unit: Unit
    #: type of the event, as errors name it
    event: str
    #: what its statement, or its rows, did, as far as that can be told: ALTER, INSERT; else empty
    verb: str
    #: the table, as consumers see it; empty: none, or it cannot be told
    table: str
    #: of its transaction; empty: it has none, or that cannot be read
    gtid: str
    #: who asked for it, and when, microseconds since 1970 UTC
    by: str
    at_us: int

    def to_sql(self) -> str:
        """Return the statement that stands for it."""
        # Nothing in it can end the comment, or be a byte that a consumer cannot store.
        said = json.dumps({**asdict(self), "unit": self.unit.value}).replace("*/", "*\\/")
        return f"{BEGIN}{said}{_END}"

    @staticmethod
    def is_one(sql: str | None) -> bool:
        """Return whether a statement is a mark; None: a row, which is none."""
        return sql is not None and sql.startswith(BEGIN) and sql.endswith(_END)

    @classmethod
    def of_sql(cls, sql: str | None) -> SkipMark | None:
        """Return the mark that a statement is; None if it is another statement, or a row."""
        if sql is None or not cls.is_one(sql):
            return None
        said = json.loads(sql[len(BEGIN) : -len(_END)])
        return cls(**{**said, "unit": Unit(said["unit"])})
