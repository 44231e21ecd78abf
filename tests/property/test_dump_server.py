"""What a dump server retains, where its readers attach, and what it may claim, against a list of events."""

import struct

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.soak import cases

from canal_group.binlog.dump_window.block import BLOCK_OVERHEAD_BYTES, Block
from canal_group.binlog.dump_window.idle import Idle
from canal_group.binlog.dump_window.readers import Readers
from canal_group.binlog.dump_window.window import Uncovered, Window, WindowPosition

HEAD, MAGIC_SIZE = 19, 4
LIMIT = 5 * BLOCK_OVERHEAD_BYTES


def packet(size, end, mark):
    """Return an event of `size` bytes that ends at `end` of its file; `mark` tells it from all others."""
    event = struct.pack("<IBIIIH", 0, 2, 1, size, end % 2**32, 0) + mark.to_bytes(4, "little")
    event += bytes(size - len(event))
    return (len(event) + 1).to_bytes(3, "little") + b"\0\0" + event


class DumpServerMachine(RuleBasedStateMachine):
    """Blocks of events are appended, readers attach anywhere and are sent bytes in any portions."""

    @initialize(offset=st.sampled_from([4, 900, 2**32 - 50]))
    def begin(self, offset):
        self.window = Window(LIMIT, "bin.000008", offset)
        self.readers = Readers(self.window, LIMIT)
        self.number, self.offset = 8, offset
        #: everything that was ever appended
        self.stream = b""
        #: (file number, offset) -> bytes of the stream before it; the latest one counts
        self.boundaries = {(8, offset): 0}
        #: (file number, offset) inside of events
        self.inside = set()
        self.got, self.began, self.marks = {}, {}, 0
        #: whether the format description of the last file has come
        self.described = False

    @property
    def file(self):
        return f"bin.{self.number:06}"

    @precondition(lambda self: not self.described)
    @rule()
    def describe(self):
        """The description is in the file if the dump has begun before it; else it was made for the dump."""
        self.marks += 1
        begin, self.offset = self.offset, 104 if self.offset == MAGIC_SIZE else self.offset
        packets = packet(100, self.offset if self.offset == 104 else 0, self.marks)
        self.stream += packets
        self.window.append(Block(self.file, begin, self.offset, packets, b"", self.description))
        self.boundaries[self.number, self.offset] = len(self.stream)
        self.described = True

    @property
    def description(self):
        return f"description {self.number}".encode()

    def sent_to(self, reader):
        """How many bytes of the stream a reader has been sent, with those before it began."""
        return self.began[reader] + len(self.got[reader])

    @precondition(lambda self: self.described)
    @rule(
        sizes=st.lists(st.tuples(st.integers(23, 90), st.sampled_from([0, 0, 0, 7])), min_size=1, max_size=4)
    )
    def append(self, sizes):
        begin, packets = self.offset, b""
        for size, left_out in sizes:
            at = self.offset + left_out
            self.boundaries[self.number, at] = len(self.stream) + len(packets)
            self.marks += 1
            packets += packet(size, at + size, self.marks)
            self.offset = at + size
            self.inside |= {(self.number, at + 1), (self.number, self.offset - 1)}
            self.boundaries[self.number, self.offset] = len(self.stream) + len(packets)
        self.stream += packets
        self.window.append(Block(self.file, begin, self.offset, packets, self.description, self.description))

    @rule()
    def rotate(self):
        self.number += 1
        self.marks += 1
        self.described = False
        packets = packet(40, 0, self.marks)
        self.stream += packets
        self.offset = MAGIC_SIZE
        self.window.append(Block(self.file, MAGIC_SIZE, MAGIC_SIZE, packets))
        self.boundaries[self.number, MAGIC_SIZE] = len(self.stream)

    @rule(data=st.data())
    def attach(self, data):
        (number, offset), at = data.draw(st.sampled_from(sorted(self.boundaries.items())))
        found = self.window.find(f"bin.{number:06}", offset)
        if isinstance(found, WindowPosition):
            reader = len(self.began)
            self.readers.attach(reader, found)
            self.began[reader], self.got[reader] = at, b""
            # A reader needs the description of its file, unless that is what comes next.
            comes = offset == MAGIC_SIZE or (number == self.number and not self.described)
            assert found.description == (b"" if comes else f"description {number}".encode())
        else:
            assert found is Uncovered.OLDER, "a position of the binlog is never unknown, nor ahead"
            retained = sum(len(block.packets) for block in self.window.blocks(self.window.first))
            assert at <= len(self.stream) - retained, "it is before what is retained"

    @rule(data=st.data())
    def not_a_position(self, data):
        number, offset = data.draw(st.sampled_from([*sorted(self.inside), (self.number, self.offset + 1)]))
        found = self.window.find(f"bin.{number:06}", offset)
        if (number, offset) not in self.boundaries:
            assert isinstance(found, Uncovered)
        assert self.window.find(f"other.{number:06}", offset) is Uncovered.UNKNOWN
        assert self.window.find(f"bin.{self.number + 1:06}", 4) is Uncovered.AHEAD

    @precondition(lambda self: len(self.readers))
    @rule(data=st.data())
    def send(self, data):
        lapped = set(self.readers.lapped())
        reader = data.draw(st.sampled_from(sorted(self.readers._positions)))
        if reader in lapped:
            self.readers.detach(reader)
            return
        position = self.readers.position(reader)
        lacking = b"".join(block.packets for block in self.window.blocks(position.number))[position.skip :]
        size = data.draw(st.one_of(st.just(len(lacking)), st.integers(0, len(lacking))))
        self.got[reader] += lacking[:size]
        self.readers.sent(reader, size)

    @rule(data=st.data())
    def leave(self, data):
        if len(self.readers):
            self.readers.detach(data.draw(st.sampled_from(sorted(self.readers._positions))))

    @invariant()
    def bounded(self):
        assert self.window.cost <= LIMIT

    @invariant()
    def no_gap_and_no_repeat(self):
        for reader, got in self.got.items():
            begin = self.began[reader]
            assert self.stream[begin : begin + len(got)] == got

    @invariant()
    def who_lacks_what_was_dropped_is_lapped(self):
        retained = sum(len(block.packets) for block in self.window.blocks(self.window.first))
        dropped = len(self.stream) - retained
        lapped = {reader for reader in self.readers._positions if self.sent_to(reader) < dropped}
        assert set(self.readers.lapped()) == lapped

    @invariant()
    def who_has_everything_is_at_the_tip(self):
        for reader in self.readers._positions:
            has_all = self.sent_to(reader) == len(self.stream)
            assert self.readers.at_tip(reader) == has_all

    @invariant()
    def the_fastest_sets_the_pace(self):
        fastest_done = any(self.readers.at_tip(reader) for reader in self.readers._positions)
        if fastest_done or not len(self.readers):
            assert self.readers.may_read
        if self.readers.may_read and len(self.readers):
            assert set(self.readers.lapped()) != set(self.readers._positions), "one of them can go on"


TestDumpServer = DumpServerMachine.TestCase
TestDumpServer.settings = settings(max_examples=cases(60), stateful_step_count=40, deadline=None)

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["commit", "heartbeat", "arrive", "arrive", "read", "read"]), st.integers(0, 3)
    ),
    max_size=60,
)


@given(STEPS)
def test_a_claim_is_of_a_moment_before_the_heartbeat_came(steps):
    """Commits and heartbeats are sent in order; the network delays them, and the dump server."""
    sent, arrived, idle = [], [], Idle()
    for now, (step, amount) in enumerate(steps):
        if step in ("commit", "heartbeat"):
            sent.append(step)
        elif step == "arrive":
            arrived += [(kind, now) for kind in sent[:amount]]
            sent = sent[amount:]
        else:
            for kind, came in arrived[:amount]:
                claimed = idle.heartbeat() if kind == "heartbeat" else None
                # So what had been sent by then came before the heartbeat, and was read before it.
                assert claimed is None or claimed < came
            arrived = arrived[amount:]
            if not arrived:
                idle.found_empty(now)
