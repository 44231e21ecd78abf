"""Names that sources, manifests, object stores and callers send never lead out of an archive's folder."""

from __future__ import annotations

import contextlib
import json
import string
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.binlog.archived import SERVER, dump, options_of, recorded, refuse, rotate, written
from typer.testing import CliRunner

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import Disk
from canal_group.binlog.archive.manifest import MANIFEST, SUFFIXES, parse_manifest
from canal_group.binlog.archive.moved_history import publish
from canal_group.binlog.archive.object_store import ObjectStore
from canal_group.binlog.archive.operating.adoption import Adoption
from canal_group.binlog.archive.operating.export import export
from canal_group.binlog.archive.upkeep import Upkeep
from canal_group.binlog.archive.writer import ArchiveWriter
from canal_group.binlog.dump_server.archive_repair import ArchiveRepair
from canal_group.binlog.dump_server.archive_upkeep import ArchiveUpkeep
from canal_group.binlog.formats.events import HEADER_SIZE, parse_rotate
from canal_group.merge.errors import CanalGroupError, CorruptEvent, UsageError
from canal_group.merge.file_name import FILE_NAME_BYTES_MAX, file_name
from canal_group.merge.values.position import BINLOG_NAME_BYTES_MAX, Position, file_order
from canal_group.programs.command.cli import app

FILES = recorded()
FIRST, LAST = FILES
STRANGE = {
    "parent": "../../evil.000001",
    "absolute": "/etc/evil.000001",
    "below": "a/b.000001",
    "empty": "",
    "no base": ".000001",
    "NUL": "evil\0.000001",
    "newline": "evil\n.000001",
    "escape": "evil\x1b[2J.000001",
    "backslash": "..\\evil.000001",
    "quote": "x', 4); DROP TABLE t -- .000001",
    "long": "x" * BINLOG_NAME_BYTES_MAX + ".000001",
    "long number": "x." + "1" * 5_000,
    "manifest": MANIFEST,
}
strange_names = pytest.mark.parametrize("name", STRANGE.values(), ids=list(STRANGE))


