"""What a dump sends becomes the server's own files; what does not follow is refused, and changes nothing."""

from __future__ import annotations

import stat

import pytest
from support.binlog.archived import (
    HEARTBEAT,
    KEYS,
    SERVER,
    content,
    described,
    dump,
    recorded,
    refuse,
    rotate,
    written,
)
from support.binlog.binlog_bytes import events_of

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import Disk
from canal_group.binlog.archive.forms.key import NO_KEYS
from canal_group.binlog.archive.manifest import Form, State
from canal_group.binlog.archive.writer import ArchiveWriter
from canal_group.merge.errors import CorruptEvent, DataError, SourceUnfit, UsageError
from canal_group.merge.values.resets.reset import tells_reset

FILES = recorded()
FIRST, LAST = FILES


def writer_of(folder, keys=NO_KEYS, **options):
    archive = Archive(Disk(), folder, keys)
    return ArchiveWriter(archive, SERVER, **{"sync_s": 1.0, "say": refuse, **options})


@pytest.mark.parametrize("keys", [NO_KEYS, KEYS], ids=["clear", "encrypted"])
def test_an_archive_has_the_bytes_of_the_server(tmp_path, keys):
    (history,) = written(tmp_path / "a", FILES, keys=keys).histories()
    assert history.name == f"{SERVER}@1795193265"
    assert {name: content(history, name) for name in FILES} == FILES
    first, last = history.manifest.files
    assert (first.state, last.state) == (State.CLOSED, State.OPEN)
    assert (first.form, last.form) == (
        (Form.ZSTD, Form.PLAIN) if keys is NO_KEYS else (Form.SEALED, Form.BLOCKS)
    )
    assert first.gtids == last.gtids_before == "0-101-37"
    for file in history.folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert keys is NO_KEYS or b"shop" not in file.read_bytes()
    assert stat.S_IMODE(history.folder.stat().st_mode) == 0o700


def test_heartbeats_and_descriptions_that_are_sent_again_are_not_written(tmp_path):
    events = dump(FILES)
    half = len(events) // 3
    writer = writer_of(tmp_path)
    for event in events[:half]:
        writer.append(event + HEARTBEAT, 0.0)
    position = writer.position
    writer.close()
    said = []
    writer = writer_of(tmp_path, say=said.append)
    assert writer.position.offset < position.offset
    assert [sentence.partition(" was cut")[2] for sentence in said] == [
        f" to {writer.position.offset:,} of {position.offset:,} bytes: a transaction was not whole."
    ]
    for event in dump(FILES, writer.position):
        writer.append(HEARTBEAT + event, 0.0)
    assert {name: content(writer.history, name) for name in FILES} == FILES


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (lambda event: event[:-1], "not whole"),
        (lambda event: event[:30] + bytes([event[30] ^ 1]) + event[31:], "Checksum"),
        (lambda event: event[:13] + b"\x05" + event[14:], "says that it ends at|missing"),
        (lambda _event: b"", "missing"),
    ],
    ids=["cut", "flipped", "elsewhere", "left out"],
)
def test_a_damaged_event_is_refused_and_those_before_it_are_kept(tmp_path, broken, sentence):
    events = dump({FIRST: FILES[FIRST]})
    before, event, after = b"".join(events[:20]), events[20], events[21]
    writer = writer_of(tmp_path)
    with pytest.raises(CorruptEvent, match=sentence) as caught:
        writer.append(before + broken(event) + (after if not broken(event) else b""), 0.0)
    end = 4 + len(before) - len(events[0])
    assert caught.value.details["file"] == FIRST
    assert caught.value.details["offset"] == writer.position.offset == end
    assert content(writer.history, FIRST) == FILES[FIRST][:end]
    writer.append(b"".join(dump({FIRST: FILES[FIRST]}, writer.position)), 0.0)
    assert content(writer.history, FIRST) == FILES[FIRST]


def test_a_file_that_was_created_again_needs_a_new_history(tmp_path):
    """After RESET the server has the same names with another creation time: nothing is overwritten."""
    archive = written(tmp_path, {FIRST: FILES[FIRST]})
    again = dict(zip(FILES, recorded("shop-2").values(), strict=True))
    event = bytearray(described(again[FIRST]))
    event[0] ^= 1  # created at another second
    writer = ArchiveWriter(archive, SERVER, sync_s=1.0, say=refuse)
    with pytest.raises(DataError) as caught:
        writer.append(rotate(FIRST, len(FILES[FIRST])) + bytes(event), 0.0)
    assert tells_reset(caught.value)
    writer.close()
    writer = ArchiveWriter(archive, SERVER, sync_s=1.0, say=refuse, anew=True)
    for sent in dump(again):
        writer.append(sent, 0.0)
    writer.close()
    first, second = archive.histories(SERVER)
    assert content(first, FIRST) == FILES[FIRST]
    assert {name: content(second, name) for name in again} == again
    assert second.name != first.name, "also within one second"


@pytest.mark.parametrize(
    "sent",
    [rotate("mysql-bin.000009"), rotate(FIRST, 4711), rotate("other.000003"), rotate("nonsense")],
    ids=["gap", "inside", "name", "no file"],
)
def test_a_dump_that_does_not_follow_is_refused(tmp_path, sent):
    archive = written(tmp_path, {FIRST: FILES[FIRST]})
    writer = ArchiveWriter(archive, SERVER, sync_s=1.0, say=refuse)
    with pytest.raises(DataError, match="server 101"):
        writer.append(sent, 0.0)
    assert writer.position.offset == len(FILES[FIRST])
    assert [each.name for each in writer.history.manifest.files] == [FIRST]


def test_an_archive_begins_at_the_beginning_of_a_file(tmp_path):
    writer = writer_of(tmp_path)
    with pytest.raises(CorruptEvent, match="inside a file"):
        writer.append(rotate(FIRST, 4711), 0.0)
    assert writer.position is None
    assert not list(tmp_path.iterdir())


def test_only_one_process_writes(tmp_path):
    archive = Archive(Disk(), tmp_path)
    second = Archive(Disk(), tmp_path).lock(SERVER)
    with (
        archive.lock(SERVER),
        pytest.raises(UsageError, match="writes to the archive already"),
        second,
    ):
        pass
    with archive.lock("102"), archive.lock(SERVER):
        pass
    with pytest.raises(UsageError, match="identity"), archive.lock("../x"):
        pass


def test_what_is_durable_follows_the_syncs(tmp_path):
    events = dump({FIRST: FILES[FIRST]})
    writer = writer_of(tmp_path, sync_s=10.0)
    writer.append(b"".join(events[:30]), 10.0)
    first = writer.durable
    writer.append(b"".join(events[30:60]), 15.0)
    assert writer.durable == first, "it is not due"
    assert writer.position.offset > first.offset
    writer.sync_if_due(20.0)
    assert first.offset < writer.durable.offset <= writer.position.offset


def test_a_wrong_key_is_a_sentence(tmp_path):
    written(tmp_path, FILES, keys=KEYS)
    with pytest.raises(SourceUnfit, match=r"encrypted with key .* no key file is given"):
        writer_of(tmp_path)
    (history,) = Archive(Disk(), tmp_path).histories()
    with pytest.raises(SourceUnfit, match="encrypted with key"):
        history.open(FIRST)


def test_many_small_events_are_taken_at_once(tmp_path):
    writer = writer_of(tmp_path)
    writer.append(b"".join(dump(FILES)), 0.0)
    assert {name: content(writer.history, name) for name in FILES} == FILES
    assert len(events_of(FILES[FIRST])) > 50
