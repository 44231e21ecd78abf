"""The ring against a list of headers, in both modes."""

import threading

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.defaults import ring_of
from support.group.builders import Tx, chunk_of, run_of
from support.soak import cases

from canal_group.actors.store.ring import RingStore
from canal_group.merge.errors import ShardUnavailable, UsageError
from canal_group.merge.values.header import Flag

JOIN_S = 30.0

transactions = st.builds(
    Tx,
    commit_us=st.integers(1, 99),
    rows=st.sampled_from([(1,), (1,), (1, 1), (3, 1, 2)]),
    ddl=st.booleans(),
    bytes_each=st.sampled_from([1, 10, 32, 500]),  # 32: exactly the bound of some rings
).map(lambda tx: Tx(tx.commit_us, (1,) if tx.ddl else tx.rows, tx.ddl, tx.bytes_each))
chunks = st.lists(transactions, max_size=4)


class RingMachine(RuleBasedStateMachine):
    @initialize(
        mode=st.sampled_from(["memory", "items"]),
        size=st.sampled_from([1, 2, 4, 8]),
        memunit=st.sampled_from([1, 16]),
    )
    def begin(self, mode, size, memunit):
        self.bounds = ring_of(mode, size, memunit)
        self.ring = RingStore(self.bounds)
        #: every header ever stored, as (commit, bytes, flags, file name), and the chunk and index it is from
        self.stored, self.origin = [], []
        self.ack = self.get = -1

    @property
    def put(self):
        return len(self.stored) - 1

    def held(self):
        return sum(size for _, size, _, _ in self.stored[self.ack + 1 :])

    def room_for(self, headers):
        """How many of the headers fit, told one by one."""
        slots, held, count = self.bounds.size - (self.put - self.ack), self.held(), 0
        for header in headers:
            if count == slots or (self.bounds.mode == "memory" and held >= self.bounds.bytes_max):
                break
            held += int(header["bytes"])
            count += 1
        return count

    def admit(self, chunk, begin, end):
        for index in range(begin, end):
            header = chunk.headers[index]
            told = (int(header[name]) for name in ("commit_us", "bytes", "flags"))
            self.stored.append((*told, chunk.names[header["file"]]))
            self.origin.append((chunk, index))

    @rule(transactions=chunks)
    def store(self, transactions):
        chunk = chunk_of(*transactions)
        if self.room_for(chunk.headers) == len(chunk.headers):
            self.ring.put(chunk)
            self.admit(chunk, 0, len(chunk.headers))

    @rule(transactions=chunks)
    def wait_for_room(self, transactions):
        """A put that waits is woken by each acknowledgement until all of its chunk is in."""
        chunk = chunk_of(*transactions)
        failed = []

        def put():
            try:
                self.ring.put(chunk)
            except ShardUnavailable as error:
                failed.append(error)

        done = 0
        writer = threading.Thread(target=put, daemon=True)
        writer.start()
        while done < len(chunk.headers):
            count = self.room_for(chunk.headers[done:])
            self.admit(chunk, done, done + count)
            done += count
            while self.get < self.put:
                taken = self.ring.get_within(JOIN_S)
                self.get += len(taken)
            assert self.ring.cursors == (self.ack, self.get, self.put), "more was admitted than had room"
            self.ring.ack(self.put)
            self.ack = self.put
        writer.join(JOIN_S)
        assert not writer.is_alive()
        assert not failed

    @rule(items=st.none() | st.integers(0, 9))
    def take(self, items):
        run = self.ring.get_within(0.0, items)
        expected = []
        for commit_us, _, flags, file in self.stored[self.get + 1 :]:
            full = items is not None and len(expected) >= items
            if expected and full:
                break
            expected.append((commit_us, flags, file))
        found = [
            (int(header["commit_us"]), int(header["flags"]), run.names[header["file"]])
            for header in run.headers
        ]
        assert found == expected
        assert run.headers["sequence"].tolist() == list(range(self.get + 1, self.get + 1 + len(found)))
        self.get += len(found)

    @rule(away=st.integers(-2, 10))
    def acknowledge(self, away):
        sequence = self.ack + away
        if sequence > self.get:
            with pytest.raises(UsageError):
                self.ring.ack(sequence)
            return
        self.ring.ack(sequence)
        self.ack = max(self.ack, sequence)

    @rule()
    def roll_back(self):
        self.ring.rollback()
        self.get = self.ack

    @rule(begin=st.integers(-1, 9), length=st.integers(0, 9))
    def fetch(self, begin, length):
        begin = self.ack + 1 + begin
        end = begin + length
        if begin <= self.ack or end > self.put + 1:
            with pytest.raises(UsageError):
                self.ring.fetch(begin, end)
            return
        parts = self.ring.fetch(begin, end)
        found = []
        for part in parts:
            assert part.header_begin < part.header_end
            assert part.first_sequence == begin + len(found)
            found += [(part.chunk, index) for index in range(part.header_begin, part.header_end)]
        assert [(id(chunk), index) for chunk, index in found] == [
            (id(chunk), index) for chunk, index in self.origin[begin:end]
        ]

    @invariant()
    def cursors_bytes_and_bounds_hold(self):
        if not hasattr(self, "ring"):
            return
        assert self.ring.cursors == (self.ack, self.get, self.put)
        assert self.ring.bytes_held == self.held()
        assert self.put - self.ack <= self.bounds.size
        if self.bounds.mode == "memory" and self.put > self.ack:
            # Checked before adding: without its last header the ring is below its bound.
            assert self.held() - self.stored[-1][1] < self.bounds.bytes_max
        kept = [(id(part.chunk), part.header_end) for part in self.ring._payload]
        needed = {id(chunk) for chunk, _ in self.origin[self.ack + 1 :]}
        assert {chunk for chunk, _ in kept} == needed, "a chunk is kept as long as one of its headers"

    @invariant()
    def the_first_position_is_where_the_last_acknowledged_header_ends(self):
        if not hasattr(self, "ring"):
            return
        position = self.ring.first_position()
        if self.ack < 0:
            assert position is None
            return
        chunk, index = self.origin[self.ack]
        header = chunk.headers[index]
        assert position.file == chunk.names[header["file"]]
        if header["flags"] & Flag.END:
            assert (position.offset, position.rows_into_transaction) == (header["end_offset"], 0)
        else:
            assert position.offset == header["begin_offset"]
            assert position.rows_into_transaction == header["row_end"]


TestRing = RingMachine.TestCase
TestRing.settings = settings(max_examples=cases(150), stateful_step_count=40, deadline=None)


def test_a_consumer_and_a_reader_on_threads_pass_everything_in_order():
    ring = RingStore(ring_of("memory", 8, 16))
    total, stored = 600, []
    run = run_of(*(Tx(commit_us) for commit_us in range(total)))

    def read():
        for begin in range(0, total, 5):
            transactions = [
                Tx(commit_us, bytes_each=1 + commit_us % 40) for commit_us in range(begin, begin + 5)
            ]
            ring.put(chunk_of(*transactions))

    def consume():
        while len(stored) < total:
            taken = ring.get_within(JOIN_S, items_max=3)
            stored.extend(taken.headers["commit_us"].tolist())
            ring.ack(int(taken.headers["sequence"][-1]))

    threads = [threading.Thread(target=work, daemon=True) for work in (read, consume)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(JOIN_S)
        assert not thread.is_alive()
    assert stored == run.headers["commit_us"].tolist()
    assert np.all(np.diff(stored) == 1)
    assert ring.bytes_held == 0
