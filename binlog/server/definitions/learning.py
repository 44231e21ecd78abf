"""Learning: what a source shows of tables, and from where on that holds.

A server is asked where its binlog ends, what a table is, and where the binlog ends then. With the statements
up to there it is known from which one on the answer holds. If one of them came between the two questions, it
is not known whether the answer has it, and the table is asked again: that table only.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from canal_group.binlog.history.facts import Change, LogPosition
from canal_group.binlog.history.history import SchemaHistory
from canal_group.binlog.schema.catalog_entry import ShownTable
from canal_group.binlog.schema.definition import SourceName
from canal_group.binlog.server.definitions.present import PresentReader
from canal_group.binlog.server.dump.packet_source import PacketSource
from canal_group.merge.errors import RetryableError, SourceUnavailable
from canal_group.merge.values.position import Position

_log = logging.getLogger(__name__)

#: how often a table is asked again because it was changed meanwhile
_TRIES = 5
#: how long after a failure tables are read again, seconds
_AGAIN_S = 5.0


@dataclass(slots=True)
class LearningPace:
    """How many tables are read at a time, and for how long."""

    #: tables that are asked between two looks at the end of the binlog
    batch: int = 200
    #: seconds for which tables are read before the first row, between two items, and while the source is idle
    first_s: float = 2.0
    between_s: float = 0.05
    idle_s: float = 0.5


class Learning:
    """Asks one server for tables, for one stream.

    The arguments `begin` and `position` of its methods say where the stream is: where the open transaction
    begins, and where the event that is being read ends.

    Args:
        reader: asks the server.
        pace: of what is not needed at once.
    """

    def __init__(self, reader: PresentReader, pace: LearningPace) -> None:
        self._reader = reader
        self._pace = pace
        #: up to where every statement is a fact of the history, if that is after where the stream is
        self._read_to: LogPosition | None = None
        self._total = 0
        self._said_s = self._again_s = 0.0

    def statements(
        self,
        begin: Position,
        position: LogPosition,
        end: LogPosition,
        ahead: Callable[[], PacketSource | None] = lambda: None,
    ) -> list[Change]:
        """Return the statements from a position, or from where they are known already, to one after it.

        Args:
            begin: see the class.
            position: see the class.
            end: the other position.
            ahead: returns a source of what the stream will read, if that begins at `begin`.

        Raises as `PresentReader.changes`.
        """
        read_to = self._read_to
        known = read_to is not None and read_to.reaches(position)
        after = read_to if known and read_to is not None else position
        if after.reaches(end):
            return []
        if known:
            at = Position(after.file, after.offset)
            if at.file == begin.file:
                at = replace(begin, offset=after.offset)
            changes = self._reader.changes(at, end, after=after)
        else:
            changes = self._reader.changes(begin, end, after=after, ahead=ahead())
        if changes is None:
            raise SourceUnavailable(
                f"The binlog of {self._reader.address} ends before {end}, where it said that it ends.",
                shard=self._reader.address.name,
            )
        self._read_to = end
        return changes

    def catch_up(
        self, history: SchemaHistory, begin: Position, position: LogPosition, end: LogPosition
    ) -> None:
        """Add the statements up to a position that a history lacks. Raises as `PresentReader.changes`."""
        changes = [history.touching(change) for change in self.statements(begin, position, end)]
        with history.lock:
            for change in changes:
                if change.touches:
                    history.insert(change)

    def learn(self, history: SchemaHistory, name: SourceName, begin: Position, position: LogPosition) -> bool:
        """Ask what a table is; return whether the server shows it.

        Raises:
            SourceUnavailable, SourceUnfit: the server does not answer or refuses, or the definition changes
                all the time.
            PositionPurged: the server has purged what is read.
        """
        with self._reader.asking() as asked:
            for _ in range(_TRIES):
                before, shown, after = asked.end(), asked.show(name), asked.end()
                if shown is None:
                    history.hide(name)
                    return False
                self.catch_up(history, begin, position, after)
                with history.lock:
                    if history.learn(shown, before):
                        history.pass_to(position)
                        return True
        raise SourceUnavailable(
            f"Table {name} at {self._reader.address} is changed faster than its definition is read.",
            shard=self._reader.address.name,
        )

    def read_first(self, history: SchemaHistory, begin: Position, position: LogPosition) -> None:
        """Read the tables of a history that begins, for a while. Raises as `learn`."""
        self._total = len(history.unread)
        self._read(history, begin, position, self._pace.first_s)

    def read_some(
        self, history: SchemaHistory, begin: Position, position: LogPosition, *, idle: bool
    ) -> bool:
        """Read some of the tables that have not been read; return whether any was.

        It never raises because the server does not answer: what is needed at once is asked for by `learn`.
        """
        if not history.unread or time.monotonic() < self._again_s:
            return False
        try:
            return self._read(history, begin, position, self._pace.idle_s if idle else self._pace.between_s)
        except RetryableError as error:
            self._again_s = time.monotonic() + _AGAIN_S
            _log.warning("tables are not read: %s", error, extra={"shard": self._reader.address.name})
            return False

    def _read(self, history: SchemaHistory, begin: Position, position: LogPosition, budget_s: float) -> bool:
        until, some = time.monotonic() + budget_s, False
        with self._reader.asking() as asked:
            while history.unread and time.monotonic() < until:
                names = list(history.unread.values())[: self._pace.batch]
                before = asked.end()
                answers = [(name, asked.show(name)) for name in names]
                self.catch_up(history, begin, position, asked.end())
                with history.lock:
                    for name, shown in answers:
                        self._take(history, name, shown, before)
                    history.pass_to(position)
                some = True
                self._say(history)
        return some

    @staticmethod
    def _take(
        history: SchemaHistory, name: SourceName, shown: ShownTable | None, before: LogPosition
    ) -> None:
        if shown is None:
            history.hide(name)
        elif not history.learn(shown, before):
            history.postpone(name)

    def _say(self, history: SchemaHistory) -> None:
        now_s = time.monotonic()
        if history.unread and now_s < self._said_s + 1.0:
            return
        self._said_s = now_s
        self._total = max(self._total, len(history.unread))
        _log.info(
            "definitions of %d of %d tables are read",
            self._total - len(history.unread),
            self._total,
            extra={"shard": self._reader.address.name},
        )
