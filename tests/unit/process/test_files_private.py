"""Files that the project writes: who else can read them, hold them, or have them written elsewhere."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.security.second_user import NOBODY, as_nobody, folder_for_all

from canal_group.actors.coordination import embedded
from canal_group.actors.coordination.embedded import EmbeddedZooKeeper, _Started
from canal_group.actors.coordination.local import LocalCoordinator, stop_file
from canal_group.actors.coordination.switch import LocalSwitch
from canal_group.actors.group.stored.cursors import CURSORS
from canal_group.actors.meta.file import FileStore
from canal_group.actors.ports import Key
from canal_group.actors.process.durable import replace_file
from canal_group.merge.errors import ConfigError, CoordinatorUnavailable
from canal_group.zookeeper.stop_mark import StopMark

READ = "print(open(sys.argv[1]).read())"
HOLD = "fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB); print('held')"
LIST = "print(os.listdir(sys.argv[1]))"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def shared() -> Iterator[Path]:
    before = os.umask(0)
    try:
        with folder_for_all() as folder:
            yield folder
    finally:
        os.umask(before)


def save(folder: Path) -> str:
    store, key = FileStore("shop", folder), Key(CURSORS, "1001")
    store.put(key, '{"filter": ""}\n', 7)
    return store.where(key)


def test_files_and_folders_are_private_under_any_mask(shared: Path):
    file, new = save(shared), shared / "new"
    save(new)
    coordinator = LocalCoordinator("shop", shared)
    assert coordinator.campaign() == 1
    coordinator.close()
    assert {path.name: mode(path) for path in shared.iterdir()} == {
        "new": 0o700,
        "shop.epochs.json": 0o600,
        "shop.lock": 0o600,
        "shop@cursors@1001.json": 0o600,
        "shop@epoch.json": 0o600,
        "shop@epoch.json.lock": 0o600,
    }
    assert as_nobody(READ, file) == "PermissionError"
    assert as_nobody(LIST, str(new)) == "PermissionError"


def test_another_user_cannot_hold_our_lock(shared: Path):
    """Else one user of the machine keeps every server from being elected, and every cursor from being saved.

    A file that was made before could be opened by all: it is not left so.
    """
    for lock in (shared / "shop.lock", shared / "shop@epoch.json.lock"):
        lock.touch()
        lock.chmod(0o644)
        assert as_nobody(HOLD, str(lock)) == "held", "as it was"
    save(shared)
    coordinator = LocalCoordinator("shop", shared)
    coordinator.campaign()
    coordinator.close()
    for lock in (shared / "shop.lock", shared / "shop@epoch.json.lock"):
        assert as_nobody(HOLD, str(lock)) == "PermissionError"


def campaigned(folder: Path) -> None:
    coordinator = LocalCoordinator("shop", folder)
    try:
        coordinator.campaign()
    finally:
        coordinator.close()


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("shop@epoch.json.tmp", save),
        ("shop@cursors@1001.json.tmp", save),
        ("shop.epochs.json.tmp", campaigned),
        ("shop@epoch.json", save),
        ("shop@cursors@1001.json", save),
        ("shop.epochs.json", campaigned),
        ("shop.stopped.json.tmp", lambda folder: LocalSwitch(folder, "shop").stop(StopMark("x", "y"), 0)),
    ],
)
def test_a_planted_link_is_not_followed(
    name: str, write: Callable[[Path], object], shared: Path, tmp_path: Path
):
    """What it leads to is not written to; at the name there is a file of ours."""
    victim = tmp_path / "victim"
    victim.write_text('{"epoch": 1, "subscriptions": {}, "server": 1, "consumer": 0, "consumers": {}}')
    before = victim.read_text()
    (shared / name).symlink_to(victim)
    write(shared)
    assert victim.read_text() == before
    assert not (shared / name).is_symlink()


@pytest.mark.parametrize(
    ("name", "write", "error"),
    [("shop@epoch.json.lock", save, CoordinatorUnavailable), ("shop.lock", campaigned, ConfigError)],
)
def test_a_lock_that_is_a_link_is_refused(
    name: str, write: Callable[[Path], object], error: type[Exception], shared: Path, tmp_path: Path
):
    (shared / name).symlink_to(tmp_path / "made")
    with pytest.raises(error, match="cannot be opened"):
        write(shared)
    assert not (tmp_path / "made").exists()


def test_a_temporary_file_that_is_held_open_is_not_written(shared: Path):
    """They would go on writing into what is ours by then."""
    theirs = shared / "file.tmp"
    with theirs.open("w") as held:
        replace_file(shared / "file", "ours")
        held.write("theirs, and longer")
    assert (shared / "file").read_text() == "ours"


@pytest.mark.parametrize("mask", [0, 0o077])
def test_the_server_can_read_a_stop_mark_of_another_user(shared: Path, mask: int):
    os.umask(mask)
    LocalSwitch(shared, "shop").stop(StopMark("x", "y"), 0)
    assert "x" in as_nobody(READ, str(stop_file(shared, "shop")))


def test_what_the_embedded_zookeeper_keeps_is_its_users_alone(shared: Path, monkeypatch: pytest.MonkeyPatch):
    """Java makes its files readable by all: nobody else comes as far as them."""
    monkeypatch.setattr(EmbeddedZooKeeper, "_start_once", lambda *_: None)
    there = shared / "there"
    there.mkdir(mode=0o755)
    for folder in (there, shared / "made"):
        with EmbeddedZooKeeper(folder=folder, starts_max=1):
            assert mode(folder / "data") == 0o700
    assert [mode(there), mode(shared / "made")] == [0o755, 0o700]
    (shared / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be the embedded ZooKeeper's folder"):
        EmbeddedZooKeeper(folder=shared / "file", starts_max=1).start()


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the embedded ZooKeeper write all that it writes before java is started, and start nothing."""
    monkeypatch.setattr(embedded, "_find_java", lambda: "/bin/true")


