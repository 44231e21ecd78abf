"""Which streams an archive sends, and what happens where it cannot."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.binlog.archived import KEYS, SERVER, options_of, recorded, written
from support.defaults import address_of

from canal_group.binlog.archive.reading.archive_packets import ArchivePackets
from canal_group.binlog.archive.reading.lookup import after_gtids
from canal_group.binlog.formats.events import HEADER_SIZE, parse_rotate
from canal_group.binlog.server.dump.dumps import Archives, OwnDumps
from canal_group.binlog.server.semi_sync.modes import SemiSync
from canal_group.binlog.server.starts.server_log import ArchivedLog
from canal_group.binlog.server.starts.stream_start import AfterGtids, FromOffset, LookingBack
from canal_group.merge.errors import CorruptEvent, PositionPurged, SourceUnavailable
from canal_group.merge.values.gtids.gtid import parse_gtid_set
from canal_group.merge.values.position import Position

ENDED = SourceUnavailable("It ends.")


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return written(tmp_path_factory.mktemp("archive"), recorded())


@pytest.fixture
def files(archive):
    return archive.histories(SERVER)[0].manifest.files


@pytest.fixture
def log():
    sizes = {name: len(data) for name, data in recorded().items()}
    return SimpleNamespace(facts=SimpleNamespace(identity=SERVER), sizes=lambda: sizes)


@pytest.fixture
def dumps(archive, monkeypatch):
    monkeypatch.setattr(OwnDumps, "open", lambda _, start, _log: ("source", start, None))
    return reader_of(archive.folder)


def reader_of(folder, **changes):
    address = address_of("s1", "db0", archive=options_of(folder), **changes)
    return Archives(address, SemiSync(), threading.Event())


def position_of(entry, offset=4):
    return Position(entry.name, offset, server=SERVER, created_s=entry.created_s)


def opened(dumps, start, log):
    packets, got, _ = dumps.open(start, log)
    assert got is start
    return packets


def test_the_archive_sends_what_it_has(dumps, files, log):
    packets = opened(dumps, FromOffset(position_of(files[0])), log)
    assert isinstance(packets, ArchivePackets)
    assert (packets.start, packets.file_offset) == (position_of(files[0]), (files[0].name, 4))
    assert isinstance(dumps.log_of(log), ArchivedLog)
    assert dumps.lost(ENDED)
    assert dumps.log_of(log) is log
    assert not dumps.lost(ENDED), "the next stream is the source's"


def test_a_start_without_progress_is_not_tried_again(dumps, files, log):
    start = FromOffset(position_of(files[0]))
    opened(dumps, start, log)
    dumps.lost(ENDED)
    assert opened(dumps, start, log) == "source"
    assert isinstance(opened(dumps, start, log), ArchivePackets), (
        "the source has failed, and the archive may have more"
    )


def test_at_its_end_the_source_goes_on(dumps, files, log):
    end = position_of(files[-1], len(recorded()[files[-1].name]))
    assert opened(dumps, FromOffset(end), log) == "source"


def test_a_stream_that_looks_back_begins_with_an_earlier_file(dumps, files, log):
    opened(dumps, FromOffset(position_of(files[1])), log)
    assert not dumps.lost(PositionPurged("Its rows were before.", xid="x")), "the start says how to go on"
    start = LookingBack(position_of(files[1]), files[0].name, FromOffset)
    packets = opened(dumps, start, log)
    assert (packets.start, packets.file_offset) == (position_of(files[1]), (files[0].name, 4))


def test_a_stream_by_gtid_is_told_its_offset(dumps, files, log, archive):
    position = Position("other.000009", 77, parse_gtid_set(files[1].gtids_before), server="202")
    packets = opened(dumps, AfterGtids(position), log)
    assert packets.file_offset == ("", 4)
    _, begin = after_gtids(archive.histories(SERVER), position.gtid_set)
    rotate = parse_rotate(packets.take()[HEADER_SIZE:])
    assert (rotate.file, rotate.offset) == (begin.file, begin.offset) == (files[1].name, begin.offset)
    foreign = replace(position, gtid_set=parse_gtid_set(f"{files[1].gtids_before},99-9-9"))
    assert opened(dumps, AfterGtids(foreign), log) == "source", "it does not have all of the set"


def test_another_binlog_of_these_names_is_not_read(dumps, files, log):
    assert opened(dumps, FromOffset(replace(position_of(files[0]), created_s=4711)), log) == "source"


def test_what_is_damaged_is_left_to_the_source_up_to_the_next_file(dumps, files, log, caplog):
    opened(dumps, FromOffset(position_of(files[0])), log)
    assert dumps.lost(CorruptEvent("Bytes 7 to 9 are damaged.", hint="Repair it."))
    assert "db0:3306 is read instead of its archive: Bytes 7 to 9" in caplog.text
    assert opened(dumps, FromOffset(position_of(files[0], 77)), log) == "source"
    purged = dumps.told(PositionPurged("The source has purged it.", file=files[0].name))
    assert purged.message == "The source has purged it. Bytes 7 to 9 are damaged."
    assert purged.details["file"] == files[0].name
    assert isinstance(opened(dumps, FromOffset(position_of(files[1])), log), ArchivePackets)


def test_what_it_does_not_have_is_told_with_what_the_source_says(dumps, files, log):
    assert dumps.told(ENDED) is ENDED
    opened(dumps, FromOffset(Position("mysql-bin.000001", 4, server=SERVER, created_s=1)), log)
    assert "The archive does not hold" in dumps.told(PositionPurged("It was purged.")).message


def test_with_a_wrong_key_the_source_is_read(tmp_path, monkeypatch, log, caplog):
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(OwnDumps, "open", lambda _, start, _log: ("source", start, None))
    (history,) = written(tmp_path, recorded(), keys=KEYS).histories(SERVER)
    dumps = reader_of(tmp_path)
    assert opened(dumps, FromOffset(position_of(history.manifest.files[0])), log) == "source"
    assert "is read instead of its archive" in caplog.text


def test_a_dump_of_the_source_is_left_where_the_archive_has_much(dumps, files, log, monkeypatch):
    sizes = {name: size << 10 for name, size in log.sizes().items()}
    far = SimpleNamespace(facts=log.facts, sizes=lambda: sizes)
    start = FromOffset(position_of(files[0]))
    assert not dumps.better(start, log, caught_up=False, prepared=0), "it is little"
    dumps._looked_s = float("-inf")
    assert not dumps.better(start, far, caught_up=False, prepared=1), "rows are before"
    assert dumps.better(start, far, caught_up=False, prepared=0)
    assert not dumps.better(start, far, caught_up=False, prepared=0), "it looks once a second"
