"""A bounded read: what is between two places, walked range by range by one consumer for each of its tasks.

Several tasks take turns: the range is parted into stretches of the merged order, each read by one task and
passed by the others without its rows. A stretch ends behind a key, so that it does not matter which of equal
keys came first, and its end is settled before anything is read: a task that is repeated has the rows that it
had. Each task walks at its own pace, as far ahead of the slowest as the rings reach.

A client id lasts as long as its task: it is given up with its cursor at the end, so that no ring is kept for
a reader that does not come again. A read that fails is done again, from its beginning.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from pyspark.sql.datasource import InputPartition

from canal_group.client.batch import Batch
from canal_group.spark.limit import crossed, reached
from canal_group.spark.options import CURSOR, EARLIEST, LATEST, Options, moment_us
from canal_group.spark.reading import RangePart, parts
from canal_group.spark.session import Session
from merge.errors import CanalGroupError, ConfigError, DataError, UsageError
from merge.values.position import GroupPosition


@dataclass(frozen=True)
class Stretch:
    """A run of the merged order: what is behind the stretch before it, up to and with a key."""

    #: greatest key, microseconds since 1970 UTC
    key_us_max: int
    #: where it ends, as row changes since the read's beginning; None: it was not counted before
    sequence: int | None


@dataclass(frozen=True)
class Bounds(InputPartition):  # type: ignore[misc]  # pyspark is untyped here
    """Where a bounded read begins and ends, settled before any of it is read, and which task reads what."""

    #: a group position's JSON
    start: str
    #: the one that nothing is read behind; empty: the last key says
    until: str
    stretches: tuple[Stretch, ...]
    #: which task of how many
    task: int = 0
    tasks: int = 1

    @classmethod
    def of(cls, session: Session, options: Options) -> Bounds:
        """Return the bounds that a query names, as they are now, in one stretch.

        Raises:
            ConfigError: one is in the future.
            UsageError: it is a position of other shards.
        """
        now_us, ending = session.now_us(), options.ending_position
        moment = now_us + 1 if ending == LATEST else moment_us(ending)
        if moment is not None and moment > now_us + 1:
            raise ConfigError(f"endingPosition, {ending}, is in the future.", hint="Set it to latest.")
        if moment is not None:
            return cls(session.begin().to_json(), "", (Stretch(moment - 1, None),))
        _check_there(GroupPosition.from_json(ending), session)
        # What it names is committed already.
        return cls(session.begin().to_json(), ending, (Stretch(now_us, None),))

    def shared(self, session: Session, options: Options) -> list[Bounds]:
        """Return what each task reads; where there are several, pass the range once to part it."""
        tasks = options.partitions
        if tasks == 1:
            return [self]
        stretches = tuple(self._parted(session, options))
        return [replace(self, stretches=stretches, task=task, tasks=tasks) for task in range(tasks)]

    def clients(self, options: Options) -> list[str]:
        """Return the client id of each task; the first one's is the read's own."""
        return [f"{options.client}.{task + 1}" if task else options.client for task in range(self.tasks)]

    def walk(self, session: Session, options: Options) -> Iterator[RangePart]:
        """Yield the offset ranges of this task's stretches."""
        place, limit = GroupPosition.from_json(self.start), self._limit()
        for number, stretch in enumerate(self.stretches):
            for epoch, offset_range in self._offset_ranges(session, options, place, stretch):
                place = offset_range.end
                if number % self.tasks == self.task:
                    (part,) = parts(options, epoch, offset_range, 1)
                    beyond = limit is not None and crossed(limit, place)
                    yield replace(part, limit=self.until) if beyond else part
                if self.tasks == 1 and limit is not None and reached(limit, place):
                    return
            if stretch.sequence not in (None, place.sequence):
                raise DataError(
                    f"A part of the range ends at row {place.sequence}, not {stretch.sequence} as before.",
                    hint="A transaction was late, or the filter was changed. Read the range again.",
                    expected=stretch.sequence,
                    found=place.sequence,
                )

    def _parted(self, session: Session, options: Options) -> Iterator[Stretch]:
        """Yield stretches of which all tasks together have about a micro-batch's rows at a time."""
        place, (whole,) = GroupPosition.from_json(self.start), self.stretches
        limit = self._limit()
        while limit is None or not reached(limit, place):
            first = next(self._offset_ranges(session, options, place, whole), None)
            if first is None:
                return
            place = first[1].end
            stretch = Stretch(min(place.passed_us, whole.key_us_max), None)
            for _, offset_range in self._offset_ranges(session, options, place, stretch):
                place = offset_range.end
            yield replace(stretch, sequence=place.sequence)

    def _offset_ranges(
        self, session: Session, options: Options, place: GroupPosition, stretch: Stretch
    ) -> Iterator[tuple[int, Batch]]:
        """Yield the ranges from a place to the end of a stretch, each with the epoch to read it under."""
        share = options.partitions
        session.end_at(stretch.key_us_max)
        while stretch.sequence is None or place.sequence < stretch.sequence:
            offset_range = session.next_batch(
                place,
                max(1, options.max_rows_per_batch // share),
                max(1, options.max_bytes_per_batch // share),
            )
            if offset_range is None:
                return
            place = offset_range.end
            yield session.plan(offset_range.start, place)

    def _limit(self) -> GroupPosition | None:
        return GroupPosition.from_json(self.until) if self.until else None


def _check_there(ending: GroupPosition, session: Session) -> None:
    """Return if the sources have come to a position, as far as they can say."""
    try:
        latest = session.locate(LATEST)
    except UsageError:  # a shard is files
        return
    unknown = ending.shards.keys() - latest.shards.keys()
    if unknown:
        raise UsageError(
            f"endingPosition names shards that the group does not have: {', '.join(sorted(unknown))}.",
            hint="A shard was removed from the instance, or endingPosition is of another instance.",
        )
    if not reached(ending, latest):
        raise ConfigError(
            "endingPosition is past the current end of the sources' binlogs.",
            hint="Set it to latest. It may also be of a server that was replaced by one without GTIDs.",
        )


@contextmanager
def bounded(options: Options, beside: frozenset[str] = frozenset()) -> Iterator[Session]:
    """Hold the session of a bounded read.

    Args:
        options: whose `client` is that of this task.
        beside: client ids of the read's other tasks.

    Raises:
        ConfigError: it begins at a cursor.
    """
    if options.starting_position == CURSOR:
        raise ConfigError(
            "A bounded read cannot begin at a cursor: its client id exists only during the read.",
            hint="Set startingPosition to earliest, a time or a group position.",
        )
    session = Session(replace(options, starting_position=options.starting_position or EARLIEST), beside)
    try:
        yield session
    finally:
        # Who cannot be told finds out: the lease ends.
        with suppress(CanalGroupError):
            session.give_up()
        session.close()
