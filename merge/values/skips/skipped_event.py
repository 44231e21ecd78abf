"""Skipped events: events of a source that are left out because an operator said so.

One is identified by its offset in the binlog of one server, and by when that file was created: a file of the
same name on another server, or after a reset of the binary logs, is another file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from canal_group.merge.errors import UsageError
from canal_group.merge.values.position import file_order
from canal_group.merge.values.resets.reset import created_again
from canal_group.merge.whole import TIMES_S, TIMES_US, whole


class Unit(StrEnum):
    """How much is left out."""

    #: one event: a statement, or the rows of one table. The other rows of its transaction are delivered
    EVENT = "event"
    #: every row and statement of the transaction that has the event
    TRANSACTION = "transaction"


@dataclass(frozen=True, slots=True)
class SkippedEvent:
    """An event that every reader of the shard leaves out."""

    shard: str
    #: identity of the server whose binlog it is in; empty: the shard reads files
    server: str
    file: str
    #: when the file was created, seconds since 1970; 0: not known
    created_s: int
    #: where the event begins; as the shard's error said it
    offset: int
    #: which event of a compressed transaction, from 1; 0: the event at `offset` itself
    part: int
    unit: Unit
    #: who asked for it, and when, microseconds since 1970 UTC
    by: str
    at_us: int

    @property
    def event_key(self) -> tuple[str, str, int, int]:
        """Identifies the event among the skipped events of its shard, up to the creation time of its file."""
        return self.server, self.file, self.offset, self.part

    def is_of(self, created_s: int) -> bool:
        """Return whether it is in a file that was created at a time, as far as that is known."""
        return not created_again(self.created_s, created_s)

    def __str__(self) -> str:
        when = datetime.fromtimestamp(self.at_us / 1e6, UTC).isoformat(" ", "seconds")
        return f"the {self.unit} of shard {self.shard} at {self.file}:{self.offset}, by {self.by} at {when}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object; `from_dict` reads it."""
        return {**asdict(self), "unit": self.unit.value}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> SkippedEvent:
        """Return the event of an object that `to_dict` made.

        Raises:
            KeyError, TypeError, ValueError: it wrote no such value.
        """
        return cls(
            shard=str(value["shard"]),
            server=str(value["server"]),
            file=str(value["file"]),
            created_s=whole(value["created_s"], TIMES_S),
            offset=whole(value["offset"]),
            part=whole(value["part"]),
            unit=Unit(value["unit"]),
            by=str(value["by"]),
            at_us=whole(value["at_us"], TIMES_US),
        )


def parse_event_offset(text: str) -> tuple[str, int]:
    """Return file and offset of an event in a binlog, as errors and statuses write it: FILE:POS.

    Raises:
        UsageError: the text has another form.
    """
    file, _, offset = text.rpartition(":")
    if not (offset.isascii() and offset.isdecimal() and len(offset) < 20):  # noqa: PLR2004 - of 64 bits
        raise UsageError(
            f"{text[:200]!r} is not a position in a binlog.",
            hint="Expected FILE:POS as the shard's error has it, such as mysql-bin.000001:4711.",
        )
    file_order(file)
    return file, int(offset)
