"""Snapshot marks: what consumers get when all rows that there were have been handed out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from canal_group.merge.values.marks.mark import mark_sql, read_mark
from canal_group.merge.values.position import Position

_WORDS: Final = "completed a snapshot"


@dataclass(frozen=True, slots=True)
class SnapshotMark:
    """What is complete: each of its rows is in the stream before the mark, or was changed there."""

    shard: str
    #: whose snapshot it is
    client_id: str
    #: the table, as consumers see it; empty: all tables of the shard
    table: str
    #: where the mark is in the shard's binlog
    position: Position

    def to_sql(self) -> str:
        """Return the statement that stands for it."""
        facts = {"shard": self.shard, "client_id": self.client_id, "table": self.table}
        return mark_sql(_WORDS, {**facts, "position": self.position.to_dict()})

    @classmethod
    def of_sql(cls, sql: str | None) -> SnapshotMark | None:
        """Return the mark that a statement is; None if it is another statement, or a row."""
        facts = read_mark(_WORDS, sql)
        if facts is None:
            return None
        return cls(**{**facts, "position": Position.from_dict(facts["position"])})
