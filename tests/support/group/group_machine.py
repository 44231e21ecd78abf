"""A group under random reports, losses, restarts, gets, acknowledgements, failed writes, slow consumers."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.defaults import batch_limits, group_settings
from support.group.builders import Source, Tx, World, all_idents, batch_idents

from canal_group.merge import events as ev
from canal_group.merge.calls.consumers import Get, Unsubscribe
from canal_group.merge.delivery.cursor_writes import OWN_CALL
from canal_group.merge.errors import (
    AckOutOfOrder,
    CanalGroupError,
    ConsumerActive,
    CoordinatorUnavailable,
    FencedError,
    NotSubscribed,
    RetryableError,
    RolledBack,
    UnknownBatch,
    UsageError,
)
from canal_group.merge.order.dead_shard import WAIT, DeadShard
from canal_group.merge.values.header import Flag
from canal_group.merge.values.member import Policy
from canal_group.merge.values.position import GroupPosition

CLIENTS = ("one", "two")
RING_SIZE = 4
EMPTY_MAX = 2
LEASE_US = 1_000
SKIP_AFTER_US = 400
SHARDS_MAX = 4
#: rounds in which everything that was begun must have ended: writes, openings, deliveries
ROUNDS_MAX = 200
transactions = st.builds(
    Tx,
    commit_us=st.integers(1, 12),
    rows=st.sampled_from([(1,), (1,), (1,), (0,), (5,), (2, 2), (1, 1, 1, 1, 1, 1), (0, 3)]),
    ddl=st.just(value=False),
    bytes_each=st.sampled_from([10, 500]),
    order_id=st.integers(0, 12),
)
statements = st.builds(Tx, commit_us=st.integers(1, 12), ddl=st.just(value=True))
sources = st.lists(transactions | statements, max_size=7) | st.lists(transactions, min_size=4, max_size=9)


class Consumer:
    """What one client id has seen, and what must hold for it."""

    def __init__(self, ids=()):
        self.epoch = 0
        #: where its first subscription began; None: not subscribed
        self.begin = None
        #: (batch, what it holds) that are delivered and not acknowledged, oldest first
        self.outstanding = []
        #: what it acknowledged, in order
        self.acked = []
        #: greatest key acknowledged, and greatest key that the cursor has passed: less, inside a transaction
        self.acked_us = self.passed_us = 0
        #: ids that were delivered
        self.ids = list(ids)

    def forget(self):
        self.outstanding = []

    def rewound(self):
        self.outstanding = []
        self.acked_us = self.passed_us


class GroupMachine(RuleBasedStateMachine):
    #: makes the world
    world_of = World

    @initialize(
        shards=st.lists(sources, min_size=1, max_size=3),
        skip=st.booleans(),
        isolation=st.booleans(),
        running=st.sampled_from(["", "one", "one two", "one two"]),
        ids_within_us=st.none() | st.integers(1, 6),
    )
    def begin(self, shards, skip, isolation, running, ids_within_us):
        limits = batch_limits(
            bytes_max=1_000, outstanding_max=3, ddl_isolation=isolation, empty_headers_max=EMPTY_MAX
        )
        self.sources = [Source(*shard, server=index) for index, shard in enumerate(shards)]
        names = tuple(f"s{index}" for index in range(len(shards)))
        self.world = self.world_of(
            self.sources,
            group_settings(
                "shop",
                names,
                limits=limits,
                lease_us=LEASE_US,
                dead_shard=DeadShard("skip_after", SKIP_AFTER_US) if skip else WAIT,
                ids_within_us=ids_within_us,
            ),
            ring_size=RING_SIZE,
        )
        #: the field by which headers are ordered
        self.key = "key_us" if ids_within_us is None else "order_key"
        self.world.forgets = False
        self.world.start()
        self.expected = all_idents(self.sources)
        self.consumers = {client: Consumer() for client in CLIENTS}
        #: acknowledgements and subscriptions whose write is under way: client -> call
        self.acking = {}
        self.subscribing = {}
        #: acknowledgements that may be written, and are written again: client -> (call, batch)
        self.unsure = {}
        #: of these, whose the store has although it did not say so
        self.there = set()
        if running:
            self.world.open_all()
        for client in running.split():
            self._subscribe(client, "x")
            self._write()

    # ---- shards ------------------------------------------------------------------------------------------

    @precondition(lambda self: self.world.opening)
    @rule(data=st.data())
    def open(self, data):
        shard = data.draw(st.sampled_from(sorted(self.world.opening)))
        self.world.open(shard)

    @precondition(lambda self: self.world.opening)
    @rule()
    def open_all(self):
        self.world.open_all()

    @rule(data=st.data(), count=st.integers(0, 4), low_watermark=st.booleans())
    def report(self, data, count, low_watermark):
        shard = data.draw(st.sampled_from(range(len(self.sources))))
        if shard not in self.world.opening:
            self._report(shard, count, low_watermark=low_watermark)

    @rule(count=st.integers(1, 3))
    def report_all(self, count):
        for shard in range(len(self.sources)):
            if shard not in self.world.opening:
                self._report(shard, count, low_watermark=True)

    def _report(self, shard, count, *, low_watermark):
        ring = self.world.rings[shard]
        moved = self.world.report(shard, count)
        if low_watermark:
            self.world.report(shard, 0, ring.source.latest_low_watermark(ring.at))
        return moved

    @rule(data=st.data(), count=st.integers(0, 3))
    def leave_behind(self, data, count):
        """All but one shard go on; time passes until the policy, if there is one, skips the silent one."""
        silent = data.draw(st.sampled_from(range(len(self.sources))))
        self.world.now_us += SKIP_AFTER_US + 1
        for shard in range(len(self.sources)):
            if shard != silent and shard not in self.world.opening:
                self._report(shard, count, low_watermark=True)
        self.tick(1)

    @rule(data=st.data(), low_watermark=st.integers(1, 15))
    def low_watermark_too_much(self, data, low_watermark):
        """A source whose clock is wrong: its transactions will be late."""
        shard = data.draw(st.sampled_from(range(len(self.sources))))
        if shard not in self.world.opening:
            self.world.report(shard, 0, low_watermark)

    @rule(data=st.data(), reopen=st.booleans())
    def lose(self, data, reopen):
        known = [shard for shard in range(len(self.sources)) if shard not in self.world.opening]
        if known:
            self._lose(data.draw(st.sampled_from(known)), reopen=reopen)

    def _lose(self, shard, *, reopen):
        self.world.lose(shard)
        self._rewound()
        if reopen:
            self.world.open_all()

    @rule(data=st.data())
    def lose_long_ago(self, data):
        shard = data.draw(st.sampled_from(range(len(self.sources))))
        generation = self.world.group.generation - 1
        assert self.world.tell(ev.ShardLost(shard, generation, "late news", self.world.now_us)) == []
        run = self.sources[shard].run(0, len(self.sources[shard].headers))
        assert self.world.tell(ev.ShardReported(shard, generation, run, 99, self.world.now_us)) == []

    @rule(data=st.data(), policy=st.sampled_from(Policy))
    def give_policy(self, data, policy):
        shard = data.draw(st.sampled_from(range(len(self.sources))))
        self._may_rewind(lambda: self._policy(shard, policy))

    def _policy(self, shard, policy):
        try:
            self.world.policy(f"s{shard}", policy)
        except UsageError:
            assert policy is Policy.SKIP

    def _may_rewind(self, do):
        generation = self.world.group.generation
        do()
        if self.world.group.generation != generation:
            self._rewound()

    @precondition(lambda self: len(self.sources) < SHARDS_MAX)
    @rule(source=sources)
    def join(self, source):
        """One more shard, from its beginning on, for consumers that are there and for those to come."""
        added = Source(*source, server=len(self.sources))
        self._may_rewind(lambda: self.world.add(added))
        self.expected[:] = all_idents(self.sources)
        for consumer in self.consumers.values():
            if consumer.begin is not None:
                consumer.begin.append(0)

    @rule(sure=st.integers(0, 3))
    def restart(self, sure):
        if sure:
            return
        for client in self.there:
            self._acked(client, self.unsure[client][1])
        for client, consumer in self.consumers.items():
            self.subscribing.pop(client, None)
            consumer.rewound()
            if client in self.acking:
                # Whether it was written is decided by the store: not, here.
                del self.acking[client]
        self.unsure, self.there = {}, set()
        self.world.epoch += 1
        self.world.restart()
        self.world.start()

    def _rewound(self):
        for consumer in self.consumers.values():
            consumer.rewound()

    # ---- consumers ---------------------------------------------------------------------------------------

    @rule(client=st.sampled_from(CLIENTS), holder=st.sampled_from("xxy"), at_once=st.booleans())
    def subscribe(self, client, holder, at_once):
        self._subscribe(client, holder)
        if at_once:
            self.world.open_all()
            self._finish_writes()

    def _subscribe(self, client, holder):
        if client in self.subscribing:
            return
        call = self.world.request_subscribe(client, holder)
        if call in self.world.answers:
            assert isinstance(self.world.answers[call], ConsumerActive | RetryableError)
            return
        generation = self.world.group.generation
        self.world.lease()
        self.consumers[client].forget()
        if self.world.group.generation != generation:
            self._rewound()
        self.subscribing[client] = call
        self._collect()

    @precondition(lambda self: self.world.saving)
    @rule(fails=st.booleans(), arrives=st.booleans())
    def write(self, fails, arrives):
        self._write(fails=fails, arrives=arrives)

    def _write(self, *, fails=False, arrives=False):
        """End a write. Where it fails its caller knows nothing: it arrives all the same, or not."""
        save = self.world.saving[0]
        client = save.client_id
        if arrives or not fails:
            self._check_forward(save)
        # An acknowledgement may wait for another write, of shards that joined: that one says nothing of it.
        call, batch = self.acking.get(client, (None, None))
        if call == save.number and fails:
            self.unsure[client] = call, batch
        elif call == save.number:
            # Its consumer asked again for what was unsure, and is told.
            self.unsure.pop(client, None)
        elif client in self.unsure:
            assert self.unsure[client][0] == save.number, "what is unsure is written before anything else"
        if fails and arrives and client in self.unsure:
            self.there.add(client)
        self.world.save(CoordinatorUnavailable("away") if fails else None, arrives=arrives)
        self._collect()
        if not fails:
            self.there.discard(client)
            if client in self.unsure:
                self._acked(client, self.unsure.pop(client)[1])

    def _finish_writes(self):
        for _ in range(ROUNDS_MAX):
            if not self.world.saving and not self.world.forgetting:
                return
            if self.world.saving:
                self._write()
            else:
                self._forget()
        raise AssertionError(f"one write brings forth the next: {self.world.saving}")

    @rule(client=st.sampled_from(CLIENTS))
    def unsubscribe(self, client):
        world, call = self.world, self.world.call()
        asked = ev.Asked(call, Unsubscribe(client, world.epochs.get(client, 0)), world.now_us)
        self._may_rewind(lambda: world.tell(asked))
        refused = isinstance(world.answers.get(call), CanalGroupError)
        assert refused or self._leaves(client) or client in self._deferring()
        # It may have ended a subscription that was not answered yet.
        self._collect()

    @precondition(lambda self: self.world.forgetting)
    @rule(fails=st.booleans(), arrives=st.booleans())
    def forget(self, fails, arrives):
        self._forget(fails=fails, arrives=arrives)

    def _forget(self, *, fails=False, arrives=False):
        """End what the store was asked to forget; it may have arrived though that fails."""
        client = self.world.forgetting[0].client_id
        self.world.forget(CoordinatorUnavailable("away") if fails else None, arrives=arrives)
        assert self._leaves(client) == fails
        if arrives or not fails:
            self.consumers[client] = Consumer(ids=self.consumers[client].ids)

    def _phases(self):
        clients = self.world.group.describe(self.world.now_us)["clients"]
        return {client["client_id"]: client["phase"] for client in clients}

    def _leaves(self, client):
        """Whether a client is given up, and the store has not confirmed it."""
        return self._phases().get(client) == "leaving"

    def _deferring(self):
        """Clients whose calls wait for a write that nobody asked for."""
        return {save.client_id for save in self.world.saving if save.number == OWN_CALL}

    def _check_forward(self, save):
        before = self.world.stored.get(save.client_id)
        if before is None or before.cursor is None:
            return
        assert save.cursor.sequence >= before.cursor.sequence
        for shard, position in before.cursor.shards.items():
            assert position <= save.cursor.shards[shard], "a cursor moved backwards"
            assert save.cursor.shards[shard].gtid_set.contains(position.gtid_set)

    def _collect(self):
        """Take note of what became of writes."""
        for client, call in list(self.subscribing.items()):
            if call in self.world.answers:
                del self.subscribing[client]
                answer = self.world.answers[call]
                if isinstance(answer, tuple):
                    consumer = self.consumers[client]
                    consumer.epoch, cursor = answer
                    if consumer.begin is None:
                        consumer.begin = [
                            source.index_after(cursor.shards.get(f"s{index}", source.start))
                            for index, source in enumerate(self.sources)
                        ]
        for client, (call, batch) in list(self.acking.items()):
            if call in self.world.answers:
                del self.acking[client]
                if isinstance(self.world.answers[call], GroupPosition):
                    self._acked(client, batch)

    def _acked(self, client, batch):
        consumer = self.consumers[client]
        consumer.acked.append((batch, batch_idents(batch)))
        consumer.passed_us = max(position.key_us for position in batch.ack.shards.values())
        lost = batch.generation != self.world.group.generation
        consumer.acked_us = consumer.passed_us if lost else int(batch.headers["key_us"][-1])
        consumer.outstanding = [one for one in consumer.outstanding if one.batch_id != batch.batch_id]

    @rule(client=st.sampled_from(CLIENTS), rows_max=st.integers(1, 6))
    def get(self, client, rows_max):
        self._get(client, rows_max)

    def _get(self, client, rows_max):
        if client in self.subscribing:
            return None
        try:
            batch = self.world.get(client, rows_max)
        except NotSubscribed:
            self.consumers[client].forget()
            return None
        except RolledBack:
            assert not self.consumers[client].outstanding
            return None
        except RetryableError:
            assert len(self.consumers[client].outstanding) >= 3 or self._leaves(client)
            return None
        if batch is not None:
            self._delivered(self.consumers[client], batch)
        return batch

    def _delivered(self, consumer, batch):
        assert not consumer.ids or batch.batch_id > consumer.ids[-1], "ids grow for ever"
        consumer.ids.append(batch.batch_id)
        keys = batch.headers[self.key]
        before = consumer.outstanding[-1] if consumer.outstanding else None
        # Cursors hold no keys of ids.
        acked = consumer.acked_us if self.key == "key_us" else 0
        lowest = int(before.headers[self.key][-1]) if before else acked
        assert all(keys[1:] >= keys[:-1]), "keys decrease in a batch"
        assert keys[0] >= lowest, "keys decrease"
        if before is not None:
            assert batch.start.sequence == before.end.sequence
            assert before.end.shards.items() <= batch.start.shards.items(), "who joined meanwhile is added"
        self._check_whole(before, batch)
        consumer.outstanding.append(batch)

    def _check_whole(self, before, batch):
        """After a fragment that is not the last one, the next header is its transaction's next fragment."""
        headers = list(batch.headers)
        if before is not None:
            headers.insert(0, before.headers[-1])
        for first, second in pairwise(headers):
            if not first["flags"] & Flag.END:
                assert first["shard"] == second["shard"], "a transaction is split by another"
                assert first["row_end"] == second["row_begin"]
                assert first["gtid_number"] == second["gtid_number"]
            else:
                assert second["flags"] & Flag.BEGIN, "a transaction without its beginning"

    @rule(client=st.sampled_from(CLIENTS), which=st.sampled_from([0, 0, 0, 1, 2]))
    def ack(self, client, which):
        self._ack(client, which)

    @rule(
        client=st.sampled_from(CLIENTS),
        rows_max=st.integers(1, 6),
        fails=st.sampled_from([False, False, True]),
        arrives=st.booleans(),
    )
    def get_and_ack(self, client, rows_max, fails, arrives):
        self._get(client, rows_max)
        self._ack(client)
        if not fails:
            self._finish_writes()
        elif self.world.saving:
            self._write(fails=True, arrives=arrives)

    def _ack(self, client, which=0):
        consumer = self.consumers[client]
        if which >= len(consumer.outstanding) or client in self.acking or client in self.subscribing:
            return
        batch = consumer.outstanding[which]
        before = self.world.group.describe(0)
        call = self.world.request_ack(batch.batch_id, client)
        answer = self.world.answers.get(call)
        if answer is None:
            assert which == 0
            self.acking[client] = call, batch
            return
        assert self.world.group.describe(0) == before, "a refused call changes nothing"
        if which:
            assert isinstance(answer, AckOutOfOrder | NotSubscribed | RetryableError)
        else:
            assert isinstance(answer, NotSubscribed | RetryableError)
        if isinstance(answer, NotSubscribed):
            consumer.forget()

    @rule(client=st.sampled_from(CLIENTS), which=st.integers(0, 2), reopen=st.booleans(), lose=st.booleans())
    def disturb_an_ack(self, client, which, reopen, lose):
        """A shard is lost, or another consumer comes, while the cursor store writes."""
        for _ in range(which):
            self._get(client, 3)
        self._ack(client)
        if lose and 0 not in self.world.opening:
            self._lose(0, reopen=reopen)
            self.report_all(2)
            self._get(client, 3)
        else:
            self._subscribe(client, "x")

    @rule(client=st.sampled_from(CLIENTS), far=st.integers(1, 5))
    def ack_nonsense(self, client, far):
        consumer = self.consumers[client]
        outstanding = {batch.batch_id for batch in consumer.outstanding}
        wrong = (consumer.ids[-1] if consumer.ids else 0) + far
        assert wrong not in outstanding
        before = self.world.group.describe(0)
        call = self.world.request_ack(wrong, client)
        assert isinstance(
            self.world.answers[call], UnknownBatch | RolledBack | NotSubscribed | RetryableError
        )
        assert self.world.group.describe(0) == before

    @rule(client=st.sampled_from(CLIENTS))
    def call_as_a_zombie(self, client):
        epoch = self.consumers[client].epoch
        if epoch < 2:
            return
        before = self.world.group.describe(0)
        call = self.world.call()
        self.world.tell(ev.Asked(call, Get(client, epoch - 1, 9, 0.0), self.world.now_us))
        allowed = RetryableError if self._leaves(client) else FencedError | NotSubscribed
        assert isinstance(self.world.answers[call], allowed)
        assert self.world.group.describe(0) == before

    @rule(client=st.sampled_from(CLIENTS), which=st.none() | st.integers(0, 2))
    def rollback(self, client, which):
        consumer = self.consumers[client]
        if client in self.subscribing or (which is not None and which >= len(consumer.outstanding)):
            return
        if any((save.client_id, save.number) == (client, OWN_CALL) for save in self.world.saving):
            return
        batch_id = None if which is None else consumer.outstanding[which].batch_id
        try:
            count = self.world.rollback(batch_id, client)
        except (NotSubscribed, RetryableError):
            return
        kept = which or 0
        assert count == len(consumer.outstanding) - kept
        consumer.outstanding = consumer.outstanding[:kept]

    @rule(after_us=st.integers(1, LEASE_US))
    def tick(self, after_us):
        holders = self._holders()
        self._may_rewind(lambda: self.world.tick(after_us))
        for client, holder in self._holders().items():
            if holder is None and holders[client] is not None:
                self.consumers[client].forget()

    def _holders(self):
        clients = self.world.group.describe(0)["clients"]
        return {client["client_id"]: client["holder"] for client in clients}

    # ---- what must hold ----------------------------------------------------------------------------------

    @invariant()
    def acknowledged_is_a_prefix_without_gap(self):
        for consumer in getattr(self, "consumers", {}).values():
            if consumer.begin is None:
                continue
            seen = list(dict.fromkeys(ident for _, batch in consumer.acked for ident in batch))
            for shard, expected in enumerate(self.expected):
                mine = [ident for ident in seen if ident[0] == shard]
                begin = consumer.begin[shard]
                assert mine == expected[begin : begin + len(mine)]

    @invariant()
    def nothing_is_freed_that_a_cursor_needs(self):
        """Every cursor is past a freed header, or a fragment of a transaction that a cursor is before."""
        if not hasattr(self, "world"):
            return
        group = self.world.group
        for shard, ring in enumerate(self.world.rings):
            if shard in self.world.opening or ring.generation != group.generation:
                continue
            for cursor in group._subscribers.cursors:
                position = cursor.shards.get(f"s{shard}", ring.source.start)
                needed = ring.source.index_after(position)
                for header in ring.source.headers[needed : ring.freed]:
                    whole = header["flags"] & Flag.BEGIN and header["flags"] & Flag.END
                    assert not whole, "a whole transaction was freed that a cursor is before"
                    assert header["gtid_number"] == ring.source.headers[needed]["gtid_number"]

    @invariant()
    def rings_are_opened_where_every_cursor_can_go_on(self):
        if not hasattr(self, "world"):
            return
        for shard, asked in self.world.opening.items():
            for cursor in self.world.group._subscribers.cursors:
                position = cursor.shards.get(f"s{shard}")
                assert position is None or asked.position is None or asked.position <= position

    def teardown(self):
        """Whatever happened: once everybody is well again, everybody gets everything."""
        if not hasattr(self, "world"):
            return
        for shard in range(len(self.sources)):
            self._may_rewind(lambda shard=shard: self._policy(shard, Policy.RESUME))
        for _ in range(2 * len(CLIENTS)):
            self._mend()
        assert all(holder is not None for holder in self._holders().values())
        for client, consumer in self.consumers.items():
            consumer.forget()
            self.world.rollback(None, client)
        self._drain()
        for consumer in self.consumers.values():
            seen = {ident for _, batch in consumer.acked for ident in batch}
            empty = 0
            for begin, expected, source in zip(consumer.begin, self.expected, self.sources, strict=True):
                missing = [index for index in range(begin, len(expected)) if expected[index] not in seen]
                assert not source.headers["rows"][missing].any(), "rows were lost"
                empty += len(missing)
            assert empty < EMPTY_MAX

    def _mend(self):
        """Open every shard, finish every write, and let every client id have a consumer."""
        for _ in range(ROUNDS_MAX):
            self.world.open_all()
            self._finish_writes()
            leaving = "leaving" in self._phases().values()
            if not self.unsure and not self.world.opening and not leaving:
                break
            if self.unsure or leaving:
                self.tick(1)
        else:
            raise AssertionError(f"{self.unsure} is not written again, or {self.world.opening} opened again")
        for client in CLIENTS:
            if self._holders().get(client) is None and client not in self.subscribing:
                self.world.now_us += 2 * LEASE_US
                self._subscribe(client, "x")

    def _drain(self):
        for _ in range(ROUNDS_MAX):
            moved = False
            for shard in range(len(self.sources)):
                moved |= self._report(shard, 99, low_watermark=True) > 0
            for client in CLIENTS:
                batch = self._get(client, 99)
                if batch is not None:
                    moved = True
                    self._ack(client)
                    self._finish_writes()
            if not moved:
                return
        raise AssertionError("it is delivered without end")
