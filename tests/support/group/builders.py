"""Sources, headers and a small world around a group, for tests.

A `Source` is one shard's binlog as a fixed list of transactions. A `World` acts as the shell: it opens
shards, keeps the contents of their rings, stores cursors, grants leases, and records every answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

import numpy as np
from support.defaults import group_settings

from canal_group.merge import events as ev
from canal_group.merge import instructions as do
from canal_group.merge.calls.batch import Batch
from canal_group.merge.calls.consumers import Ack, Get, GetRange, Rollback, SubscribeAt, Touch
from canal_group.merge.calls.operators import GivePolicy, RemoveShard
from canal_group.merge.calls.resume import Resume
from canal_group.merge.errors import CanalGroupError, PositionRefused
from canal_group.merge.group import Group, GroupSettings
from canal_group.merge.replay.replaying_group import ReplayingGroup
from canal_group.merge.values.chunk import Chunk
from canal_group.merge.values.ddl_mark import DdlMark
from canal_group.merge.values.header import HEADER, Flag, HeaderRun, Headers
from canal_group.merge.values.lane import LIVE, lane_of
from canal_group.merge.values.member import Policy
from canal_group.merge.values.offset_range import OffsetRange
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.merge.values.retention.kept_position import KeptPosition

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
#: bytes of binlog that each transaction takes, and transactions of one binlog file
STEP, TRANSACTIONS_A_FILE = 100, 3


@dataclass(frozen=True)
class Tx:
    """One transaction: its commit time, and the row changes of each of its fragments."""

    commit_us: int
    rows: tuple[int, ...] = (1,)
    ddl: bool = False
    bytes_each: int = 100
    #: greatest global id that its first fragment with rows writes; 0: none
    order_id: int = 0
    #: of a DDL statement on a table
    mark: DdlMark | None = None
    #: it is a page of a snapshot instead, after the transaction before it
    page: bool = False
    #: how far the shard's snapshot is from it on; None: as before
    snapshot: str | None = None


class Source:
    """One shard's binlog. Headers have files, offsets, ordinals and GTIDs; the timeline sets the sequences.

    Args:
        gtid_source: MariaDB's "domain-server"; default: MySQL's uuid with `server` as its last digit.
    """

    def __init__(
        self, *transactions: Tx, name: str = "bin", server: int = 0, gtid_source: str | None = None
    ) -> None:
        self.transactions = transactions
        files = sum(not tx.page for tx in transactions) // TRANSACTIONS_A_FILE + 1
        gtid_source = UUID[:-1] + str(server) if gtid_source is None else gtid_source
        self.names = (*(f"{name}.{number:06}" for number in range(1, files + 1)), gtid_source)
        if any(tx.page for tx in transactions):
            self.names += ("",)
        self.start = Position(self.names[0], 4)
        found: list[tuple[int, ...]] = []
        self.ends: list[Position] = []
        #: by index of the header
        self.marks: dict[int, DdlMark] = {}
        self.snapshots: dict[int, str] = {}
        number = -1
        for tx in transactions:
            if tx.snapshot is not None:
                self.snapshots[len(found)] = tx.snapshot
            if tx.page:
                self._add_page(tx, found)
                continue
            number += 1
            file, index = divmod(number, TRANSACTIONS_A_FILE)
            begin, row = 4 + index * STEP, 0
            if tx.mark is not None:
                self.marks[len(found)] = tx.mark
            for part, rows in enumerate(tx.rows):
                last = part == len(tx.rows) - 1
                flags = (
                    (Flag.BEGIN if part == 0 else 0) | (Flag.END if last else 0) | (Flag.DDL if tx.ddl else 0)
                )
                end = begin + STEP if last else begin + 1 + part
                found.append(
                    (
                        0,
                        0,
                        flags,
                        rows,
                        row,
                        row + rows,
                        tx.bytes_each,
                        tx.commit_us,
                        0,
                        file,
                        begin,
                        end,
                        files,
                        number + 1,
                        tx.order_id if rows and not any(tx.rows[:part]) else 0,
                        0,
                    )
                )
                row += rows
            self.ends.append(Position(self.names[file], begin + STEP))
        self.headers: Headers = np.array(found, dtype=HEADER)

    def _add_page(self, tx: Tx, found: list[tuple[int, ...]]) -> None:
        """Add a page's header where the headers end."""
        after, (rows,) = self.ends[-1] if self.ends else self.start, tx.rows
        row, flags, file = after.page_rows, Flag.BEGIN | Flag.END | Flag.PAGE, self.names.index(after.file)
        ordinals, times = (rows, row, row + max(rows, 1), tx.bytes_each), (tx.commit_us, 0)
        log = (file, after.offset, after.offset, len(self.names) - 1, 0, 0, 0)
        found.append((0, 0, flags, *ordinals, *times, *log))
        self.ends.append(replace(after, page_rows=row + max(rows, 1)))

    def index_after(self, position: Position) -> int:
        """Return the index of the first header after a position between two transactions."""
        for index, header in enumerate(self.headers):
            begin = self.names[header["file"]], int(header["begin_offset"])
            seen = header["flags"] & Flag.PAGE and header["row_end"] <= position.page_rows
            if begin > (position.file, position.offset) or (
                begin == (position.file, position.offset) and not seen
            ):
                return index
        return len(self.headers)

    def run(self, begin: int, end: int, first_sequence: int = 0) -> HeaderRun:
        """Return headers `begin <= index < end` as a ring returns them."""
        headers = self.headers[begin:end].copy()
        headers["sequence"] = np.arange(first_sequence, first_sequence + len(headers))
        marks = {first_sequence + at - begin: mark for at, mark in self.marks.items() if begin <= at < end}
        texts = {
            at + first_sequence - begin: text for at, text in self.snapshots.items() if begin <= at < end
        }
        return HeaderRun(headers, self.names, marks, texts)

    def latest_low_watermark(self, index: int) -> int:
        """Return the greatest valid low watermark after `index` headers; in a transaction, its time."""
        return int(self.headers["commit_us"][index:].min(initial=2**60))


