"""A consumer with a copy of the sources: it adds what it gets, acknowledges, and goes back to its cursor."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from canal_group.merge.calls.batch import Batch
from canal_group.merge.calls.call import Call
from canal_group.merge.calls.consumers import Ack, Get, SubscribeAt
from canal_group.merge.calls.operators import (
    PauseSnapshot,
    ReadAgain,
    ResumeSnapshot,
    Steering,
    StopSnapshot,
)
from canal_group.merge.errors import (
    AckOutOfOrder,
    CanalGroupError,
    FencedError,
    NotSubscribed,
    RetryableError,
    RolledBack,
    ServerUnavailable,
    UnknownBatch,
    UsageError,
)
from canal_group.merge.values.header import Flag
from canal_group.merge.values.position import GroupPosition, Position
from simulation.loop import MS, Loop
from simulation.network import Network
from simulation.process import Process
from simulation.snapshots.copy import Copy, ShardCopy, require
from simulation.snapshots.group import GroupServer
from simulation.snapshots.shard import Fetched, Told
from simulation.snapshots.source import Source

ANSWER_US = 1_500 * MS
GET_US = 300 * MS
RETRY_US = 50 * MS
#: after these it begins again at its cursor
_PASSING = (NotSubscribed, FencedError, RetryableError, RolledBack, UnknownBatch, AckOutOfOrder)
#: from the epoch of the server on which a batch was delivered to a batch id
_EPOCH_BITS = 32


class _Held(NamedTuple):
    """A batch that is not acknowledged."""

    batch_id: int
    #: what it had at the last end of a transaction, and where that is
    copy: Copy
    ack: str
    #: where the batch ends, and what it had there
    end: tuple[str, Copy]


class Consumer(Process):
    """One consumer of a client id; it runs for ever.

    Args:
        loop: its time.
        network: between it and the group.
        group: serves it.
        client_id: its own.
        sources: by the shards' names.
        depth: batches that it holds before it acknowledges the oldest.
        snapshot: whether it begins with the rows that there are; if not, it has them.
        told: counts.
    """

    def __init__(
        self,
        loop: Loop,
        network: Network,
        group: GroupServer,
        client_id: str,
        sources: dict[str, Source],
        depth: int,
        *,
        snapshot: bool,
        told: Told,
    ) -> None:
        super().__init__(loop, client_id)
        self._network, self._group, self._client_id = network, group, client_id
        self._sources, self._depth, self._snapshot, self._told = sources, depth, snapshot, told
        #: what it had at each cursor, by the places of the shards; it outlives the process
        self._copies: dict[str, Copy] = {}
        #: by shard the server of its last page, and the pages that came from there, by their places
        self._pages: dict[str, tuple[str, dict[tuple[Any, ...], Fetched]]] = {}
        #: by shard how often they were forgotten
        self._forgotten = Counter[str]()
        #: probability that it rolls back
        self.fickle = 0.0
        #: whether it gets as much as it can
        self.hurries = False
        #: whether an operator has steered its snapshot
        self.was_steered = False
        #: the consumer's copy of the tables, and the copy at its last acknowledgement
        self.copy: Copy | None = None
        self.acknowledged: Copy | None = None

    def begin(self) -> None:
        """Forget everything but what is durable."""
        self.copy = self.acknowledged = None
        #: what operators ask for, in their order
        self._steering = deque[object]()
        self._held: deque[_Held] = deque()
        self._at = ""
        self.spawn(self._live())

    def forget_pages(self, shard: str) -> None:
        """Note that pages of a shard may come again with other rows, or at other places."""
        self._pages.pop(shard, None)
        self._forgotten[shard] += 1

    def _forget_all(self) -> None:
        for shard in self._sources:
            self.forget_pages(shard)

    # ---- life ------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        while True:
            try:
                await self._subscribe()
                while True:
                    await self._turn()
            except _PASSING as error:
                self.note("begins again: {}", error)
                await self.sleep(RETRY_US)
            except CanalGroupError as error:
                require(False, "{}: {}", self.name, error)

    async def _subscribe(self) -> GroupPosition:
        self._held.clear()
        self.copy = self.acknowledged = None
        call = SubscribeAt(self._client_id, self.name, "", snapshot=self._snapshot)
        self._epoch, cursor = await self._give(call)
        self._seen_id = 0
        if not self._copies:
            copy = Copy.at(dict(cursor.shards), self._sources, has_rows=not self._snapshot)
            self._copies[location_of(cursor)] = copy
        # Where the first batch begins is known with it: inside a transaction, perhaps.
        self.copy, self._at = self._find(cursor), ""
        self.acknowledged = self.copy.clone()
        return cursor

    def _find(self, start: GroupPosition) -> Copy:
        """Return the copy that it had at a position, or before it if nothing between has rows."""
        location = location_of(start)
        if location in self._copies:
            return self._copies[location].clone()
        best: Copy | None = None
        most: tuple[int, list[tuple[str, int, int]]] = (-1, [])
        for copy in self._copies.values():
            ahead = [copy.shards[name].passed(at, self._sources[name]) for name, at in start.shards.items()]
            if all(each is not None for each in ahead):
                found = copy.clone()
                found.shards = dict(zip(start.shards, ahead, strict=True))  # type: ignore[arg-type]
                if _progress(copy) > most:
                    best, most = found, _progress(copy)
        require(best is not None, "{}: nothing was acknowledged at {}", self.name, location)
        assert best is not None
        return best

    def _go_to(self, start: GroupPosition) -> None:
        """Have what it had where a batch begins."""
        location, copy = location_of(start), self._find(start)
        for shard, position in start.shards.items():
            mine = copy.shards[shard]
            # Inside a transaction a position has the cursor of its beginning.
            if position.snapshot != mine.text and not position.rows_into_transaction:
                self._have_snapshot(mine, shard, position)
        self._copies[location] = copy.clone()
        self.copy, self.acknowledged, self._at = copy, copy.clone(), location
        counts = {shard: (each.count, each.part, each.page_rows) for shard, each in copy.shards.items()}
        self.note("goes on after {}", counts)

    def _have_snapshot(self, mine: ShardCopy, shard: str, position: Position) -> None:
        """Have another snapshot than the one that it knows."""
        told = (self.name, shard, position.snapshot, mine.text)
        require(self.was_steered, "{}: {}'s snapshot is {} and not {}", *told)
        mine.steered(position.snapshot)

    async def _turn(self) -> None:
        if self.loop.chance.random() < self.fickle:
            self.note("rolls back")
            raise NotSubscribed("It begins again.")
        batch = None
        if len(self._held) < self._depth:
            rows_max = 64 if self.hurries else self.loop.chance.randrange(1, 12)
            call = Get(self._client_id, self._epoch, rows_max, GET_US / 1e6, self._seen_id)
            batch = await self._give(call)
        if batch is not None:
            await self._take(batch)
        if self._held and (batch is None or len(self._held) >= self._depth):
            batch_id, copy, ack, end = self._held[0]
            # It is durable before it is acknowledged; inside a transaction the group may go on there.
            self._copies[ack] = copy.clone()
            self._copies[end[0]] = end[1]
            await self._give(Ack(self._client_id, self._epoch, batch_id))
            self.acknowledged = copy
            self._held.popleft()

    async def _take(self, batch: Batch) -> None:
        self.note("gets {}", [_told(header) for header in batch.headers])
        if self.copy is None or not (self._held or self._is_at(batch.start)):
            # What was acknowledged inside a transaction may come again; or the snapshot was steered.
            self._go_to(batch.start)
        require(
            location_of(batch.start) == self._at,
            "{}: {} follows {}",
            self.name,
            location_of(batch.start),
            self._at,
        )
        copy = self.copy
        assert copy is not None, "it is subscribed"
        self._seen_id = batch.batch_id
        if batch.batch_id >> _EPOCH_BITS != self._group.machine.epoch:
            raise ServerUnavailable("The server of the batch has ended.")
        done = self._held[-1].copy if self._held else self.acknowledged
        assert done is not None
        done, _ = await self._add(copy, batch, done)
        self._require_at(done, batch.ack)
        self._told.batches += 1
        self._at = location_of(batch.end)
        self._held.append(_Held(batch.batch_id, done, location_of(batch.ack), (self._at, copy.clone())))

    async def _add(self, copy: Copy, batch: Batch, done: Copy) -> tuple[Copy, list[Fetched]]:
        """Add the rows of a batch to a copy; return the copy at the last end of a transaction, and the rows.

        Args:
            copy: what it had before the batch.
            batch: what it got.
            done: what it had at the last end of a transaction before.
        """
        # Rows on their way may be of pages that are forgotten meanwhile.
        forgotten = self._forgotten.copy()
        rows = self._network.call(self, self._group, "rows", batch.headers, batch.generation, batch.shards)
        found = await self.within(rows, ANSWER_US, ServerUnavailable("No rows came."))
        for header, came in zip(batch.headers, found, strict=True):
            shard = batch.shards[header["shard"]]
            source = self._sources[shard]
            server = next(each for each in source.servers if each.uuid == came.server)
            known = self._forgotten[shard] == forgotten[shard]
            self._look_at(copy.shards[shard], shard, header, batch.names, came, known=known)
            copy.shards[shard].take(source, server, header, batch.names, came)
            copy.take(came)
            self._told.rows += len(came.rows)
            if header["flags"] & Flag.PAGE:
                self._told.reads += len(came.rows)
                self._told.marks += len(came.statements)
            if header["flags"] & Flag.END:
                done = copy.clone()
        return done, found

    def _require_at(self, copy: Copy, cursor: GroupPosition) -> None:
        """Require that a copy is what a cursor says."""
        for shard, position in cursor.shards.items():
            mine = copy.shards[shard]
            told = (shard, position.snapshot, mine.text)
            require(position.snapshot == mine.text, "{}: the cursor is {} and not {}", *told)
            server = next(each for each in self._sources[shard].servers if position.is_of(each.uuid))
            require(server.count_at(position.file, position.offset) == mine.count, "{}: is ahead", shard)

    def _look_at(
        self,
        mine: ShardCopy,
        shard: str,
        header: Any,
        names: Sequence[str],
        came: Fetched,
        *,
        known: bool,
    ) -> None:
        """Require that pages which it was given before come again where they were, with their rows.

        Args:
            mine: what it has of the shard.
            shard: its name.
            header: what comes.
            names: to which it points.
            came: its rows.
            known: whether no page of the shard was forgotten meanwhile.
        """
        if not known or self._group.forgets_cursors:
            # Pages that were acknowledged are gone, and their cursor may be.
            return
        server = came.server
        if self._pages.get(shard, ("", {}))[0] != server or mine.location[0] != server:
            # Where it goes on from another server's position, what it did not acknowledge is read anew.
            self._pages[shard] = server, {}
        pages, here = self._pages[shard][1], (mine.count, *mine.location[1:], mine.page_rows)
        position: tuple[Any, ...] = (mine.count + 1,)
        if header["flags"] & Flag.PAGE:
            file = names[header["file"]]
            position = (mine.count, file, int(header["begin_offset"]), int(header["row_begin"]))
            there = pages.setdefault(position, came)
            same = (there.rows, there.statements) == (came.rows, came.statements)
            require(same, "{}: the page at {} is {} and was {}", shard, position, came, there)
        lacking = [each for each in pages if here <= each < position]
        require(not lacking, "{}: pages at {} do not come again", shard, lacking)

    def _is_at(self, start: GroupPosition) -> bool:
        """Return whether it has what is before a batch."""
        assert self.copy is not None, "it has something"
        return location_of(start) == self._at and all(
            at.rows_into_transaction or at.snapshot == self.copy.shards[name].text
            for name, at in start.shards.items()
        )

    # ---- asking ------------------------------------------------------------------------------------------

    async def _give(self, call: Call[Any]) -> Any:
        away = ServerUnavailable("The group did not answer.", retry_after_s=0.1)
        answer = self._network.ask(self, self._group, "give", call)
        return await self.within(answer, round(call.wait_s * 1e6) + ANSWER_US, away)

    async def steer(self, what: str) -> None:
        """Steer its snapshot, as an operator does."""
        client_id = self._client_id
        calls: dict[str, Steering] = {
            "pause": PauseSnapshot(client_id),
            "resume": ResumeSnapshot(client_id),
            "again": ReadAgain(client_id, "app.t"),
            "part": ReadAgain(client_id, "app.u", "id > 102"),
            "stop": StopSnapshot(client_id),
        }
        turn, self.was_steered = object(), True
        self._steering.append(turn)
        # Who steers next waits for the answer: a call that is repeated later would undo what came between.
        while self._steering[0] is not turn:
            await self.sleep(RETRY_US)
        self._forget_all()
        await self._steer(what, calls[what])
        self._steering.popleft()

    async def _steer(self, what: str, call: Steering) -> None:
        for _ in range(20):
            try:
                await self._give(call)
            except UsageError as error:
                self.note("cannot {}: {}", what, error)
                return
            except CanalGroupError:
                await self.sleep(RETRY_US)
            else:
                self._forget_all()
                self.note("is steered: {}", what)
                return


def _told(header: Any) -> str:
    page = " page" if header["flags"] & Flag.PAGE else ""
    where = f"{header['begin_offset']}+{header['row_begin']}"
    return f"s{header['shard']}{page} {where} ({header['rows']})"


def _progress(copy: Copy) -> tuple[int, list[tuple[str, int, int]]]:
    shards = copy.shards.values()
    return sum(each.count for each in shards), [(*each.location[1:], each.page_rows) for each in shards]


def location_of(cursor: GroupPosition) -> str:
    """Return where a cursor is, whatever its snapshot."""
    return ", ".join(f"{name} {at.server} {at}" for name, at in sorted(cursor.shards.items()))
