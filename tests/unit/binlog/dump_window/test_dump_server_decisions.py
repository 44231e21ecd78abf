"""When a reader asks a dump server, where a dump server begins, and what it takes for a reset."""

import struct

import pytest

from canal_group.binlog.dump_window.attempts import INTERVAL_S, PAUSE_MAX_S, STABLE_S, Attempts
from canal_group.binlog.dump_window.begin import begin_at
from canal_group.binlog.dump_window.block import BLOCK_OVERHEAD_BYTES, Block, split_at
from canal_group.binlog.dump_window.readers import Readers
from canal_group.binlog.dump_window.window import Uncovered, Window, WindowPosition
from canal_group.merge.errors import UsageError

FULL = 0xFFFFFF
FILES = [("bin.000007", 5_000), ("bin.000008", 900), ("bin.000009", 300)]


@pytest.mark.parametrize(
    ("requested", "limit_bytes", "begin"),
    [
        (("bin.000009", 250), 1_000, ("bin.000009", 250)),
        (("bin.000008", 700), 1_000, ("bin.000008", 700)),  # 200 + 300 bytes before the end
        (("bin.000008", 699), 1_000, ("bin.000009", 4)),  # one byte more than half of the window
        (("bin.000007", 5_000), 2_400, ("bin.000007", 5_000)),
        (("bin.000001", 4), 1_000, ("bin.000009", 4)),  # purged, or of another server
        (("bin.000009", 301), 1_000, ("bin.000009", 4)),  # beyond the end
        (("bin.000001", 4), 500, ("bin.000009", 300)),
    ],
)
def test_a_dump_server_begins_near_the_end(requested, limit_bytes, begin):
    assert begin_at(requested, FILES, limit_bytes) == begin


def test_a_refused_reader_asks_at_intervals():
    attempts = Attempts()
    assert attempts.due(0)
    attempts.refused(0, answered=True)
    assert not attempts.due(INTERVAL_S - 0.01)
    assert attempts.due(INTERVAL_S)
    attempts.refused(0, answered=True)
    attempts.hurry()
    assert attempts.due(0), "what it read meanwhile has ended"
    attempts.refused(0, answered=False)
    attempts.hurry()
    assert not attempts.due(0), "a pause after a loss stays"


def test_a_dump_server_that_fails_is_asked_less_and_less():
    attempts, now_s, pauses_s = Attempts(), 0.0, []
    for fails in (False, True) * 5:
        if fails:
            attempts.refused(now_s, answered=False)
        else:
            attempts.attached(now_s)
            assert not attempts.due(now_s + 1_000), "it is attached"
            now_s += STABLE_S - 0.5
            attempts.lost(now_s)
        begin_s = now_s
        while not attempts.due(now_s):
            now_s += 0.5
        pauses_s.append(now_s - begin_s)
    assert pauses_s == [1, 2, 4, 8, 16, 32, *[PAUSE_MAX_S] * 4]
    attempts.attached(now_s)
    now_s += STABLE_S
    attempts.lost(now_s)
    assert attempts.due(now_s), "it had served for long"
    attempts.attached(now_s)
    attempts.left()
    assert attempts.due(now_s), "the reader had ended its stream"


def event(size, end):
    head = struct.pack("<IBIIIH", 0, 30, 1, size, end % 2**32, 0)
    payload = b"\0" + head + bytes(size - len(head))
    parts = [payload[at : at + FULL] for at in range(0, len(payload) + 1, FULL)]
    return b"".join(len(part).to_bytes(3, "little") + b"\0" + part for part in parts)


def test_an_offset_after_an_event_of_several_packets_and_beyond_4_gib():
    begin = 2**32 - 100
    packets = event(60, begin + 60), event(FULL + 5, begin + FULL + 65), event(40, begin + FULL + 105)
    block = Block("bin.000001", begin, begin + FULL + 105, b"".join(packets))
    assert split_at(block, begin) == 0
    assert split_at(block, begin + 60) == len(packets[0])
    assert split_at(block, begin + 61) is None
    assert split_at(block, begin + FULL + 65) == len(packets[0]) + len(packets[1])
    assert split_at(block, block.end) == len(block.packets)


def test_a_reset_of_the_source_is_noticed():
    window = Window(10_000, "bin.000008", 4)
    window.append(Block("bin.000008", 4, 100, event(96, 100)), created_s=50)
    for block, created_s in (
        (Block("bin.000001", 4, 100, b""), 0),
        (Block("bin.000008", 4, 100, b""), 0),
        (Block("other.000009", 4, 100, b""), 0),
        (Block("bin.000008", 100, 100, b""), 51),
    ):
        with pytest.raises(UsageError):
            window.append(block, created_s)
    assert window.end == 1
    assert window.tip == ("bin.000008", 100)
    assert window.find("bin.000008", 100, created_s=50) == WindowPosition(1, 0)
    assert window.find("bin.000008", 100, created_s=49) is Uncovered.UNKNOWN
    assert window.find("no binlog", 4) is Uncovered.UNKNOWN


def test_a_reader_ahead_makes_the_dump_server_read_on():
    """1. the only reader has stopped; 2. another one is ahead: the dump is read on to it, and no further."""
    block_bytes = 1_000
    limit_bytes = 4 * (block_bytes + BLOCK_OVERHEAD_BYTES)
    window = Window(limit_bytes, "bin.000001", 4)
    readers = Readers(window, limit_bytes)

    def append():
        begin = window.tip[1]
        window.append(Block("bin.000001", begin, begin + 100, bytes(block_bytes)))

    readers.attach(1, WindowPosition(0, 0))
    append()
    append()
    assert readers.may_read
    append()
    assert not readers.may_read
    readers.want("bin.000001", 504)
    for _ in range(2):
        assert readers.may_read
        append()
    assert readers.lapped() == [1], "it has to read by itself"
    assert not readers.may_read
    readers.detach(1)
    assert readers.may_read