def run_of(*transactions: Tx, first_sequence: int = 0) -> HeaderRun:
    """Return a run with all headers of some transactions."""
    source = Source(*transactions)
    return source.run(0, len(source.headers), first_sequence)


def chunk_of(*transactions: Tx) -> Chunk:
    """Return a chunk of some transactions, without their rows."""
    run = run_of(*transactions)
    return Chunk(run.headers, run.names, ())


def brief(headers: Headers) -> list[tuple[int, int, int]]:
    """Return (shard, key_us, sequence) of headers."""
    return [(int(h["shard"]), int(h["key_us"]), int(h["sequence"])) for h in headers]


IDENT = ("begin_offset", "row_begin", "row_end")
#: what identifies a header of a source in every delivery
Ident = tuple[int, int, int, int, int]


def idents(headers: Headers, names: Sequence[str]) -> list[Ident]:
    """Return (shard, file number, begin_offset, row_begin, row_end) of headers."""
    return [(int(h["shard"]), int(names[h["file"]][-6:]), *(int(h[name]) for name in IDENT)) for h in headers]


@dataclass
class FakeRing:
    """A shard's ring, in terms of its source's headers."""

    source: Source
    generation: int = 0
    #: index of the first header that it held; sequences restart with each opening
    begin: int = 0
    #: index of the next header to report
    at: int = 0
    #: index of the first header that is not freed
    freed: int = 0
    sequence_base: int = 0

    def sequence(self, index: int) -> int:
        """Return the sequence of a header of the source."""
        return self.sequence_base + index - self.begin