@pytest.mark.usefixtures("idle")
def test_nothing_of_the_embedded_zookeeper_is_written_through_a_link(shared: Path, tmp_path: Path):
    folder, victim = shared / "made", tmp_path / "victim"
    victim.write_text("theirs")
    (folder / "data").mkdir(parents=True)
    folder.chmod(0o700)
    for parent in (folder, folder / "data"):
        for name in ("zoo.cfg", "zookeeper.log"):
            (parent / name).symlink_to(victim)
    server = EmbeddedZooKeeper(folder=folder, starts_max=1)
    with pytest.raises(CoordinatorUnavailable, match="did not start"):
        server.start()
    assert victim.read_text() == "theirs"
    assert mode(folder / "data/zoo.cfg") == 0o600
    (folder / "data/zookeeper.log").unlink()
    with pytest.raises(CoordinatorUnavailable, match="did not start"):
        server.start()
    assert mode(folder / "data/zookeeper.log") == 0o600
    assert server.log_file == folder / "data/zookeeper.log"
    with pytest.raises(CoordinatorUnavailable, match="did not start"):
        _Started(["/bin/true"], folder / "zookeeper.log").process()


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize("wrong", [0o777, 0o1777, 0o770, 0o702])
def test_embedded_zookeeper_refuses_a_folder_writable_by_others(shared: Path, wrong: int):
    """Who may write there can put folders and files of their own in the place of the server's."""
    folder = shared / "open"
    folder.mkdir()
    folder.chmod(wrong)
    with pytest.raises(ConfigError, match="Other users may write to"):
        EmbeddedZooKeeper(folder=folder, starts_max=1).start()
    assert not list(folder.iterdir())


@pytest.mark.usefixtures("idle")
def test_so_is_a_folder_of_another_user(shared: Path):
    folder = shared / "theirs"
    folder.mkdir()
    if os.geteuid():
        pytest.skip("only root can give a folder away")
    folder.chmod(0o755)
    os.chown(folder, NOBODY, NOBODY)
    with pytest.raises(ConfigError, match="Other users may write to"):
        EmbeddedZooKeeper(folder=folder, starts_max=1).start()
