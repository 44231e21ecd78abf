"""Page workers: the threads that read what a shard's snapshot asks for, each by a connection of its own."""

from __future__ import annotations

import logging
import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from canal_group.actors.ports import Host
from canal_group.actors.snapshot.load_limit import LoadLimit
from canal_group.actors.snapshot.page_connection import Hidden, PageConnection, Readable, TableRefused, passes
from canal_group.actors.snapshot.shard_snapshot import ShardSnapshot
from canal_group.actors.snapshot.work import Work
from canal_group.binlog.schema.ancestry import Ancestry
from canal_group.binlog.server.source import SourceAddress
from canal_group.binlog.snapshot.page_reader import GONE, TableAltered
from canal_group.binlog.snapshot.table_pages import WHOLE_BYTES_MAX, PageTooLarge
from canal_group.binlog.snapshot.visibility import SettledLog
from canal_group.merge.back_off import BackOff
from canal_group.merge.errors import CanalGroupError, ShardUnavailable, SourceUnavailable, SourceUnfit
from canal_group.merge.snapshot.cursor import SnapshotCursor, name_text
from canal_group.merge.snapshot.steps import PlanTable, ReadPage
from canal_group.merge.values.chunk import TableName

#: how long one waits for work before it looks whether there is any more, seconds
_TAKE_S: Final = 1.0
#: how often one that waits for the client looks, and how long it waits at most, seconds
_ROOM_S, _ROOM_MAX_S = 0.01, 0.5
#: limits of the pauses after a failure, and before a page that was read in vain is read again, seconds
_FIRST_PAUSE_S, _PAUSE_MAX_S = 0.1, 10.0
_AGAIN_FIRST_S, _AGAIN_MAX_S = 0.02, 2.0
_FRAMES_MAX: Final = 8
_WHOLE: Final = (
    "its rows cannot be read in parts, for lack of a primary key, or of a UNIQUE key without nulls, and have"
    f" more than {WHOLE_BYTES_MAX >> 20} MiB"
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PageSource:
    """Where pages come from, and what is known of tables."""

    shard: str
    address: SourceAddress
    #: returns consumers' name of a table; None: it is not kept
    select: Callable[[str, str], TableName | None]
    #: returns where the values of a table have come from; None: nothing is known
    ancestry: Callable[[TableName], Ancestry | None]
    hidden: Hidden
    #: tells what is visible of a server without GTIDs; None: such a server is not read
    settled: SettledLog | None
    #: most rows of a page of a table that has a key
    rows_max: int


@dataclass(frozen=True, slots=True)
class _Known:
    """A table as it was last looked at."""

    attempt: int
    version: int
    table: Readable


class PageWorkers:
    """Reads pages until the snapshot has ended; see the module.

    Args:
        source: see there.
        snapshot: asks for pages.
        cursor: which tables are read, and which of their rows.
        count: of threads.
        limit: of what they ask of the server.
        host: starts them.
    """

    def __init__(
        self,
        source: PageSource,
        snapshot: ShardSnapshot,
        cursor: SnapshotCursor,
        count: int,
        limit: LoadLimit,
        host: Host,
    ) -> None:
        self._source, self._snapshot, self._cursor = source, snapshot, cursor
        self._limit, self._host = limit, host
        self._stopped = host.event()
        self._lock = host.lock()
        self._connections: dict[int, PageConnection] = {}
        self._known: dict[TableName, _Known] = {}
        #: about how many rows tables have; replaced as a whole
        self._estimates: dict[TableName, int] = {}
        self._began_s = host.clock_s()
        #: what was read before is not read again
        self._done_before = {name for name, table in cursor.tables.items() if table.done}
        #: worker's number -> a description of the obstacle that the worker waits for; None: the worker does
        #: not wait
        self._waits: dict[int, str | None] = dict.fromkeys(range(count))
        for number in range(count):
            host.start(partial(self._run, number), f"snapshot-{source.shard}-{number}")

    def stop(self) -> None:
        """End them soon, and do not wait for it."""
        self._stopped.set()
        with self._lock:
            connections = list(self._connections.values())
        for each in connections:
            each.interrupt()

    def describe(self) -> dict[str, Any]:
        """Return how far they are as a JSON object; waits for no other thread."""
        rows, estimates = self._snapshot.rows, self._estimates
        names = [name for name in self._snapshot.tables.names if name_text(name) not in self._done_before]
        estimated = sum(estimates.get(name, 0) for name in names) if estimates else None
        took_s = max(self._host.clock_s() - self._began_s, 1e-3)
        left_s = None
        if self._snapshot.tables.ended:
            left_s = 0
        elif estimated is not None and 0 < rows < estimated:
            left_s = round((estimated - rows) / (rows / took_s))
        return {
            "rows_estimated": estimated,
            "left_s": left_s,
            "waits_for": next((text for text in self._waits.values() if text is not None), None),
        }

    # ---- in a worker's thread ------------------------------------------------------------------------------

    def _run(self, number: int) -> None:
        back_off = BackOff(_PAUSE_MAX_S)
        work: Work | None = None
        listed = number > 0
        while not self._stopped.is_set() and not self._snapshot.tables.ended:
            if listed and work is None:
                self._await_room()
                work = self._snapshot.take(_TAKE_S)
                if work is None:
                    continue
            try:
                connection = self._connection(number)
                if not listed:
                    self._list(connection)
                    listed = True
                else:
                    assert work is not None, "it was taken"
                    self._done(number, connection, work)
                    work = None
                self._waits[number] = None
                back_off.reset()
            except ShardUnavailable:
                # The ring was closed: the lane is read from another position.
                break
            except CanalGroupError as error:
                self._waits[number] = error.message
                self._stopped.wait(back_off.failed(_FIRST_PAUSE_S, random.random()))  # noqa: S311  no secret
        self._leave(number)

    def _await_room(self) -> None:
        """Wait for the client for a while; it may want more rows before it acknowledges any."""
        until_s = self._host.clock_s() + _ROOM_MAX_S
        while not self._snapshot.has_room and not self._stopped.is_set() and self._host.clock_s() < until_s:
            self._stopped.wait(_ROOM_S)

    def _done(self, number: int, connection: PageConnection, work: Work) -> None:
        """Do some work, or say why not.

        Raises:
            ShardUnavailable: the ring was closed.
            SourceUnavailable: the server does not answer now; do it again.
        """
        try:
            self._do(number, connection, work)
        except ShardUnavailable:
            raise
        except TableRefused as refused:
            self._snapshot.failed(work, str(refused))
        except CanalGroupError as error:
            if self._stopped.is_set() or passes(error):
                raise
            # An operator names a table to all shards, and some do not have it. A table that this shard has
            # listed and that is gone may have been renamed: then its rows were not read.
            absent = error.details.get("code") in GONE and self._cursor.wanted is not None
            self._snapshot.failed(work, connection.why(work.name, error), absent=absent)
        except Exception as error:  # noqa: BLE001  a thread's end must not be silent, whatever ended it
            # The text of an error that nobody foresaw may hold a value of the source.
            where = "".join(traceback.format_tb(error.__traceback__)[-_FRAMES_MAX:])
            kind = type(error).__name__
            _log.error("reader of pages failed: %s at\n%s", kind, where, extra={"shard": self._source.shard})
            self._snapshot.failed(work, f"{kind}: a defect of canal-group; the shard's log has the traceback")

    def _connection(self, number: int) -> PageConnection:
        """Return the worker's connection, a new one if the last one is closed."""
        connection = self._connections.get(number)
        if connection is not None and connection.open:
            return connection
        self._leave(number)
        source = self._source
        connection = PageConnection(source.address, source.settled, source.rows_max)
        with self._lock:
            self._connections[number] = connection
        if self._stopped.is_set():
            connection.interrupt()
        return connection

    def _leave(self, number: int) -> None:
        with self._lock:
            connection = self._connections.pop(number, None)
        if connection is not None:
            connection.close()

    def _list(self, connection: PageConnection) -> None:
        self._estimates = connection.estimates()
        if self._cursor.wanted is None:
            select = self._source.select
            self._snapshot.listed(name for name in connection.listed() if select(*name) is not None)

    def _do(self, number: int, connection: PageConnection, work: Work) -> None:
        match work.step:
            case PlanTable():
                self._plan(connection, work)
            case ReadPage() as step:
                self._read(number, connection, work, step)

    def _plan(self, connection: PageConnection, work: Work) -> None:
        self._pause(work.attempt - 1)
        try:
            self._snapshot.planned(work, connection.plan(self._readable(connection, work)))
        except TableAltered:
            self._snapshot.plan_missed(work)
        except CanalGroupError as error:
            # A table that was there may be dropped: the stream is not at its DROP yet.
            known = self._cursor.wanted is None or name_text(work.name) in self._cursor.tables
            if error.details.get("code") not in GONE or not known:
                raise
            self._snapshot.plan_missed(work)

    def _pause(self, attempt: int) -> None:
        """Wait before work that was done in vain is done again."""
        if attempt:
            self._stopped.wait(min(_AGAIN_FIRST_S * 2.0 ** min(attempt, 16), _AGAIN_MAX_S))

    def _read(self, number: int, connection: PageConnection, work: Work, step: ReadPage) -> None:
        self._pause(step.attempt)

        def say(text: str | None) -> None:
            self._waits[number] = text

        try:
            self._limit.wait(connection.excess, self._stopped, say)
        except SourceUnfit as error:
            # Nothing is read while nobody knows; a new session has rights that were granted since.
            self._leave(number)
            raise SourceUnavailable(str(error), shard=self._source.shard) from error
        if not self._snapshot.wants(work):
            return
        try:
            with self._lock:
                known = self._known.get(work.name)
            if known is None or (known.attempt, known.version) != (work.attempt, work.version):
                table = self._readable(connection, work)
            else:
                table = known.table
            if table.signature != self._snapshot.signature(work) or not table.takes(step.rows):
                self._snapshot.page_missed(work, other_key=True)
                return
            page = connection.page(table, step)
        except TableAltered:
            self._forget(work)
            self._snapshot.page_missed(work)
            return
        except PageTooLarge as large:
            if large.whole:
                raise TableRefused(_WHOLE) from large
            self._snapshot.page_missed(work)
            return
        self._limit.was_read(page.table.rows.num_rows)
        self._snapshot.page_read(work, page)

    def _readable(self, connection: PageConnection, work: Work) -> Readable:
        """Look at a table, and remember it."""
        name = work.name
        consumers = self._source.select(*name)
        if consumers is None:
            raise TableRefused("the instance's filter leaves it out")
        where = self._cursor.where.get(name_text(name), "")
        table = connection.readable(name, consumers, self._source.ancestry(name), where, self._source.hidden)
        with self._lock:
            self._known[name] = _Known(work.attempt, work.version, table)
        return table

    def _forget(self, work: Work) -> None:
        with self._lock:
            self._known.pop(work.name, None)