def everything(folder):
    """Return the files below a folder, with their bytes."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def with_crc32(value):
    value = {key: each for key, each in value.items() if key != "crc32"}
    text = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    return json.dumps({**value, "crc32": zlib.crc32(text)}).encode()


def changed(history, **fields):
    """Return a manifest whose first file has other fields, with a CRC32 of its own."""
    value = json.loads((history.folder / MANIFEST).read_bytes())
    value["files"][0].update(fields)
    return with_crc32(value)


@strange_names
def test_a_rotate_to_a_strange_name_is_refused(tmp_path, name):
    archive = written(tmp_path / "a" / "b", FILES)
    before = everything(tmp_path)
    writer = ArchiveWriter(archive, SERVER, sync_s=0.0, say=refuse)
    with pytest.raises(CorruptEvent, match="ROTATE event cannot be read") as refused:
        writer.append(rotate(name), 0.0)
    assert refused.value.details["file"] == LAST
    assert refused.value.details["offset"] == len(FILES[LAST])
    writer.close()
    assert everything(tmp_path) == before


@strange_names
def test_a_first_rotate_to_a_strange_name_makes_no_file(tmp_path, name):
    writer = ArchiveWriter(Archive(Disk(), tmp_path / "a" / "b"), SERVER, sync_s=0.0, say=refuse)
    with pytest.raises(CorruptEvent, match="archive at its beginning"):
        writer.append(rotate(name), 0.0)
    assert everything(tmp_path) == {}


@strange_names
def test_a_manifest_with_a_strange_name_is_refused(tmp_path, name):
    (history,) = written(tmp_path / "a" / "b", FILES).histories()
    (history.folder / MANIFEST).write_bytes(changed(history, name=name))
    before = everything(tmp_path)
    with pytest.raises(CorruptEvent, match=r"The manifest .* is damaged: .* is not a binlog file name"):
        ArchiveWriter(Archive(Disk(), tmp_path / "a" / "b"), SERVER, sync_s=0.0, say=refuse)
    assert everything(tmp_path) == before


REMOTES = [
    "102@1/mysql-bin.000001.zst.e1",
    "../102@1/mysql-bin.000001.zst.e1",
    "/etc/passwd",
    "101@1795193265/../102@1/mysql-bin.000001.zst.e1",
    "101@1795193265/manifest.json.e1.1",
    "101@1795193265/mysql-bin.000099.zst.e1",
    "101@1795193265/mysql-bin.000001.zst.e",
    "101@1795193265/mysql-bin.000001.zst.e1\n",
    "101@1795193265/mysql-bin.000001.zst.e\N{ARABIC-INDIC DIGIT ONE}",
]


@pytest.mark.parametrize("remote", REMOTES)
def test_a_manifest_removes_no_file_of_another_server(tmp_path, remote):
    """The file of the other server is in the store, under the name that the manifest gives."""
    store = ObjectStore(str(tmp_path / "store"))
    archive = written(tmp_path / "a", FILES)
    archive.store = store
    (history,) = archive.histories()
    Upkeep(archive, history).move(FIRST, epoch=1)
    other = tmp_path / "store" / "102@1" / "mysql-bin.000001.zst.e1"
    other.parent.mkdir()
    other.write_bytes(b"of another server")
    (history.folder / MANIFEST).write_bytes(changed(history, remote=remote, state="pruned"))
    before = everything(tmp_path)
    with pytest.raises(CorruptEvent, match=r"which is not a file of '101@1795193265'"):
        ArchiveWriter(archive, SERVER, sync_s=0.0, say=refuse)
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    "change",
    [
        {"server": "102"},
        {"server": "../101"},
        {"server": 101},
        {"created_s": -1},
        {"files": [{"name": FIRST}]},
        {"files": 5},
    ],
    ids=str,
)
def test_a_manifest_of_another_server_is_refused(tmp_path, change):
    (history,) = written(tmp_path, FILES).histories()
    value = json.loads((history.folder / MANIFEST).read_bytes())
    with pytest.raises(CorruptEvent, match=r"The manifest M is damaged"):
        parse_manifest(with_crc32({**value, **change}), "M", history.name)


@pytest.mark.parametrize(
    "field", ["size", "stored", "created_s", "first_us", "description", "gtids", "sha256"]
)
@pytest.mark.parametrize("value", [None, -1, 1.5, True, [], {}])
def test_a_manifest_with_a_field_of_another_type_is_damaged(tmp_path, field, value):
    (history,) = written(tmp_path, FILES).histories()
    with pytest.raises(CorruptEvent, match=r"The manifest M is damaged"):
        parse_manifest(changed(history, **{field: value}), "M", history.name)


def moved(tmp_path):
    """Return a store that has the first file, and the history that it is of."""
    store = ObjectStore(str(tmp_path / "store"))
    archive = written(tmp_path / "a", FILES)
    archive.store = store
    (history,) = archive.histories()
    Upkeep(archive, history).move(FIRST, epoch=1)
    publish(archive.disk, store, history, history.manifest.files[:1], 1, 1)
    return store, history


def test_a_manifest_of_a_store_names_its_own_files_only(tmp_path):
    store, history = moved(tmp_path)
    published = tmp_path / "store" / history.name / f"{MANIFEST}.e1.1"
    published.write_bytes(changed(history, name="../../evil.000001"))
    before = everything(tmp_path)
    with pytest.raises(CorruptEvent, match=r"'../../evil.000001' is not a binlog file name"):
        ArchiveWriter(Archive(Disk(), tmp_path / "new", store=store), SERVER, sync_s=0.0, say=refuse)
    assert everything(tmp_path) == before


def test_a_listed_folder_that_is_not_a_history_is_refused(tmp_path):
    store, history = moved(tmp_path)
    (tmp_path / "store" / history.name).rename(tmp_path / "store" / f"{SERVER}@x\\..\n")
    with pytest.raises(CorruptEvent, match="which is not a history of server 101"):
        ArchiveWriter(Archive(Disk(), tmp_path / "new", store=store), SERVER, sync_s=0.0, say=refuse)
    assert not (tmp_path / "new").exists()


def test_a_publication_leaves_files_that_are_not_manifests(tmp_path):
    store, history = moved(tmp_path)
    other = tmp_path / "store" / history.name / f"{MANIFEST}.e.000001.zst.e1"
    other.write_bytes(b"a binlog whose base name is manifest.json.e")
    publish(Disk(), store, history, history.manifest.files[:1], 2, 1)
    names = {path.name for path in other.parent.iterdir()}
    assert names == {f"{FIRST}.zst.e1", f"{MANIFEST}.e2.1", other.name}


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/x", "a//b", "a/.", "a/b\0", "a/b\n", "a/b\\c"])
def test_an_object_store_has_no_key_outside_of_it(tmp_path, name):
    (tmp_path / "x").write_bytes(b"not in the store")
    store = ObjectStore(str(tmp_path / "store"))
    for call in (store.open, store.remove, lambda key: store.put(key, tmp_path / "x")):
        with pytest.raises(UsageError, match="cannot be the name of a file"):
            call(name)
    assert everything(tmp_path) == {tmp_path / "x": b"not in the store"}


@pytest.mark.parametrize("name", ["../victim", "/etc/passwd", "..", "", "a\0b", "a\nb"])
def test_an_export_removes_nothing_outside_of_its_folder(tmp_path, name):
    """A temporary file is removed before the export: the name has to be checked before."""
    (history,) = written(tmp_path / "a", FILES).histories()
    (tmp_path / "victim.tmp").write_bytes(b"of somebody else")
    with pytest.raises(UsageError, match="cannot be the name of a file"):
        list(export(history, [name], tmp_path / "exported"))
    assert (tmp_path / "victim.tmp").read_bytes() == b"of somebody else"


@pytest.mark.parametrize("name", ["evil\n.000001", "evil'.000001", "binlog", f"{'x' * 140}.000001"])
def test_a_file_with_a_strange_name_is_not_taken_over(tmp_path, name):
    file = tmp_path / name
    file.write_bytes(FILES[FIRST])
    archive = Archive(Disk(), tmp_path / "a")
    with archive.lock(SERVER), pytest.raises(UsageError, match="is not a binlog file name"):
        list(Adoption(archive, SERVER, refuse).run([file]))
    assert everything(tmp_path / "a").keys() <= {tmp_path / "a" / f"{SERVER}.lock"}


@pytest.mark.parametrize("server", ["../x", "a/b", "", "a@1", "a\nb", "a" * 65])
def test_a_server_with_a_strange_identity_has_no_archive(tmp_path, server):
    with pytest.raises(UsageError, match="is not the identity of a server"):
        Archive(Disk(), tmp_path / "a").lock(server)
    assert not (tmp_path / "a").exists()


parts = st.one_of(
    st.text(max_size=300),
    st.text(alphabet="./\\\0\n'a1-@", max_size=40),
    st.text(alphabet=string.printable, max_size=40),
)


@given(parts)
def test_a_checked_name_stays_in_its_folder(tmp_path_factory, name):
    folder = tmp_path_factory.getbasetemp()
    try:
        path = folder / file_name(name)
    except UsageError:
        return
    assert path.parent == folder
    assert path.name == name
    assert path.resolve().parent == folder.resolve()
    assert len(name.encode()) <= FILE_NAME_BYTES_MAX
    with contextlib.suppress(FileNotFoundError):
        path.stat()  # the system takes the name


@given(parts, st.integers(0, 10**8))
def test_a_binlog_name_that_is_read_can_be_stored_and_asked_for(tmp_path_factory, base, number):
    name = f"{base}.{number:06}"
    try:
        position = Position.from_dict({"file": name, "offset": 4})
    except UsageError:
        with pytest.raises(CorruptEvent):
            parse_rotate(rotate(name)[HEADER_SIZE:]) if name.isprintable() else refused_bytes(name)
        return
    assert parse_rotate(rotate(name)[HEADER_SIZE:]).file == position.file
    assert not set("'\"`\\") & set(name)
    assert file_order(name) == (base, number)
    for suffix in SUFFIXES.values():
        file_name(f"{name}{suffix}.tmp")
        file_name(f"{name}{suffix}-99.quarantined")


def refused_bytes(name):
    parse_rotate(bytes(8) + name.encode("utf-8", "surrogatepass"))


@given(st.binary(max_size=60))
def test_any_bytes_of_a_rotate_are_a_name_or_an_error(body):
    with contextlib.suppress(CorruptEvent):
        file_order(parse_rotate(body).file)


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | parts, lambda inner: st.lists(inner, max_size=3))
)
def test_any_value_in_a_manifest_is_read_or_is_an_error(value):
    entry = {"name": FIRST, "created_s": 1, "state": "closed", "form": "plain", "size": 4}
    for field in (*entry, "remote", "key", "damaged", "gtids", "other"):
        whole = {"version": 1, "server": SERVER, "created_s": 1, "files": [{**entry, field: value}]}
        with contextlib.suppress(CanalGroupError):
            manifest = parse_manifest(with_crc32(whole), "M", f"{SERVER}@1")
            assert manifest.files[0].remote == ""
            file_order(manifest.files[0].name)


def test_an_archive_goes_on_after_a_refused_rotate(tmp_path):
    archive = Archive(Disk(), tmp_path)
    first, *rest = dump(FILES)
    writer = ArchiveWriter(archive, SERVER, sync_s=0.0, say=refuse)
    writer.append(first + rest[0], 0.0)
    with pytest.raises(CorruptEvent):
        writer.append(rotate("../evil.000002"), 0.0)
    for event in rest[1:]:
        writer.append(event, 0.0)
    assert (writer.position.file, writer.position.offset) == (LAST, len(FILES[LAST]))
    writer.close()


def test_a_damaged_archive_of_another_server_stops_no_archive(tmp_path, caplog):
    """The limits of the folder still apply to the other archives; each damaged one is reported once."""
    archive = written(tmp_path, FILES)
    (damaged,) = written(tmp_path, FILES, server="102").histories("102")
    (damaged.folder / MANIFEST).write_bytes(b"{")
    before = everything(damaged.folder)
    with archive.lock(SERVER):
        writer = ArchiveWriter(archive, SERVER, sync_s=0.0, say=refuse)
        options = replace(options_of(tmp_path), bytes_max=1)
        upkeep = ArchiveUpkeep(archive, options, writer, SERVER, ArchiveRepair(archive, None))
        upkeep.retain((), 0)
        upkeep.retain((), 0)
        upkeep.close()
        writer.close()
    (history,) = archive.histories(SERVER)
    assert [each.name for each in history.manifest.files] == [LAST]
    (sentence,) = (each for each in caplog.messages if "102@" in each)
    assert sentence.startswith(f"The manifest {damaged.folder / MANIFEST} is damaged. Move its folder out")
    assert sentence.endswith("Nothing of it is removed, and its bytes do not count for bytes_max.")
    assert everything(damaged.folder) == before


def test_a_damaged_archive_of_the_same_server_stops_its_limits(tmp_path):
    archive = written(tmp_path, FILES)
    with archive.lock(SERVER):
        writer = ArchiveWriter(archive, SERVER, sync_s=0.0, say=refuse)
        options = replace(options_of(tmp_path), bytes_max=1)
        upkeep = ArchiveUpkeep(archive, options, writer, SERVER, ArchiveRepair(archive, None))
        other = tmp_path / f"{SERVER}@1"
        other.mkdir()
        (other / MANIFEST).write_bytes(b"{")
        with pytest.raises(CorruptEvent, match=r"The manifest .*101@1/manifest\.json is damaged"):
            upkeep.retain((), 0)
        upkeep.close()
        writer.close()


@pytest.mark.parametrize("name", STRANGE.values(), ids=list(STRANGE))
def test_commands_refuse_a_strange_name_with_a_sentence(tmp_path, name):
    (history,) = written(tmp_path / "a", FILES).histories()
    (history.folder / MANIFEST).write_bytes(changed(history, name=name))
    out = tmp_path / "out"
    for command in (["list"], ["verify"], ["export", "--to", str(out)]):
        done = CliRunner().invoke(app, ["archive", *command[:1], str(tmp_path / "a"), *command[1:]])
        assert isinstance(done.exception, (SystemExit, CorruptEvent)), done.exception
    good = written(tmp_path / "b", FILES).folder
    done = CliRunner().invoke(app, ["archive", "export", "--to", str(out), "--", str(good), name])
    assert isinstance(done.exception, (SystemExit, CanalGroupError)), done.exception
    assert not out.exists() or not list(out.iterdir())
