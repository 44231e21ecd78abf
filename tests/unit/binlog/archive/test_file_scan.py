"""What a scan takes of a file is what the grammar reads, and nothing that is damaged."""

from __future__ import annotations

import hashlib
from random import Random

import pytest
from support.binlog.archived import boundaries, dump, recorded
from support.binlog.binlog_bytes import File, events_of
from support.binlog.decoding import FIXTURES

from canal_group.binlog.archive.file_scan import FileScan
from canal_group.binlog.archive.history import scan_to_end
from canal_group.binlog.files.binlog_files import BinlogFiles
from canal_group.merge.errors import CorruptEvent, DataError, UnsupportedEvent
from canal_group.merge.values.gtids.gtid import NO_GTIDS
from canal_group.merge.values.header import Flag
from canal_group.merge.values.progress import gtids_after

BINLOGS = sorted(FIXTURES.parent.glob("*/*.binlog"))


def scanned(data):
    scan = FileScan("mysql-bin.000001", "test")
    return scan, scan.feed(data[4:])


@pytest.mark.parametrize("path", BINLOGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_scan_finds_the_transactions_of_the_grammar(path):
    scan, taken = scanned(path.read_bytes())
    ends, gtids = [], scan.gtids_before
    for chunk in BinlogFiles([path], lambda _schema, _table: None, verbatim=True):
        index = ((chunk.headers["flags"] & Flag.END) != 0).nonzero()[0]
        gtids = gtids_after(gtids, chunk.headers, index, chunk.names)
        ends += chunk.headers["end_offset"][index].tolist()
    assert taken + 4 == path.stat().st_size == scan.offset
    assert scan.transactions == len(ends)
    assert scan.gtids() == gtids
    assert set(ends) <= boundaries(path.read_bytes())
    assert not scan.in_transaction


def test_events_that_come_in_any_parts_are_the_same():
    for shard in ("shop-0", "shop-1"):
        for data in recorded(shard).values():
            whole, _ = scanned(data)
            random, scan, held, at = Random(1), FileScan("mysql-bin.000001", "test"), b"", 4
            while at < len(data):
                part = random.choice([1, 30, 700, 9000])
                held += data[at : at + part]
                at += part
                held = held[scan.feed(held) :]
            assert (scan.offset, scan.sha256, scan.gtids()) == (whole.offset, whole.sha256, whole.gtids())
            assert (scan.points, scan.times_us) == (whole.points, whole.times_us)


def test_no_bit_of_a_file_can_change_unnoticed():
    data = File("10.6.16-MariaDB", checksum=True).query("CREATE TABLE t (id INT)").xid().data
    for at in range(4, len(data)):
        for bit in range(8):
            changed = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
            try:
                _, taken = scanned(changed)
            except DataError as error:
                assert "mysql-bin.000001" in str(error)  # noqa: PT017
                continue
            # In use, which the checksum leaves out; or the rest looks incomplete, and is not taken.
            assert (at, bit) == (21, 0) or taken + 4 < len(data)


def test_an_event_that_is_missing_is_named_with_what_to_do():
    name, data = next(iter(recorded().items()))
    events = events_of(data)
    scan = FileScan(name, "server 101")
    with pytest.raises(CorruptEvent) as caught:
        scan.feed(b"".join([*events[:8], *events[9:]]))
    assert f"{len(events[8])} bytes are missing" in caught.value.message
    assert "annotations" in caught.value.hint
    assert caught.value.details == {
        "server": "server 101",
        "file": name,
        "offset": 4 + len(b"".join(events[:8])),
    }


def test_a_relay_log_and_an_encrypted_binlog_are_refused():
    for flags, kind in ((0x40, None), (0, 164)):
        file = File("10.6.16-MariaDB", checksum=True, flags=flags)
        if kind is not None:
            file.add(kind, bytes(17))
        with pytest.raises(UnsupportedEvent, match=r"relay log|encrypted"):
            scanned(file.data)


def test_a_type_that_no_reader_knows_is_taken():
    file = File("8.0.36", checksum=True).add(99, b"anything").query("BEGIN").xid()
    scan, taken = scanned(file.data)
    assert taken + 4 == len(file.data) == scan.whole_end
    assert (scan.transactions, scan.gtids()) == (1, NO_GTIDS)


def test_an_offset_beyond_32_bits_is_followed():
    file = File("8.0.36", checksum=True)
    scan, _ = scanned(file.data)
    scan._scan.offset = scan._scan.whole_end = (1 << 32) - 10
    file.data = bytes(((1 << 32) - 10) % (1 << 20))
    event = File("8.0.36", checksum=True).add(99, b"over", log_pos=(19 + 4 + 4 - 10)).data
    (_, last) = events_of(event)
    assert scan.feed(last) == len(last)
    assert scan.offset == (1 << 32) + len(last) - 10


def test_what_is_sent_is_what_a_file_holds():
    files = recorded("shop-3")
    sent = b"".join(dump({name: files[name] for name in [*files][:1]}))
    name, data = next(iter(files.items()))
    assert sent.endswith(data[4:])
    assert len(events_of(data)) > 100, name


class Frames:
    """A file of which each read has no more than some bytes."""

    def __init__(self, data, size):
        self._data, self._frame, self.size = data, size, len(data)

    def read_at(self, offset, size):
        return self._data[offset : offset + min(size, self._frame)]

    def close(self):
        pass


def test_events_that_are_larger_than_a_frame_are_read():
    for data in recorded().values():
        scan = FileScan("file", "test")
        scan_to_end(scan, Frames(data, 7))
        assert (scan.offset, scan.sha256) == (len(data), hashlib.sha256(data).hexdigest())
