"""A bounded read: the rows between two positions; each task reads them range by range with its own consumer.

Several tasks take turns. The range is divided into stretches of the merged order; each stretch is read by one
task, and the other tasks pass it without reading its rows. A stretch ends after a key, so that the order of
equal keys does not matter. Its end is fixed before anything is read, so that a repeated task has the same
rows as before. Each task proceeds at its own pace; it can be ahead of the slowest one as far as the rings
reach.

A client id exists only during its task: at the end it is unsubscribed together with its cursor, so that no
ring is kept for a reader that has finished. A read that fails is repeated from its beginning.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from pyspark.sql.datasource import InputPartition

from canal_group.client.batch import Batch
from canal_group.merge.errors import CanalGroupError, ConfigError, DataError, UsageError
from canal_group.merge.values.position import GroupPosition
from canal_group.spark.limit import crossed, reached
from canal_group.spark.options import CURSOR, EARLIEST, LATEST, Options, moment_us
from canal_group.spark.reading import RangePart, parts
from canal_group.spark.session import Session


@dataclass(frozen=True)
class Stretch:
    """A run of the merged order: everything after the previous stretch, up to and including a key."""

    #: greatest key, microseconds since 1970 UTC
    key_us_max: int
    #: its end, as the number of row changes since the read's beginning; None if they were not counted
    sequence: int | None


@dataclass(frozen=True)
class Bounds(InputPartition):  # type: ignore[misc]  # pyspark is untyped here
    """The bounds of a read, fixed before anything is read, and the stretches that each task reads."""

    #: JSON of the group position where the read begins
    start: str
    #: JSON of the group position where the read ends; empty: it ends at the last key
    until: str
    stretches: tuple[Stretch, ...]
    #: index of this task, and the number of tasks
    task: int = 0
    tasks: int = 1

    @classmethod
    def of(cls, session: Session, options: Options) -> Bounds:
        """Return the current bounds of a query, as one stretch.

        Raises:
            ConfigError: a bound is in the future.
            UsageError: a position names shards that the group does not have.
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
        """Return the bounds of each task; if there are several tasks, walk the range once to divide it."""
        tasks = options.partitions
        if tasks == 1:
            return [self]
        stretches = tuple(self._parted(session, options))
        return [replace(self, stretches=stretches, task=task, tasks=tasks) for task in range(tasks)]

    def clients(self, options: Options) -> list[str]:
        """Return the client id of each task; the first task uses that of the options."""
        return [f"{options.client}.{task + 1}" if task else options.client for task in range(self.tasks)]

    def walk(self, session: Session, options: Options) -> Iterator[RangePart]:
        """Yield the offset ranges of this task's stretches."""
        position, limit = GroupPosition.from_json(self.start), self._limit()
        for number, stretch in enumerate(self.stretches):
            for epoch, offset_range in self._offset_ranges(session, options, position, stretch):
                position = offset_range.end
                if number % self.tasks == self.task:
                    (part,) = parts(options, epoch, offset_range, 1)
                    beyond = limit is not None and crossed(limit, position)
                    yield replace(part, limit=self.until) if beyond else part
                if self.tasks == 1 and limit is not None and reached(limit, position):
                    return
            if stretch.sequence not in (None, position.sequence):
                raise DataError(
                    f"A part of the range ends at row {position.sequence}, not {stretch.sequence} as before.",
                    hint="A transaction was late, or the filter was changed. Read the range again.",
                    expected=stretch.sequence,
                    found=position.sequence,
                )

    def _parted(self, session: Session, options: Options) -> Iterator[Stretch]:
        """Yield stretches such that all tasks together read about one micro-batch's rows at a time."""
        position, (whole,) = GroupPosition.from_json(self.start), self.stretches
        limit = self._limit()
        while limit is None or not reached(limit, position):
            first = next(self._offset_ranges(session, options, position, whole), None)
            if first is None:
                return
            position = first[1].end
            stretch = Stretch(min(position.passed_us, whole.key_us_max), None)
            for _, offset_range in self._offset_ranges(session, options, position, stretch):
                position = offset_range.end
            yield replace(stretch, sequence=position.sequence)

    def _offset_ranges(
        self, session: Session, options: Options, position: GroupPosition, stretch: Stretch
    ) -> Iterator[tuple[int, Batch]]:
        """Yield the offset ranges from a position to the end of a stretch, each with its epoch."""
        share = options.partitions
        session.end_at(stretch.key_us_max)
        while stretch.sequence is None or position.sequence < stretch.sequence:
            offset_range = session.next_batch(
                position,
                max(1, options.max_rows_per_batch // share),
                max(1, options.max_bytes_per_batch // share),
            )
            if offset_range is None:
                return
            position = offset_range.end
            yield session.plan(offset_range.start, position)

    def _limit(self) -> GroupPosition | None:
        return GroupPosition.from_json(self.until) if self.until else None


def _check_there(ending: GroupPosition, session: Session) -> None:
    """Check that the sources have reached a position, unless a shard reads files and cannot tell."""
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
        options: the options; `client` is this task's client id.
        beside: client ids of the read's other tasks.

    Raises:
        ConfigError: the read begins at a cursor.
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
        # If the gateway cannot be reached, the lease ends by itself.
        with suppress(CanalGroupError):
            session.give_up()
        session.close()
