"""Losses: what a client id did not get because a source had purged it, or its shard left, and what is known.

Rules:

1. A loss is stored in the same write as the cursor that it moved.
2. A loss that follows an earlier one, with nothing acknowledged in between, is one loss with it.
3. The last 16 losses of a shard are kept; their numbers say how many there were.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from canal_group.merge.errors import DataError, PositionPurged, UsageError
from canal_group.merge.values.gtids.gtid import NO_GTIDS, GtidSet, MariaDbGtidSet, MySqlGtidSet
from canal_group.merge.values.position import Position
from canal_group.merge.whole import TIMES_US, whole

#: losses of a shard that are kept for a client id
KEPT_MAX = 16
#: a GTID set whose text is longer is left out of a loss, so that losses do not make cursors too large
GTIDS_CHARACTERS_MAX = 1_024


class Purged(StrEnum):
    """Where a client id goes on whose position a source has purged."""

    #: nowhere: an operator or its consumer has to act
    FAIL = "fail"
    #: at the oldest position that the source still has
    EARLIEST = "earliest"
    #: at the newest
    LATEST = "latest"

    def goes_on_at(self, error: DataError) -> Position | None:
        """Return where a refused client id goes on; None: nowhere, or the source did not say.

        Rows of an XA transaction that was prepared before the position are missing inside a transaction; no
        position is after them only. What was reset or restored is not a `PositionPurged`.
        """
        if self is Purged.FAIL or not isinstance(error, PositionPurged) or "xid" in error.details:
            return None
        told = error.details.get(self.value)
        return Position.from_dict(json.loads(told)) if isinstance(told, str) else None


def found_at_us(error: DataError) -> int:
    """Return when a shard found that its source had purged its position, as `Loss.found_us`."""
    found_us = error.details.get("found_us")
    return found_us if isinstance(found_us, int) else 0


@dataclass(frozen=True, slots=True)
class Loss:
    """What a client id did not get of one shard."""

    shard: str
    #: from 1, by client id and shard
    number: int
    #: the cursor before and after
    after: Position
    until: Position
    #: when a purge was found, by the clock of the shard's machine, microseconds since 1970; 0: not known
    found_us: int
    #: how many GTIDs were missed; None: not known
    gtids: int | None

    @property
    def between_us(self) -> int | None:
        """Microseconds from the last commit before it to when it was found, at most; None: not known."""
        known = self.after.commit_us and self.found_us
        return max(0, self.found_us - self.after.commit_us) if known else None

    def to_dict(self) -> dict[str, Any]:
        """Return the loss as a JSON object, which `from_dict` reads."""
        return {
            "shard": self.shard,
            "number": self.number,
            "after": self.after.to_dict(),
            "until": self.until.to_dict(),
            "found_us": self.found_us,
            "gtids": self.gtids,
            "between_us": self.between_us,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Loss:
        """Return the loss that `to_dict` wrote.

        Raises:
            UsageError: a field is missing or has the wrong type.
        """
        try:
            return cls(
                shard=str(value["shard"]),
                number=whole(value["number"]),
                after=Position.from_dict(value["after"]),
                until=Position.from_dict(value["until"]),
                found_us=whole(value["found_us"], TIMES_US),
                gtids=None if value["gtids"] is None else whole(value["gtids"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UsageError(
                f"{repr(value)[:200]} is not a loss ({type(error).__name__}: {error}).",
                hint="Expected what canal-group wrote.",
            ) from error

    def __str__(self) -> str:
        count = "an unknown number of" if self.gtids is None else f"{self.gtids:,}"
        return f"shard {self.shard} from {self.after} to {self.until}: {count} transactions"


def with_loss(
    losses: tuple[Loss, ...], shard: str, after: Position, until: Position, found_us: int
) -> tuple[Loss, ...]:
    """Return losses and one more; see the module's rules.

    Args:
        losses: those so far, of all shards, in the order of their detection.
        shard: which one lost something.
        after: the cursor before.
        until: the cursor after the loss.
        found_us: as `Loss.found_us`.
    """
    mine = [each for each in losses if each.shard == shard]
    last = mine[-1] if mine else None
    number = last.number + 1 if last is not None else 1
    gtids = gtids_between(after.gtid_set, until.gtid_set)
    if last is not None and _same(last.until, after):
        known = gtids is not None and last.gtids is not None
        gtids = (last.gtids or 0) + (gtids or 0) if known else None
        after, number = last.after, last.number
        mine.pop()
        losses = tuple(each for each in losses if each is not last)
    loss = Loss(shard, number, _bounded(after), _bounded(until), found_us, gtids)
    gone = {each.number for each in mine[: len(mine) - KEPT_MAX + 1]} if len(mine) >= KEPT_MAX else set()
    return (*(each for each in losses if each.shard != shard or each.number not in gone), loss)


def gtids_between(after: GtidSet, until: GtidSet) -> int | None:
    """Return how many GTIDs are in `until` and not in `after`; None if the sets do not say.

    On MariaDB it is the difference of the sequence numbers, which may have gaps.
    """
    if isinstance(until, MySqlGtidSet):
        return _count(until) - _count(after.intersection(until))
    if isinstance(until, MariaDbGtidSet):
        domains = after.domains if isinstance(after, MariaDbGtidSet) else ()
        before = {domain: number for domain, _, number in domains}
        return sum(max(0, number - before.get(domain, 0)) for domain, _, number in until.domains)
    return None


def _count(gtids: GtidSet) -> int:
    runs = gtids.runs if isinstance(gtids, MySqlGtidSet) else ()
    return sum(end - begin for _, intervals in runs for begin, end in intervals)


def _same(one: Position, other: Position) -> bool:
    return (one.file, one.offset, one.server) == (other.file, other.offset, other.server)


def _bounded(position: Position) -> Position:
    if len(str(position.gtid_set)) <= GTIDS_CHARACTERS_MAX:
        return position
    return replace(position, gtid_set=NO_GTIDS)


def to_dicts(losses: Iterable[Loss]) -> list[dict[str, Any]]:
    """Return losses as JSON objects, which `from_dicts` reads."""
    return [loss.to_dict() for loss in losses]


def from_dicts(values: Iterable[Mapping[str, Any]]) -> tuple[Loss, ...]:
    """Return the losses that `to_dicts` wrote; raises as `Loss.from_dict`."""
    return tuple(Loss.from_dict(value) for value in values)
