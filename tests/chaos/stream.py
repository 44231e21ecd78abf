"""The stream: the deliveries whose acknowledgement was accepted, in the order of acceptance.

An acknowledgement was accepted if it was answered, or if ZooKeeper has the cursor that it asked for: then its
answer was lost, or the consumer died.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

import pyarrow as pa

from canal_group.merge.values.position import GroupPosition
from chaos.cursors import CursorWrite
from chaos.journal import Delivery


@dataclass(frozen=True, slots=True)
class Accepted:
    """One delivery of the stream."""

    delivery: Delivery
    #: the write that its acknowledgement made; None: no write
    write: CursorWrite | None
    rows: pa.Table

    @property
    def cursor(self) -> GroupPosition:
        """The cursor after its acknowledgement."""
        return GroupPosition.from_json(self.delivery.cursor)

    @property
    def acked_us(self) -> int:
        """When its acknowledgement was answered, or sent if that is not known."""
        return self.delivery.acked_us or self.delivery.asked_us

    def __str__(self) -> str:
        return f"batch {self.delivery.batch_id} of {self.delivery.folder.name}"


def stream_of(deliveries: Iterable[Delivery], writes: Sequence[CursorWrite]) -> list[Accepted]:
    """Return the accepted deliveries in order."""
    asked = sorted(
        (one for one in deliveries if one.asked_us and not one.refused), key=attrgetter("asked_us")
    )
    free: defaultdict[str, list[CursorWrite]] = defaultdict(list)
    for write in writes:
        free[write.text].append(write)
    # Each answered acknowledgement has a write; the remaining writes are of unanswered ones.
    made: dict[int, CursorWrite | None] = {}
    for one in sorted(asked, key=attrgetter("in_doubt")):
        made[id(one)] = _claim(free[one.cursor], one.server_epoch)
    found = [
        Accepted(one, made[id(one)], one.rows()) for one in asked if one.acked_us or made[id(one)] is not None
    ]
    return [found[index] for index in sorted(range(len(found)), key=list(_order(found)).__getitem__)]


def _claim(writes: list[CursorWrite], epoch: int) -> CursorWrite | None:
    """Take the oldest unclaimed write, one of this epoch if there is one."""
    own = next((write for write in writes if write.epoch == epoch), None)
    chosen = own or next(iter(writes), None)
    if chosen is not None:
        writes.remove(chosen)
    return chosen


def _order(found: Sequence[Accepted]) -> Iterator[int]:
    """Yield the sort key of each: that of its write, or of the last write before it."""
    zxid = 0
    for one in found:
        if one.write is not None:
            zxid = one.write.zxid
        yield zxid


def not_durable(stream: Sequence[Accepted]) -> Iterator[str]:
    """Yield the acknowledgements that were answered although the cursor was not written."""
    before: str | None = None
    for one in stream:
        if one.write is None and one.delivery.cursor != before:
            yield f"{one} was acknowledged, but ZooKeeper never had its cursor."
        before = one.delivery.cursor


def double_active(stream: Sequence[Accepted], writes: Sequence[CursorWrite]) -> Iterator[str]:
    """Yield the acknowledgements that were accepted under an epoch that had ended."""
    for write in writes:
        if not write.fenced:
            yield (
                f"zxid {write.zxid:#x}: a cursor write neither checked epoch {write.epoch}"
                " nor came from its session."
            )
    for one in stream:
        if one.write is not None and one.write.epoch != one.delivery.server_epoch:
            yield f"{one} was acknowledged under epoch {one.write.epoch}."
    yield from _overtaken(stream, "server", lambda one: one.delivery.server_epoch)
    yield from _overtaken(stream, "consumer", lambda one: one.delivery.step.consumer_epoch)


def _overtaken(stream: Sequence[Accepted], whose: str, epoch_of: Callable[[Accepted], int]) -> Iterator[str]:
    """Yield what was sent under an epoch after one of a newer epoch had been answered."""
    answered = sorted((one for one in stream if one.delivery.acked_us), key=lambda one: one.delivery.acked_us)
    newest, at = 0, 0
    for one in sorted(stream, key=lambda each: each.delivery.asked_us):
        while at < len(answered) and answered[at].delivery.acked_us < one.delivery.asked_us:
            newest = max(newest, epoch_of(answered[at]))
            at += 1
        if epoch_of(one) < newest:
            yield f"{one}: {whose} epoch {epoch_of(one)} after one of epoch {newest}."
