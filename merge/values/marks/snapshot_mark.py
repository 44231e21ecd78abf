"""Snapshot marks: the end of a snapshot in the stream, as consumers and as the group get it.

Rules:

1. A table is unread from the mark of a snapshot that could not read it until the mark of a snapshot of the
   same client id that has read it. The group takes both when a shard reports the mark, before a client gets
   it: a client that keeps its own position may never acknowledge it.
2. A table that the source does not have is not unread: it has no rows.
3. The first tables of a shard are named, the others counted. A snapshot of all tables counts them anew; a
   snapshot of some tables leaves the count of the others as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from canal_group.merge.values.marks.mark import mark_sql, read_mark
from canal_group.merge.values.position import Position
from canal_group.merge.whole import whole

_WORDS: Final = "completed a snapshot"
#: tables of a shard that are named, and bytes of the reason of each in UTF-8
NAMED_MAX: Final = 100
REASON_BYTES_MAX: Final = 512
#: how the text begins that follows the last cursor of a snapshot, see `SnapshotEnd`
OVER: Final = "over "


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
    #: tables that were to be read and that the shard does not have; at most `NAMED_MAX`
    absent: tuple[str, ...] = ()

    def to_sql(self) -> str:
        """Return the mark as the text of a statement."""
        facts = {"shard": self.shard, "client_id": self.client_id, "table": self.table}
        failed = {"failed": dict(self.failed), "failed_count": self.failed_count} if self.failed_count else {}
        absent = {"absent": list(self.absent)} if self.absent else {}
        return mark_sql(_WORDS, {**facts, "position": self.position.to_dict(), **failed, **absent})

    @classmethod
    def of_sql(cls, sql: str | None) -> SnapshotMark | None:
        """Return the mark that a statement is; None if it is another statement, or a row."""
        facts = read_mark(_WORDS, sql)
        if facts is None:
            return None
        position, absent = Position.from_dict(facts["position"]), tuple(facts.get("absent", ()))
        return cls(**{**facts, "position": position, "absent": absent})


@dataclass(frozen=True, slots=True)
class FailedTables:
    """The unread tables of one shard; see the module's rules."""

    #: reasons by table, as `name_text` has its name in the source
    reasons: Mapping[str, str] = field(default_factory=dict)
    #: unread tables, with those that have no reason here
    count: int = 0

    @classmethod
    def of(cls, reasons: Mapping[str, str], unnamed: int = 0) -> FailedTables:
        """Return tables with bounded names and reasons.

        Args:
            reasons: of all tables that are known by name.
            unnamed: number of further tables.
        """
        first = sorted(reasons)[:NAMED_MAX]
        return cls({name: _cut(reasons[name]) for name in first}, len(reasons) + unnamed)

    @property
    def unnamed(self) -> int:
        """Number of the tables that have no reason here."""
        return self.count - len(self.reasons)

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object, which `from_dict` reads."""
        return {"reasons": dict(self.reasons), "count": self.count}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> FailedTables:
        """Return the tables that `to_dict` wrote.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: it wrote no such object.
        """
        reasons, count = dict(value["reasons"]), whole(value["count"])
        if not all(isinstance(text, str) for text in (*reasons, *reasons.values())):
            raise TypeError("a table and its reason are texts")
        if len(reasons) > min(count, NAMED_MAX):
            raise ValueError(f"it names {len(reasons)} tables of {count}, and at most {NAMED_MAX}")
        return cls(reasons, count)


def unread_to_json(unread: Mapping[str, FailedTables]) -> str:
    """Return the unread tables of each shard as JSON text, which `unread_of_json` reads."""
    return json.dumps({shard: tables.to_dict() for shard, tables in unread.items()})


def unread_of_json(text: str) -> dict[str, FailedTables]:
    """Return the tables that `unread_to_json` wrote; raises as `FailedTables.from_dict`."""
    return {shard: FailedTables.from_dict(value) for shard, value in json.loads(text).items()}


@dataclass(frozen=True, slots=True)
class SnapshotEnd:
    """What a snapshot of one shard has come to when its mark enters the stream."""

    #: the tables that it was to read, by `name_text`; None: all of the shard
    wanted: tuple[str, ...] | None = None
    #: tables of these without rows in the stream
    unread: FailedTables = field(default_factory=FailedTables)

    def after(self, before: FailedTables) -> FailedTables:
        """Return the unread tables of the shard after this end.

        Args:
            before: the unread tables before it.
        """
        if self.wanted is None:
            return self.unread
        wanted = frozenset(self.wanted)
        others = {name: reason for name, reason in before.reasons.items() if name not in wanted}
        return FailedTables.of({**others, **self.unread.reasons}, before.unnamed + self.unread.unnamed)

    def to_text(self) -> str:
        """Return it as text, which stands in the place of a cursor; see `HeaderRun.snapshots`."""
        wanted = {} if self.wanted is None else {"wanted": self.wanted}
        return OVER + json.dumps({**wanted, **self.unread.to_dict()}, sort_keys=True)

    @classmethod
    def of_text(cls, text: str) -> SnapshotEnd | None:
        """Return the end that `to_text` wrote; None for the text of a cursor.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: the text begins like an end and is damaged.
        """
        if not text.startswith(OVER):
            return None
        value = json.loads(text.removeprefix(OVER))
        wanted = tuple(value["wanted"]) if "wanted" in value else None
        return cls(wanted, FailedTables.from_dict(value))


def _cut(reason: str) -> str:
    return reason.encode()[:REASON_BYTES_MAX].decode(errors="ignore")
