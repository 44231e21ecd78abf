"""A bounded read: what stands between two places, walked span by span by one consumer.

The client id lasts as long as the read: it is given up with its cursor at the end, so that no ring is kept
for a reader that does not come again. A read that fails is done again, from its beginning.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from pyspark.sql.datasource import InputPartition

from canal_group.batch import Batch
from canal_group.spark.options import CURSOR, EARLIEST, LATEST, Options, moment_us
from canal_group.spark.session import Session
from merge.errors import CanalGroupError, ConfigError
from merge.position import GroupPosition


@dataclass(frozen=True)
class Bounds(InputPartition):  # type: ignore[misc]  # pyspark is untyped here
    """Where a bounded read begins and ends, settled before any of it is read."""

    #: a group position's JSON
    start: str
    #: the one that it ends at, as a span; empty: at a key
    until: str
    #: greatest key, microseconds since 1970 UTC
    key_us_max: int

    @classmethod
    def of(cls, session: Session, options: Options) -> Bounds:
        """Return the bounds that a query names, as they are now.

        Raises:
            ConfigError: one is in the future.
        """
        now_us, ending = session.now_us(), options.ending_position
        moment = now_us + 1 if ending == LATEST else moment_us(ending)
        if moment is not None and moment > now_us + 1:
            raise ConfigError(f"endingPosition, {ending}, is in the future.", hint="End at latest.")
        start = session.begin().to_json()
        if moment is None:
            return cls(start, ending, 0)
        return cls(start, "", moment - 1)

    def walk(self, session: Session, options: Options) -> Iterator[tuple[int, Batch]]:
        """Yield the spans between the bounds, each with the epoch to read it under."""
        place = GroupPosition.from_json(self.start)
        if self.until:
            yield session.plan(place, GroupPosition.from_json(self.until))
            return
        session.end_at(self.key_us_max)
        while True:
            span = session.next_batch(place, options.max_rows_per_batch, options.max_bytes_per_batch)
            if span is None:
                return
            yield session.plan(place, span.end)
            place = span.end


@contextmanager
def bounded(options: Options) -> Iterator[Session]:
    """Hold the session of a bounded read.

    Raises:
        ConfigError: it begins at a cursor.
    """
    if options.starting_position == CURSOR:
        raise ConfigError(
            "A bounded read does not begin at a cursor: its client id lasts as long as the read.",
            hint="Set startingPosition to earliest, a time or a group position.",
        )
    session = Session(replace(options, starting_position=options.starting_position or EARLIEST))
    try:
        yield session
    finally:
        # Who cannot be told finds out: the lease ends.
        with suppress(CanalGroupError):
            session.give_up()
        session.close()