@dataclass
class World:
    """A group with an environment that the test controls. Nothing happens by itself.

    `tell` executes instructions without an answer (freeing, releasing) at once. Openings, leases and writes
    wait in `opening`, `leasing` and `saving` until the test completes them.
    """

    sources: list[Source]
    settings: GroupSettings
    epoch: int = 1
    now_us: int = 0
    #: headers a ring holds; None: no bound
    ring_size: int | None = None
    group: Group = field(init=False)
    rings: list[FakeRing] = field(init=False)
    answers: dict[int, Any] = field(default_factory=dict)
    opening: dict[int, do.OpenShard] = field(default_factory=dict)
    #: the same, and the rings, of replays, by lane and shard
    replay_opening: dict[tuple[int, int], do.OpenShard] = field(default_factory=dict)
    #: by shard_index, what its archive was told to keep
    archived: dict[int, tuple[KeptPosition, ...]] = field(default_factory=dict)
    replay_rings: dict[tuple[int, int], FakeRing] = field(default_factory=dict)
    leasing: list[do.LeaseConsumer] = field(default_factory=list)
    saving: list[do.SaveCursor] = field(default_factory=list)
    #: clients that the store was asked to forget, and whether it does so at once
    forgetting: list[do.ForgetClient] = field(default_factory=list)
    forgets: bool = True
    #: the decisions on DDL that are being written, and those that are stored
    deciding: do.SaveDdl | None = None
    decided: str | None = None
    #: whether writing them succeeds at once
    decides: bool = True
    #: every instruction, in order
    done: list[do.Instruction] = field(default_factory=list)
    stored: dict[str, do.SaveCursor] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    #: shards that were ended
    closed: list[int] = field(default_factory=list)
    #: what a replay's shards bring instead of `sources`, by shard: with pages
    paged: dict[int, Source] = field(default_factory=dict)
    calls: int = 0

    def __post_init__(self) -> None:
        self.restart()

    @classmethod
    def of(cls, *sources: Source, start: bool = True, **settings: Any) -> World:
        """Return a world of these sources, started and with all shards open unless specified otherwise."""
        names = tuple(f"s{index}" for index in range(len(sources)))
        world = cls(list(sources), group_settings("shop", names, **settings))
        if start:
            world.start()
            world.open_all()
        return world

    # ---- the server --------------------------------------------------------------------------------------

    def restart(self) -> None:
        """Lose the group with its state; `start` continues from what was stored."""
        self.group = (ReplayingGroup if self.settings.replays_max else Group)(self.settings, self.epoch)
        self.rings = [FakeRing(source) for source in self.sources]
        self.replay_rings, self.replay_opening = {}, {}
        self.opening, self.leasing, self.saving, self.forgetting = {}, [], [], []
        self.deciding = None

    def start(self, *consumers: ev.ConsumerState) -> None:
        """Tell the group that it is active, with the stored subscriptions."""
        known = consumers or tuple(
            ev.ConsumerState(
                client,
                save.filter,
                save.cursor,
                "",
                self.epochs.get(client, 0),
                save.dropped,
                save.losses,
                save.quiet_since,
                save.lasting,
                save.unread,
            )
            for client, save in self.stored.items()
        )
        self.tell(ev.Started(self.now_us, known, self.decided))

    def tell(self, event: ev.Event) -> list[do.Instruction]:
        """Give the group an event and execute its instructions."""
        instructions = self.group.handle(event)
        self.group.validate()
        for instruction in instructions:
            self._do(instruction)
        return instructions

    def _do(self, instruction: do.Instruction) -> None:  # noqa: C901, PLR0912 - one case an instruction
        self.done.append(instruction)
        match instruction:
            case do.OpenShard(shard, generation, _) if lane_of(generation) != LIVE:
                self.replay_opening[lane_of(generation), shard] = instruction
            case do.OpenShard(shard, _, _):
                self.opening[shard] = instruction
            case do.CloseLane(lane):
                for shard in range(len(self.sources)):
                    self.replay_opening.pop((lane, shard), None)
                    self.replay_rings.pop((lane, shard), None)
            case do.KeepArchived(shard, needed):
                self.archived[shard] = needed
            case do.FreeRing(shard, generation, sequence):
                self.free(shard, generation, sequence)
            case do.LeaseConsumer():
                self.leasing.append(instruction)
            case do.SaveCursor():
                assert all(save.client_id != instruction.client_id for save in self.saving), (
                    "two writes at once"
                )
                self.saving.append(instruction)
            case do.ForgetClient():
                self.forgetting.append(instruction)
                if self.forgets:
                    self.forget()
            case do.SaveDdl():
                assert self.deciding is None, "two writes at once"
                self.deciding = instruction
                if self.decides:
                    self.decide()
            case do.CloseShard(shard):
                self.opening.pop(shard, None)
                self.closed.append(shard)
            case do.ReleaseConsumer():
                pass
            case do.Reply(call, value):
                self.answer(call, value)
            case do.Refuse(call, error):
                assert isinstance(error, CanalGroupError), "a refusal says why"
                self.answer(call, error)
            case _:
                assert_never(instruction)

    def decide(self, *, refused: bool = False, arrives: bool = False) -> None:
        """Complete or refuse the write of decisions on DDL; with `arrives` only the answer was lost."""
        assert self.deciding is not None, "decisions are being written"
        asked, self.deciding = self.deciding, None
        if arrives or not refused:
            self.decided = asked.text
        self.tell(ev.DdlNotSaved(self.now_us) if refused else ev.DdlSaved(asked.version, self.now_us))

    def answer(self, call: int, value: Any) -> None:
        """Record the answer to a call."""
        assert call not in self.answers, "a call is answered twice"
        self.answers[call] = value

    def free(self, shard: int, generation: int, sequence: int) -> None:
        """Free a shard's ring."""
        lane = lane_of(generation)
        ring = self.rings[shard] if lane == LIVE else self.replay_rings[lane, shard]
        assert generation == ring.generation
        freed = ring.begin + sequence - ring.sequence_base + 1
        assert ring.freed <= freed <= ring.at, "only what was handed out can be freed"
        ring.freed = freed

    # ---- shards ------------------------------------------------------------------------------------------

    def open(self, shard: int) -> None:
        """Open a shard at the requested position, as a server does that lists its files."""
        asked = self.opening.pop(shard)
        source = self.sources[shard]
        position = asked.position or source.start
        if self._refuses(source, asked):
            return
        begin = source.index_after(position)
        self.rings[shard] = FakeRing(source, asked.generation, begin, begin, begin, 10 * asked.generation)
        self.tell(ev.ShardOpened(shard, asked.generation, position, self.now_us))

    def _refuses(self, source: Source, asked: do.OpenShard) -> bool:
        """Refuse a position in a file that the source does not list; return whether it did."""
        listed = asked.position is None or asked.position.file in source.names
        if not listed:
            error = PositionRefused("It has no such file.")
            self.tell(ev.ShardFailed(asked.shard, asked.generation, error, self.now_us))
        return not listed

    def open_all(self) -> None:
        """Open every shard that was asked to open."""
        for shard in sorted(self.opening):
            self.open(shard)

    def replay(self, server: str = "") -> None:
        """Open what replays asked for, and make it report everything, as `open` and `report_all` do."""
        for (lane, shard), asked in sorted(self.replay_opening.items()):
            source = self.paged.get(shard, self.sources[shard])
            assert asked.position is not None, "a replay begins at a cursor"
            if self._refuses(source, asked):
                continue
            begin = source.index_after(asked.position)
            self.replay_rings[lane, shard] = FakeRing(source, asked.generation, begin, begin, begin)
            self.tell(ev.ShardOpened(shard, asked.generation, asked.position, self.now_us))
        self.replay_opening.clear()
        for (lane, shard), ring in sorted(self.replay_rings.items()):
            end, source = len(ring.source.headers), ring.source
            run = source.run(ring.at, end, ring.sequence(ring.at)) if end > ring.at else None
            ring.at = end
            low_us = source.latest_low_watermark(end)
            if (lane, shard) in self.replay_rings:
                self.tell(ev.ShardReported(shard, ring.generation, run, low_us, self.now_us, server))

    def report(
        self,
        shard: int,
        count: int | None = None,
        low_watermark_us: int | None = None,
        source_us: int | None = None,
    ) -> int:
        """Make a shard report its next headers (`count` None: all) that its ring allows; return how many."""
        ring = self.rings[shard]
        end = len(ring.source.headers) if count is None else min(ring.at + count, len(ring.source.headers))
        if self.ring_size is not None:
            end = min(end, ring.freed + self.ring_size)
        run = ring.source.run(ring.at, end, ring.sequence(ring.at)) if end > ring.at else None
        moved, ring.at = end - ring.at, end
        report = ev.ShardReported(
            shard, ring.generation, run, low_watermark_us, self.now_us, source_us=source_us
        )
        self.tell(report)
        return moved

    def full(self, shard: int) -> None:
        """Make a shard report that its ring is full."""
        ring = self.rings[shard]
        self.tell(ev.ShardReported(shard, ring.generation, None, None, self.now_us, full=True))

    def report_all(self) -> None:
        """Make every shard report everything, and a low watermark past all of it."""
        for shard, source in enumerate(self.sources):
            self.report(shard)
            if self.rings[shard].at == len(source.headers):
                self.report(shard, 0, source.latest_low_watermark(len(source.headers)))

    def lose(self, shard: int, reason: str = "gone") -> None:
        """Lose a shard's ring."""
        self.tell(ev.ShardLost(shard, self.rings[shard].generation, reason, self.now_us))

    def add(self, source: Source, start: Position | None = None, name: str = "") -> dict[str, Any]:
        """Add a shard, named by its index unless a name is given; return the answer."""
        name = name or f"s{len(self.sources)}"
        self.sources.append(source)
        self.rings.append(FakeRing(source))
        self.settings = replace(self.settings, shards=(*self.settings.shards, name))
        return self._operate(lambda call: ev.ShardAdded(call, name, start, self.now_us))

    def remove(self, name: str, *, now: bool = False, until_us: int = 0) -> dict[str, Any] | None:
        """Remove a shard; return the answer, None if there is none yet.

        Args:
            name: of the shard.
            now: whether what is not acknowledged is dropped.
            until_us: the time of its source's clock; 0: not known.
        """
        if until_us and name in self.settings.shards:
            shard = self.settings.shards.index(name)
            self.report(shard, 0, source_us=until_us)
        return self._operate(lambda call: ev.Asked(call, RemoveShard(name, now), self.now_us))

    def policy(self, name: str, policy: Policy) -> dict[str, Any]:
        """Set whether a shard holds the group up; return the shard's status."""
        return self._operate(lambda call: ev.Asked(call, GivePolicy(name, policy), self.now_us))

    def _operate(self, make: Callable[[int], ev.Event]) -> Any:
        call = self.call()
        self.tell(make(call))
        return self.result(call) if call in self.answers else None

    def status(self, shard: int) -> dict[str, Any]:
        """Return the group's status of a shard."""
        found: dict[str, Any] = self.group.describe(self.now_us)["shards"][shard]
        return found

    # ---- consumers ---------------------------------------------------------------------------------------

    def call(self) -> int:
        """Return a new call."""
        self.calls += 1
        return self.calls

    def lease(self) -> None:
        """Grant the oldest requested lease."""
        asked = self.leasing.pop(0)
        epoch = self.epochs[asked.client_id] = self.epochs.get(asked.client_id, 0) + 1
        self.tell(ev.ConsumerLeased(asked.number, asked.client_id, epoch, self.now_us))

    def save(self, error: CanalGroupError | None = None, *, arrives: bool = False) -> None:
        """Complete or refuse the oldest requested write of the cursor store.

        With `arrives` an error means that the answer was lost: the store has the write.
        """
        asked = self.saving.pop(0)
        if error is None or arrives:
            self.stored[asked.client_id] = asked
        if error is None:
            self.tell(ev.CursorSaved(asked.number, asked.client_id))
        else:
            self.tell(ev.CursorNotSaved(asked.number, asked.client_id, error))

    def forget(self, error: CanalGroupError | None = None, *, arrives: bool = False) -> None:
        """Complete or refuse the oldest requested removal of a client from the store; like `save`."""
        asked = self.forgetting.pop(0)
        if error is None or arrives:
            self.stored.pop(asked.client_id, None)
        if error is None:
            self.tell(ev.ClientForgotten(asked.number, asked.client_id))
        else:
            self.tell(ev.ClientNotForgotten(asked.number, asked.client_id, error))

    def request_subscribe(
        self,
        client: str = "c",
        holder: str = "h",
        resume: Resume | None = None,
        *,
        may_disturb: bool = True,
        start: GroupPosition | None = None,
        move: bool = False,
        table_filter: str = "",
        ends: Mapping[str, Position] | None = None,
        **how: bool,
    ) -> int:
        """Ask for a subscription; return the call."""
        call = self.call()
        self.tell(
            ev.Asked(
                call,
                SubscribeAt(
                    client,
                    holder,
                    table_filter,
                    resume=resume,
                    may_disturb=may_disturb,
                    start=start,
                    move=move,
                    ends=ends,
                    **how,
                ),
                self.now_us,
            )
        )
        return call

    def subscribe(
        self,
        client: str = "c",
        holder: str = "h",
        resume: Resume | None = None,
        *,
        start: GroupPosition | None = None,
        move: bool = False,
        table_filter: str = "",
        ends: Mapping[str, Position] | None = None,
        **how: bool,
    ) -> GroupPosition:
        """Subscribe, with lease and write, and return the cursor."""
        call = self.request_subscribe(
            client, holder, resume, start=start, move=move, table_filter=table_filter, ends=ends, **how
        )
        if self.leasing:
            self.lease()
        if self.opening:
            self.open_all()
        if self.saving:
            self.save()
        epoch, cursor = self.result(call)
        assert epoch == self.epochs[client]
        assert isinstance(cursor, GroupPosition)
        return cursor

    def tell_alive(self, client: str) -> None:
        """Give a sign of life of a client's consumer."""
        call = self.call()
        self.tell(ev.Asked(call, Touch(client, self.epochs[client]), self.now_us))
        self.result(call)

    def request_get(self, client: str = "c", rows_max: int = 10_000, seen_id: int | None = None) -> int:
        """Ask for a batch; return the call."""
        call, epoch = self.call(), self.epochs.get(client, 0)
        self.tell(ev.Asked(call, Get(client, epoch, rows_max, 0.0, seen_id), self.now_us))
        return call

    def get(self, client: str = "c", rows_max: int = 10_000, seen_id: int | None = None) -> Batch | None:
        """Get a batch without waiting for one."""
        call = self.request_get(client, rows_max, seen_id)
        self.tell(ev.GetTimedOut(call, client))
        batch = self.result(call)
        assert batch is None or isinstance(batch, Batch)
        return batch

    def request_range(
        self,
        offset_range: OffsetRange,
        client: str = "c",
        *,
        may_rewind: bool = True,
        may_disturb: bool = True,
    ) -> int:
        """Ask for an offset range; return the call."""
        call, epoch = self.call(), self.epochs.get(client, 0)
        self.tell(
            ev.Asked(
                call,
                GetRange(client, epoch, offset_range, 0.0, may_rewind, may_disturb=may_disturb),
                self.now_us,
            )
        )
        return call

    def offset_range(
        self, offset_range: OffsetRange, client: str = "c", *, may_rewind: bool = True
    ) -> Batch | None:
        """Get an offset range without waiting for missing headers."""
        call = self.request_range(offset_range, client, may_rewind=may_rewind)
        self.tell(ev.GetTimedOut(call, client))
        batch = self.result(call)
        assert batch is None or isinstance(batch, Batch)
        return batch

    def request_ack(self, batch_id: int, client: str = "c") -> int:
        """Ask for an acknowledgement; return the call."""
        call = self.call()
        self.tell(ev.Asked(call, Ack(client, self.epochs.get(client, 0), batch_id), self.now_us))
        return call

    def ack(self, batch_id: int, client: str = "c") -> GroupPosition:
        """Acknowledge a batch, with the write, and return the new cursor."""
        call = self.request_ack(batch_id, client)
        if call not in self.answers:
            self.save()
        cursor = self.result(call)
        assert isinstance(cursor, GroupPosition)
        return cursor

    def rollback(self, batch_id: int | None = None, client: str = "c") -> int:
        """Roll batches back; return how many."""
        call = self.call()
        epoch = self.epochs.get(client, 0)
        self.tell(ev.Asked(call, Rollback(client, epoch, batch_id), self.now_us))
        count = self.result(call)
        assert isinstance(count, int)
        return count

    def tick(self, after_us: int, *, reachable: bool = True) -> None:
        """Advance time; consumers can reach the group or not."""
        self.now_us += after_us
        self.tell(ev.Ticked(self.now_us, reachable))

    def result(self, call: int) -> Any:
        """Return the answer to a call; a refusal is raised."""
        value = self.answers[call]
        if isinstance(value, CanalGroupError):
            raise value
        return value

    def asked(self, kind: type[Any]) -> list[Any]:
        """Return the instructions of one kind so far."""
        return [instruction for instruction in self.done if isinstance(instruction, kind)]


def batch_idents(batch: Batch) -> list[Ident]:
    """Return the headers of a batch."""
    return idents(batch.headers, batch.names)


def drain(world: World, client: str, rows_max: int = 10_000) -> list[Ident]:
    """Read and acknowledge everything that there is for a client; return the headers."""
    found: list[Ident] = []
    while (batch := world.get(client, rows_max)) is not None:
        found += batch_idents(batch)
        world.ack(batch.batch_id, client)
    return found


def all_idents(sources: Iterable[Source]) -> list[list[Ident]]:
    """Return the headers of each source, by shard."""
    found: list[list[Ident]] = []
    for shard, source in enumerate(sources):
        headers = source.headers.copy()
        headers["shard"] = shard
        found.append(idents(headers, source.names))
    return found
