"""Skip marks: what consumers get in place of an event that is left out.

A mark says where the event is and what it was, and never what it said: no text or value of the source is in
it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from canal_group.merge.values.marks.mark import mark_sql, read_mark
from canal_group.merge.values.skips.skipped_event import Unit

_WORDS: Final = "left out"


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
    #: GTID of the event's transaction; empty: no GTID, or the GTID cannot be read
    gtid: str
    #: who asked for it, and when, microseconds since 1970 UTC
    by: str
    at_us: int

    def to_sql(self) -> str:
        """Return the mark as the text of a statement."""
        return mark_sql(_WORDS, {**asdict(self), "unit": self.unit.value})

    @classmethod
    def of_sql(cls, sql: str | None) -> SkipMark | None:
        """Return the mark that a statement is; None if it is another statement, or a row."""
        facts = read_mark(_WORDS, sql)
        return None if facts is None else cls(**{**facts, "unit": Unit(facts["unit"])})
