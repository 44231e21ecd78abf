"""A ring that hands out only what is on the disk, against a list of headers: never more, and never less."""

import threading

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.deadline import await_true
from support.defaults import ring_of
from support.group.builders import Source, Tx
from support.soak import cases

from canal_group.actors.store.ring import RingStore
from canal_group.merge.values.chunk import Chunk
from canal_group.merge.values.header import Flag

transactions = st.lists(
    st.builds(Tx, commit_us=st.integers(1, 99), rows=st.sampled_from([(1,), (1, 1), (3, 1, 2)]))
    | st.builds(Tx, commit_us=st.just(1), page=st.just(True)),
    min_size=1,
    max_size=20,
)
SIZE = 8


class GatedRing(RuleBasedStateMachine):
    @initialize(transactions=transactions, gated=st.booleans())
    def begin(self, transactions, gated):
        self.source = Source(*transactions)
        self.ring = RingStore(ring_of("items", SIZE), gated=gated)
        #: counts of headers
        self.put = self.released = self.get = self.ack = 0
        #: count of transactions that the archive has, and the offset that is durable of each file
        self.durable, self.has = 0, {} if gated else dict.fromkeys(self.source.names, 1 << 62)
        self.gated = gated
        #: indexes of the pages that are not written
        self.unwritten = []

    @rule(count=st.integers(1, SIZE))
    def store(self, count):
        count = min(count, len(self.source.headers) - self.put, SIZE - (self.put - self.ack))
        for index in range(self.put, self.put + count):
            run = self.source.run(index, index + 1)
            page = bool(run.headers["flags"][0] & Flag.PAGE)
            self.unwritten += [index] if page else []
            self.ring.put(Chunk(run.headers, run.names, ()), written=not page)
            self.put += 1
            self.expect()

    @rule(count=st.integers(1, 3))
    def write(self, count):
        """The next pages are on the disk."""
        count = min(count, len(self.unwritten))
        self.unwritten = self.unwritten[count:]
        self.ring.wrote(count)
        self.expect()

    @rule(more=st.integers(0, 5))
    def become_durable(self, more):
        """The archive has `more` transactions; files before that one are whole."""
        self.durable = min(self.durable + more, len(self.source.ends))
        if self.durable and self.gated:
            last = self.source.ends[self.durable - 1]
            whole = {name: 1 << 62 for name in self.source.names if name < last.file}
            self.has = {**whole, last.file: last.offset}
            self.ring.release(self.has)
            self.expect()

    @rule()
    def lose_it(self):
        """What says where the archive ends is gone: what was released stays so, and nothing more is."""
        if self.gated:
            self.ring.release({})
            self.durable, self.has = 0, {}

    def waits_for_archive(self, index):
        header = self.source.headers[index]
        return header["end_offset"] > self.has.get(self.source.names[header["file"]], 0)

    def expect(self):
        while self.released < self.put and self.released not in self.unwritten:
            if self.waits_for_archive(self.released):
                break
            self.released += 1

    @rule(items=st.none() | st.integers(1, 5))
    def take(self, items):
        run = self.ring.get_within(0.0, items)
        count = self.released - self.get if items is None else min(self.released - self.get, items)
        expected = self.source.headers[self.get : self.get + count]
        assert run.headers["begin_offset"].tolist() == expected["begin_offset"].tolist()
        self.get += count

    @rule(away=st.integers(1, 5))
    def acknowledge(self, away):
        self.ack = min(self.ack + away, self.get)
        self.ring.ack(self.ack - 1)

    @rule()
    def roll_back(self):
        self.ring.rollback()
        self.get = self.ack

    @invariant()
    def what_is_held_is_named(self):
        if not hasattr(self, "ring"):
            return
        held = self.ring.first_held
        assert self.ring.has_news == (self.get < self.released)
        if self.released == self.put or self.released in self.unwritten:
            assert held is None
        else:
            header = self.source.headers[self.released]
            file = self.source.names[header["file"]]
            assert held == (self.put - self.released, file, int(header["end_offset"]))


TestGatedRing = GatedRing.TestCase
TestGatedRing.settings = settings(max_examples=cases(100), stateful_step_count=40, deadline=None)


def test_a_full_ring_that_waits_for_the_archive_is_not_short():
    """1. A put waits, and nothing can be acknowledged. 2. With the archive's progress, it can."""
    source = Source(*(Tx(commit_us) for commit_us in range(1, SIZE + 2)))
    ring, run = RingStore(ring_of("items", SIZE), gated=True), source.run(0, SIZE + 1)
    done = threading.Event()

    def put():
        ring.put(Chunk(run.headers, run.names, ()))
        done.set()

    threading.Thread(target=put, daemon=True).start()
    await_true(lambda: ring.describe()["full"], "it waits for room")
    assert not ring.short
    ring.release(dict.fromkeys(source.names, 1 << 62))
    assert ring.short
    ring.ack(int(ring.get_within(5.0).headers["sequence"][-1]))
    assert done.wait(5.0)
    assert len(ring.get_within(5.0)) == 1
