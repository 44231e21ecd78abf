"""The shard actor: reads one source for the streams of a group, and hands out headers and rows.

Every call carries the group's `epoch` and `generation`. Of two groups the shard serves the one with the newer
epoch. The generation says which of the group's streams it is; each has a ring and a reader, see `lane`.

A shard that gets no request for a while closes its source by itself. Its group was paused or cut off, and the
shards of the now active server read the same source under the same server id.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from canal_group.actors.ports import Host
from canal_group.actors.process.host import OS_HOST
from canal_group.actors.process.imports import freeze_imports
from canal_group.actors.process.log import ActorLog
from canal_group.actors.process.loop_thread import LoopThread
from canal_group.actors.shard.intake import Intake
from canal_group.actors.shard.intervals import INTERVALS, ShardIntervals
from canal_group.actors.shard.lane import Lane, not_open
from canal_group.actors.shard.report import ShardReport
from canal_group.actors.shard.shard_source import ShardSource
from canal_group.actors.shard.shard_wiring import ShardWiring
from canal_group.actors.store.rows import Payload
from canal_group.actors.transport.bind_address import certificate_where_reached, node_host
from canal_group.actors.transport.row_server import RowAddress, RowServer
from canal_group.actors.transport.row_ticket import RowTicket
from canal_group.actors.transport.rpc_server import RpcServer
from canal_group.actors.transport.rpc_wire import RpcAddress
from canal_group.binlog.server.dump_server.spare import SPARE
from canal_group.binlog.server.listener import Reader
from canal_group.binlog.server.source import SourceAddress
from canal_group.conf.stream_settings import REPLAYS_MAX
from canal_group.merge.errors import FencedError
from canal_group.merge.rows.row_key import RowKey
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.lane import LIVE, lane_of
from canal_group.merge.values.position import Position
from canal_group.merge.values.retention.kept_position import KeptPosition
from canal_group.merge.values.skips.skipped_event import SkippedEvent
from canal_group.merge.values.start import ShardStart

#: polls that wait at once: one of each stream of the group, and of the group before it
POLLS_MAX = 2 * (1 + REPLAYS_MAX)


class Shard:
    """One shard; `ShardActor` is the actor.

    Args:
        wiring: the shard's settings.
        host: the host that it runs on.
        make_reader: makes a reader that reports to an intake; None: the reader that the wiring names.
        intervals: at which it reports, checks and logs.
    """

    def __init__(
        self,
        wiring: ShardWiring,
        host: Host = OS_HOST,
        make_reader: Callable[[Intake], Reader] | None = None,
        intervals: ShardIntervals = INTERVALS,
    ) -> None:
        self._wiring = wiring
        self._host = host
        self._make_reader = make_reader
        self._intervals = intervals
        self._name = wiring.source.name
        self._live = self._made(wiring, live=True)
        #: by number, those of replays
        self._replays: dict[int, Lane] = {}
        #: newest epoch under which the shard was opened
        self._epoch = 0
        self._changing = host.lock()
        #: never set; the watch thread waits on it
        self._pause = host.event()
        self._asking = host.lock()
        self._rpc_server: RowServer | None = None
        self._rpc_address: RpcAddress | None = None
        host.start(self._watch, f"watch-{self._name}")

    def _made(self, wiring: ShardWiring, *, live: bool) -> Lane:
        return Lane(wiring, self._host, self._make_reader, self._intervals, live=live)

    @property
    def _source(self) -> ShardSource:
        return self._live.source

    def open(
        self,
        epoch: int,
        generation: int,
        position: Position | None,
        history: str | None = None,
        skips: Sequence[SkippedEvent] = (),
        read_to: Sequence[Position] = (),
        needed: Sequence[KeptPosition] = (),
    ) -> Position:
        """Hand out what follows a position under a new generation, in its lane; see `Lane.open`."""
        number, older = lane_of(generation), list[Lane]()
        with self._changing:
            if epoch < self._epoch:
                raise FencedError(
                    f"Shard {self._name} already serves epoch {self._epoch}.",
                    our_epoch=epoch,
                    current_epoch=self._epoch,
                )
            if epoch > self._epoch:
                self._epoch, older, self._replays = epoch, list(self._replays.values()), {}
            lane = self._live
            if number != LIVE:
                lane = self._replays.get(number) or self._made(self._wiring.replaying(number), live=False)
                self._replays[number] = lane
        self._end(older)
        return lane.open(epoch, generation, position, history, skips, read_to, needed)

    def close_lane(self, epoch: int, number: int) -> None:
        """Forget the ring of a replay, unless a group with a newer epoch opened the shard."""
        with self._changing:
            lane = self._replays.pop(number, None) if epoch == self._epoch else None
        if lane is not None:
            lane.end()

    def _lane(self, epoch: int, generation: int) -> Lane:
        """Return the lane of a generation.

        Raises:
            ShardUnavailable: there is none.
        """
        number = lane_of(generation)
        lane = self._live if number == LIVE else self._replays.get(number)
        if lane is None:
            raise not_open(self._name, epoch, generation)
        return lane

    def close(self, epoch: int) -> None:
        """Close the source and drop the rings, unless a group with a newer epoch opened it."""
        with self._changing:
            if epoch < self._epoch:
                return
            replays, self._replays = self._replays, {}
        self._end(replays.values())
        self._live.close(epoch)

    def _end(self, replays: Iterable[Lane]) -> None:
        """End replays in threads of their own: a replay that is being opened may wait for its source."""
        for lane in replays:
            self._host.start(lane.end, f"end-{self._name}")

    def _watch(self) -> None:
        """Close lanes for which no request has come for a long time; runs until the process ends."""
        while True:
            self._live.say_what_is_slow()
            self._live.close_if_silent()
            with self._changing:
                silent = [number for number, lane in self._replays.items() if lane.silent_in_s <= 0]
                ended = [self._replays.pop(number) for number in silent]
            self._end(ended)
            left_s = min(lane.silent_in_s for lane in (self._live, *list(self._replays.values())))
            watch_s = self._intervals.watch_s
            self._pause.wait(min(left_s, watch_s) if left_s > 0 else watch_s)

    def poll(self, epoch: int, generation: int, *more: Any) -> ShardReport:
        """Return new headers or a new low watermark, see `Lane.poll`."""
        return self._lane(epoch, generation).poll(epoch, generation, *more)

    def free(self, epoch: int, generation: int, sequence: int) -> None:
        """Drop everything up to and including `sequence`; a late call of an older generation does nothing."""
        number = lane_of(generation)
        lane = self._live if number == LIVE else self._replays.get(number)
        if lane is not None:
            lane.free(epoch, generation, sequence)

    def rpc_address(self) -> RpcAddress:
        """Return where a group can open the RPC connection by which it polls and frees."""
        with self._asking:
            if self._rpc_address is None:
                self._rpc_address = self._opened_rpc_server()
            return self._rpc_address

    def _opened_rpc_server(self) -> RpcAddress:
        polls = ThreadPoolExecutor(POLLS_MAX, thread_name_prefix="poll")
        #: by lane
        waiting = Counter[int]()

        async def poll(epoch: int, generation: int, items_max: int, wait_s: float, *more: Any) -> ShardReport:
            number, lane = lane_of(generation), self._lane(epoch, generation)
            if not waiting[number] and lane.reports_at_once(wait_s):
                # To pass it to a thread costs more than to answer it.
                return self.poll(epoch, generation, items_max, 0.0, *more)
            waiting[number] += 1
            try:
                return await asyncio.get_running_loop().run_in_executor(
                    polls, self.poll, epoch, generation, items_max, wait_s, *more
                )
            finally:
                waiting[number] -= 1
                if not waiting[number]:
                    del waiting[number]

        async def free(*arguments: Any) -> None:
            self.free(*arguments)

        host = node_host()
        opening = RpcServer({"poll": poll, "free": free}).open(host, certificate_where_reached(host))
        return LoopThread(f"line-{self._name}").run(opening).result()

    def rows_at(self) -> RowAddress:
        """Return where rows are handed out."""
        with self._asking:
            if self._rpc_server is None:
                self._rpc_server = RowServer(self._rows)
            return self._rpc_server.address

    def _rows(self, ticket: RowTicket) -> Iterator[Payload]:
        return self._lane(ticket.epoch, ticket.generation).rows(ticket)

    def describe(self, schema: str, table: str) -> list[bytes]:
        """Return a table's definitions, see `ShardSource.describe`."""
        return self._source.describe(TableName(schema, table))

    def locate(self, start: ShardStart) -> Position:
        """Return where a start is in the source's binlog now, see `ShardSource.locate`."""
        return self._source.locate(start)

    def beginning(self, *, latest: bool) -> tuple[bool, Position | None]:
        """Return where a client id without a cursor begins, see `ShardSource.beginning`."""
        return self._source.beginning(latest=latest)

    def changes_of(self, key: RowKey, bytes_max: int) -> dict[str, Any]:
        """Return where the last changes of a row are in the source's binlog, see `ShardSource.changes_of`."""
        return self._source.changes_of(key, bytes_max)

    def schema(self) -> list[dict[str, Any]]:
        """Return the definitions of the source's tables, see `ShardSource.schema`."""
        return self._source.schema()

    def rebuild_schema(self) -> dict[str, Any]:
        """Forget what is known of the source's tables, see `ShardSource.rebuild_schema`."""
        self._source.rebuild_schema()
        return {"shard": self._name}

    def status(self) -> dict[str, Any]:
        """Return the shard's state as a JSON object."""
        return {
            "shard": self._name,
            "source": self._source.location,
            "failover": self._source.failover(),
            "definitions": self._source.definitions(),
            "pid": os.getpid(),
            "arrow_bytes": pa.total_allocated_bytes(),
            **self._live.describe(),
            "replays": [lane.describe() for lane in list(self._replays.values())],
        }


class ShardActor(Shard):
    """One shard in a process of its own.

    A plain class that `canal_group.actors.driver.launch` turns into an actor.
    """

    def __init__(self, wiring: ShardWiring, log: ActorLog) -> None:
        freeze_imports()
        log.set_up()
        self._log = log
        if isinstance(wiring.source, SourceAddress) and wiring.source.dump_window_bytes_max:
            SPARE.prepare()
        super().__init__(wiring)

    def __repr__(self) -> str:
        """Return where the actor's output comes from, see `ActorLog`."""
        return self._log.text
