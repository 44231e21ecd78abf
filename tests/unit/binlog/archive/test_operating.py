"""What people do with an archive: check it, repair it, move files, remove them, take files over."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import replace

import pytest
from support.binlog.archived import KEYS, SERVER, boundaries, content, dump, recorded, refuse, written
from support.binlog.binlog_bytes import events_of

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import Disk
from canal_group.binlog.archive.forms.key import NO_KEYS
from canal_group.binlog.archive.manifest import MANIFEST, State
from canal_group.binlog.archive.object_store import ObjectStore
from canal_group.binlog.archive.operating.adoption import Adoption
from canal_group.binlog.archive.operating.export import export
from canal_group.binlog.archive.operating.verification import verify
from canal_group.binlog.archive.reading.archived_file import ArchivedFile, archived_files
from canal_group.binlog.archive.upkeep import Upkeep
from canal_group.binlog.archive.writer import ArchiveWriter
from canal_group.merge.errors import CorruptEvent, PositionPurged, RetryableError, UsageError

FILES = recorded()
FIRST, LAST = FILES


def flip(path, at=1000):
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


def wrong(history):
    return [each.wrong for each in verify(history)]


def put(folder, files):
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return [folder / name for name in files]


def taken(archive, files, say=refuse):
    with archive.lock(SERVER):
        return list(Adoption(archive, SERVER, say).run(files))


@pytest.mark.parametrize("keys", [NO_KEYS, KEYS], ids=["clear", "encrypted"])
def test_a_damaged_file_is_named_and_replaced_by_a_copy(tmp_path, keys):
    archive = written(tmp_path / "a", FILES, keys=keys)
    (history,) = archive.histories()
    assert wrong(history) == ["", ""]
    flip(history.path(history.manifest.files[0]))
    assert "is damaged: frame 0" in wrong(history)[0].replace("are damaged", "is damaged")
    with pytest.raises(CorruptEvent, match="Bytes 0 to 30,303"):
        content(history, FIRST)
    copies = put(tmp_path / "copies", FILES)
    assert taken(archive, copies)[0].startswith(f"{FIRST}: it replaces the damaged one")
    history.refresh()
    assert wrong(history) == ["", ""]
    assert content(history, FIRST) == FILES[FIRST]
    assert [f.name for f in history.folder.glob("*.quarantined")]
    for file in history.folder.glob("mysql-bin*"):
        assert keys is NO_KEYS or b"shop" not in file.read_bytes()


def test_a_copy_that_is_another_file_replaces_nothing(tmp_path):
    archive = written(tmp_path / "a", FILES)
    other = {FIRST: FILES[FIRST][:-23] + bytes(23)}
    with pytest.raises(UsageError, match="is not the file that the archive has"):
        taken(archive, put(tmp_path / "copies", other))
    assert wrong(archive.histories()[0]) == ["", ""]


def test_a_file_is_moved_read_by_range_and_removed(tmp_path):
    archive = written(tmp_path / "a", FILES)
    archive.store = ObjectStore(str(tmp_path / "store"))
    (history,) = archive.histories()
    upkeep = Upkeep(archive, history)
    upkeep.move(FIRST, epoch=7)
    remote = tmp_path / "store" / history.name / f"{FIRST}.zst.e7"
    assert remote.is_file()
    assert not (history.folder / f"{FIRST}.zst").exists()
    assert history.manifest.files[0].state is State.MOVED
    (again,) = archive.histories()
    assert content(again, FIRST) == FILES[FIRST]
    assert wrong(again) == ["", ""]
    upkeep.prune(FIRST)
    assert not remote.exists()
    (again,) = archive.histories()
    assert [each.name for each in again.manifest.files] == [LAST]
    with pytest.raises(PositionPurged):
        again.open(FIRST)
    with pytest.raises(UsageError, match="is the newest file of its server"):
        Upkeep(archive, again).prune(LAST)


def test_a_store_that_does_not_answer_holds_up_no_archive(tmp_path):
    """The file goes from the store when that answers again."""
    archive = written(tmp_path / "a", FILES)
    archive.store = ObjectStore(str(tmp_path / "store"))
    (history,) = archive.histories()
    upkeep = Upkeep(archive, history)
    upkeep.move(FIRST, epoch=7)
    remote = tmp_path / "store" / history.name / f"{FIRST}.zst.e7"
    remote.rename(tmp_path / "away")
    remote.mkdir()
    assert "stays in the store" in upkeep.prune(FIRST)
    said = []
    ArchiveWriter(archive, SERVER, sync_s=0, say=said.append).close()
    assert "stays in the store" in said[0]
    remote.rmdir()
    (tmp_path / "away").rename(remote)
    ArchiveWriter(archive, SERVER, sync_s=0, say=refuse).close()
    assert not remote.exists()
    (history,) = archive.histories()
    assert [each.name for each in history.manifest.files] == [LAST]


def test_a_fenced_writer_overwrites_nothing_in_the_store(tmp_path):
    store = ObjectStore(str(tmp_path / "store"))
    one, other = put(tmp_path / "files", {"one": b"one", "other": b"two"})
    store.put("h/f.e1", one)
    store.put("h/f.e1", one)
    with pytest.raises(UsageError, match=r"another h/f\.e1"):
        store.put("h/f.e1", other)
    assert (tmp_path / "store" / "h" / "f.e1").read_bytes() == b"one"
    with pytest.raises(CorruptEvent, match="does not have"):
        store.open("h/f.e2")


def test_an_upload_that_ends_half_way_is_made_again(tmp_path):
    archive = written(tmp_path / "a", FILES)
    archive.store = ObjectStore(str(tmp_path / "store"))
    (history,) = archive.histories()
    part = tmp_path / "store" / history.name / f"{FIRST}.zst.e7.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"half")
    Upkeep(archive, history).move(FIRST, epoch=7)
    assert content(archive.histories()[0], FIRST) == FILES[FIRST]


def test_exported_files_are_those_of_the_server(tmp_path):
    (history,) = written(tmp_path / "a", FILES, keys=KEYS).histories()
    paths = [path for path, _ in export(history, (), tmp_path / "out")]
    assert {path.name: path.read_bytes() for path in paths} == FILES
    with pytest.raises(UsageError, match="exists already"):
        list(export(history, [FIRST], tmp_path / "out"))


def test_a_folder_of_a_server_is_taken_over_and_a_dump_goes_on(tmp_path):
    """Its last file is marked as in use, and cut inside an event, as one that is written."""
    last = bytearray(FILES[LAST][:50_000])
    last[21] |= 1
    archive = Archive(Disk(), tmp_path / "a")
    lines = taken(archive, put(tmp_path / "server", {FIRST: FILES[FIRST], LAST: bytes(last)}))
    assert lines[0] == f"{FIRST}: taken over, 30,303 bytes"
    assert "are not a whole event" in lines[1]
    writer = ArchiveWriter(archive, SERVER, sync_s=0, say=lambda _sentence: None)
    for event in dump(FILES, writer.position):
        writer.append(event, 0.0)
    writer.close()
    (history,) = archive.histories()
    assert {name: content(history, name) for name in FILES} == FILES
    assert taken(archive, put(tmp_path / "server", FILES))[0] == f"{FIRST}: the archive has it"


def test_older_files_become_a_history_of_their_own(tmp_path):
    archive = written(tmp_path / "a", {LAST: FILES[LAST]})
    taken(archive, put(tmp_path / "older", {FIRST: FILES[FIRST]}))
    older, newer = archive.histories()
    assert [each.name for each in older.manifest.files] == [FIRST]
    assert content(newer, LAST) == FILES[LAST]
    assert newer.manifest.files[0].state is State.OPEN, "its writer goes on"


def test_a_file_with_a_cut_end_is_not_followed_by_another(tmp_path):
    archive = Archive(Disk(), tmp_path / "a")
    cut = {FIRST: FILES[FIRST][:-3], LAST: FILES[LAST]}
    with pytest.raises(CorruptEvent, match="ends inside an event, and another file follows"):
        taken(archive, put(tmp_path / "files", cut))


def test_a_gap_between_files_is_found(tmp_path):
    (history,) = written(tmp_path, FILES).histories()
    third = history.manifest.files[1]
    history.manifest = history.manifest.without(LAST).with_file(
        type(third)(**{name: getattr(third, name) for name in third.__slots__} | {"name": "mysql-bin.000004"})
    )
    (history.folder / LAST).rename(history.folder / "mysql-bin.000004")
    assert wrong(history)[1] == f"files are missing between {FIRST} and it"


def test_a_damaged_manifest_is_a_sentence(tmp_path):
    (history,) = written(tmp_path, FILES).histories()
    path = history.folder / MANIFEST
    data = path.read_bytes()
    for broken in (data[:-30], data.replace(b"30303", b"30304"), b"", b"[]"):
        path.write_bytes(broken)
        with pytest.raises(CorruptEvent, match=r"The manifest .* is damaged"):
            Archive(Disk(), tmp_path).histories()


def test_a_file_of_another_writer_is_set_aside(tmp_path):
    archive = written(tmp_path, {FIRST: FILES[FIRST]})
    (history,) = archive.histories()
    (history.folder / LAST).write_bytes(b"older")
    (history.folder / "x.tmp").write_bytes(b"rest")
    said = []
    writer = ArchiveWriter(archive, SERVER, sync_s=0, say=said.append)
    for event in dump(FILES, writer.position):
        writer.append(event, 0.0)
    assert content(writer.history, LAST) == FILES[LAST]
    assert (history.folder / f"{LAST}.orphan").read_bytes() == b"older"
    assert not (history.folder / "x.tmp").exists()
    assert "is not in the manifest" in said[0]


def test_an_open_file_that_was_cut_anywhere_goes_on(tmp_path):
    """Inside its magic, the first header, its description, an event, a transaction."""
    data = FILES[FIRST]
    for cut in [*range(0, 290, 23), 299, 20_000, len(data) - 1]:
        archive = written(tmp_path / str(cut), {FIRST: data})
        (history,) = archive.histories()
        history.path(history.manifest.files[0]).write_bytes(data[:cut])
        said = []
        writer = ArchiveWriter(archive, SERVER, sync_s=0, say=said.append)
        assert len(said) == 1, cut
        for event in dump(FILES, writer.position):
            writer.append(event, 0.0)
        writer.close()
        assert {name: content(writer.history, name) for name in FILES} == FILES


def test_damage_below_what_was_durable_is_quarantined(tmp_path):
    archive = written(tmp_path, {FIRST: FILES[FIRST]})
    (history,) = archive.histories()
    path = history.path(history.manifest.files[0])
    flip(path, 15_000)
    damaged, said = path.read_bytes(), []
    writer = ArchiveWriter(archive, SERVER, sync_s=0, say=said.append)
    assert f"was damaged below what was durable; {FIRST}.quarantined has its bytes" in said[0]
    assert (history.folder / f"{FIRST}.quarantined").read_bytes() == damaged
    assert writer.position.offset < 15_000
    for event in dump(FILES, writer.position):
        writer.append(event, 0.0)
    assert {name: content(writer.history, name) for name in FILES} == FILES


def test_a_damaged_description_is_not_taken_for_that_of_an_old_server(tmp_path):
    """By its version a server has no checksums, and nothing else of the file could be checked."""
    archive = written(tmp_path, {FIRST: FILES[FIRST]})
    (history,) = archive.histories()
    path = history.path(history.manifest.files[0])
    description = len(events_of(FILES[FIRST])[0])
    path.write_bytes(FILES[FIRST][:25] + b"?" + FILES[FIRST][26 : 4 + description])
    said = []
    writer = ArchiveWriter(archive, SERVER, sync_s=0, say=said.append)
    assert "had no whole event" in said[0]
    for event in dump(FILES, writer.position):
        writer.append(event, 0.0)
    assert {name: content(writer.history, name) for name in FILES} == FILES


def test_a_folder_that_vanishes_is_a_sentence(tmp_path):
    archive = written(tmp_path / "a", {FIRST: FILES[FIRST]})
    writer = ArchiveWriter(archive, SERVER, sync_s=0, say=refuse)
    shutil.rmtree(tmp_path / "a")
    events = b"".join(dump(FILES, writer.position))
    with pytest.raises(RetryableError, match="takes no more: No such file"):
        writer.append(events, 0.0)
    with pytest.raises(UsageError, match="has ended"):
        writer.append(b"", 0.0)
    assert ArchiveWriter(archive, SERVER, sync_s=0, say=refuse).position is None


@pytest.mark.parametrize("cut", [0, 10, 5000])
def test_a_closed_file_that_was_cut_is_quarantined(tmp_path, cut):
    archive = written(tmp_path / "a", FILES)
    (history,) = archive.histories()
    path = history.path(history.manifest.files[0])
    path.write_bytes(path.read_bytes()[:cut])
    said = []
    ArchiveWriter(archive, SERVER, sync_s=0, say=said.append).close()
    assert "it is quarantined" in said[0]
    history.refresh()
    assert history.manifest.files[0].state is State.QUARANTINED
    with pytest.raises(CorruptEvent):
        content(history, FIRST)
    taken(archive, put(tmp_path / "copies", FILES))
    assert content(archive.histories()[0], FIRST) == FILES[FIRST]


@pytest.mark.parametrize("keys", [NO_KEYS, KEYS], ids=["clear", "encrypted"])
def test_a_closed_file_that_ends_early_is_never_read_as_whole(tmp_path, keys):
    """It was not compressed yet, and lost its last transactions: nothing else of it says so."""
    archive = written(tmp_path, FILES, keys=keys, pack=False)
    (history,) = archive.histories()
    entry = history.manifest.files[0]
    end = sorted(boundaries(FILES[FIRST]))[-5]
    written(tmp_path / "cut", {FIRST: FILES[FIRST][:end]}, keys=keys, pack=False)
    (cut,) = Archive(Disk(), tmp_path / "cut", keys).histories()
    history.path(entry).write_bytes(cut.path(entry).read_bytes())
    said = []
    for recovered in (False, True):
        if recovered:
            ArchiveWriter(archive, SERVER, sync_s=0, say=said.append).close()
            (history,) = archive.histories()
            assert history.manifest.files[0].state is State.QUARANTINED
        with (
            pytest.raises(CorruptEvent, match="are damaged"),
            ArchivedFile(history, FIRST).open("rb", 0) as file,
        ):
            file.read()
        assert "are damaged" in wrong(history)[0]
    assert "it is quarantined" in said[0]


@pytest.mark.parametrize("keys", [NO_KEYS, KEYS], ids=["clear", "encrypted"])
def test_a_file_that_changed_before_it_is_compressed_is_quarantined(tmp_path, keys):
    archive = written(tmp_path, FILES, keys=keys, pack=False)
    (history,) = archive.histories()
    flip(history.path(history.manifest.files[0]), 15_000)
    upkeep = Upkeep(archive, history)
    with pytest.raises(CorruptEvent, match=f"in {history.name}/{FIRST}.* are damaged"):
        for _ in iter(lambda: upkeep.pack(1), False):
            pass
    assert history.manifest.files[0].state is State.QUARANTINED
    assert not upkeep.pack(1)
    with pytest.raises(CorruptEvent):
        content(history, FIRST)


def test_each_damaged_file_that_is_replaced_is_kept(tmp_path):
    """Also of a copy that a crash has left half way."""
    archive = written(tmp_path / "a", FILES, pack=False)
    (history,) = archive.histories()
    (history.folder / f"{FIRST}.tmp").write_bytes(b"half")
    (copy, _) = put(tmp_path / "copies", FILES)
    for name in (f"{FIRST}.quarantined", f"{FIRST}-2.quarantined"):
        flip(history.path(history.manifest.files[0]))
        damaged = history.path(history.manifest.files[0]).read_bytes()
        with contextlib.closing(Disk().open(copy)) as source:
            assert Upkeep(archive, history).repair(FIRST, source).name == name
        assert (history.folder / name).read_bytes() == damaged
        assert content(history, FIRST) == FILES[FIRST]


def test_a_history_that_was_followed_is_removed_as_a_whole(tmp_path):
    """Its last file, too; a removal that a crash has interrupted is ended."""
    archive = written(tmp_path, FILES)
    (older,) = archive.histories()
    older.put(replace(older.manifest.files[0], state=State.PRUNED))
    writer = ArchiveWriter(archive, SERVER, sync_s=0, say=refuse, anew=True)
    for event in dump({FIRST: FILES[FIRST]}):
        writer.append(event, 0.0)
    writer.close()
    Upkeep(archive, older).prune(LAST)
    assert older.manifest.files == ()
    assert [name for name in Disk().names(older.folder) if name.startswith("mysql")] == []
    newer = archive.newest(SERVER)
    with pytest.raises(UsageError, match="is the newest file of its server"):
        Upkeep(archive, newer).prune(FIRST)
    assert [file.name for file in archived_files(tmp_path)] == [FIRST]


def test_a_file_that_has_just_been_begun_is_not_wrong(tmp_path):
    """Its writer names it in the manifest, and then makes it."""
    (history,) = written(tmp_path, FILES).histories()
    history.put(replace(history.manifest.last, size=0))
    history.path(history.manifest.last).unlink()
    assert wrong(history) == ["", ""]
