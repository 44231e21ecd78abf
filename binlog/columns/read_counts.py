"""Read counts: how much a reader has read, and what was lost or changed in decoding it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from canal_group.binlog.columns.columns import Losses


@dataclass(frozen=True, slots=True)
class ReadCounts:
    """What a reader has read, also of tables that are left out, since it was made."""

    #: bytes as they arrived, before anything was decompressed
    read_bytes: int = 0
    #: dates and times with a zero or impossible part, now null
    zero_dates: int = 0
    #: strings with bytes that their charset does not have
    invalid_text: int = 0
    #: events of unknown types that their server marked as ignorable, by the name of their type
    ignored_events: Mapping[str, int] = field(default_factory=dict)
    #: events that an operator has left out, by the name of their type
    skipped_events: Mapping[str, int] = field(default_factory=dict)
    #: statements that were too long to be read
    long_statements: int = 0

    @classmethod
    def of(cls, read_bytes: int, losses: Losses) -> ReadCounts:
        """Return the counts of one stream."""
        return cls(
            read_bytes,
            losses.zero_dates,
            losses.invalid_text,
            dict(losses.ignored_events),
            dict(losses.skipped_events),
            losses.long_statements,
        )

    def __add__(self, other: ReadCounts) -> ReadCounts:
        """Return the counts of both."""
        return ReadCounts(
            self.read_bytes + other.read_bytes,
            self.zero_dates + other.zero_dates,
            self.invalid_text + other.invalid_text,
            Counter(self.ignored_events) + Counter(other.ignored_events),
            Counter(self.skipped_events) + Counter(other.skipped_events),
            self.long_statements + other.long_statements,
        )
