"""Snapshot marks: what consumers get when all rows that there were have been handed out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from canal_group.merge.values.marks.mark import mark_sql, read_mark
from canal_group.merge.values.position import Position

_WORDS: Final = "completed a snapshot"


@dataclass(frozen=True, slots=True)
class SnapshotMark:
    """What is complete: each of its rows is in the stream before the mark, or was changed there.

    Not so the tables that failed; if there are many, the first ones are named.
    """

    shard: str
    #: whose snapshot it is
    client_id: str
    #: the table, as consumers see it; empty: all tables of the shard
    table: str
    #: where the mark is in the shard's binlog
    position: Position
    #: why tables were not read to their end, by their names in the source
    failed: Mapping[str, str] = field(default_factory=dict)
    #: how many failed
    failed_count: int = 0

    def to_sql(self) -> str:
        """Return the statement that stands for it."""
        facts = {"shard": self.shard, "client_id": self.client_id, "table": self.table}
        failed = {"failed": dict(self.failed), "failed_count": self.failed_count} if self.failed_count else {}
        return mark_sql(_WORDS, {**facts, "position": self.position.to_dict(), **failed})

    @classmethod
    def of_sql(cls, sql: str | None) -> SnapshotMark | None:
        """Return the mark that a statement is; None if it is another statement, or a row."""
        facts = read_mark(_WORDS, sql)
        if facts is None:
            return None
        return cls(**{**facts, "position": Position.from_dict(facts["position"])})
