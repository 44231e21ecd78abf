"""What a Ray of our own keeps to itself, among users who were there before it."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from canal_group.actors.driver import ray_private
from canal_group.actors.driver.ray_private import private_folder, require_token

#: no path here is too long
LONG = 1_000
#: the user id of "nobody", everywhere
NOBODY = 65_534


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that all users write to."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setenv("RAY_TMPDIR", str(folder))
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(ray_private, "Config", SimpleNamespace(initialize=lambda _: None))
    return folder / ".ray" / "auth_token"


def test_the_folder_is_ours_alone_and_the_same_each_time(shared: Path):
    before = os.umask(0)
    try:
        folder = private_folder(LONG)
    finally:
        os.umask(before)
    assert (folder.parent, mode(folder)) == (shared, 0o700)
    folder.chmod(0o755)
    assert (private_folder(LONG), mode(folder)) == (folder, 0o700)


@pytest.mark.parametrize("taken", ["link", "file", "foreign"])
def test_a_link_at_a_taken_name_is_not_followed(taken: str, shared: Path, tmp_path: Path):
    """1. nothing of theirs is used or changed; 2. ours is elsewhere, and ours alone."""
    theirs, trap = tmp_path / "theirs", shared / f"canal-group-{os.geteuid()}"
    theirs.mkdir(mode=0o777)
    theirs.chmod(0o777)
    if taken == "link":
        trap.symlink_to(theirs)
    elif taken == "file":
        trap.write_text("")
    else:
        trap.mkdir()
        if os.geteuid():
            pytest.skip("root alone can make another user's folder")
        os.chown(trap, NOBODY, NOBODY)
    folder = private_folder(LONG)
    assert folder.parent == shared
    assert folder != trap
    assert mode(folder) == 0o700
    assert mode(theirs) == 0o777
    assert list(theirs.iterdir()) == []
    assert private_folder(LONG) == folder, "the same one each time"


def test_a_second_taken_name_is_not_used(shared: Path):
    name = f"canal-group-{os.geteuid()}"
    (shared / name).write_text("")
    (shared / f"{name}-a").symlink_to(shared)
    (shared / f"{name}-b").mkdir(mode=0o755)
    folder = private_folder(LONG)
    assert (mode(folder), folder.is_symlink()) == (0o700, False)
    assert list(shared.glob("*-????????")) == [folder] == [private_folder(LONG)]


def test_a_private_folder_for_temporary_files_is_good_enough(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shared.chmod(0o700)
    assert private_folder(LONG) == shared
    monkeypatch.setattr(ray_private, "_SHORT", tmp_path / "s")
    assert private_folder(len(str(shared)) - 1).parent == tmp_path / "s"


def test_a_path_too_long_for_sockets_is_replaced_by_a_shorter_one(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    short = tmp_path / "s"
    monkeypatch.setattr(ray_private, "_SHORT", short)
    assert private_folder(len(str(shared))).parent == short
    # A name that leaves enough, and a second one, where it is taken, that does not.
    name = f"canal-group-{os.geteuid()}"
    length = len(str(shared / name))
    assert private_folder(length).parent == shared
    (shared / name).rmdir()
    (shared / name).write_text("")
    assert private_folder(length).parent == short


def test_a_token_is_made_that_its_user_alone_can_read(home: Path):
    before = os.umask(0)
    try:
        require_token()
    finally:
        os.umask(before)
    token = home.read_text()
    assert (len(token), mode(home), mode(home.parent)) == (64, 0o600, 0o700)
    assert os.environ["RAY_AUTH_MODE"] == "token"
    assert [each.name for each in home.parent.iterdir()] == ["auth_token"]
    require_token()
    assert home.read_text() == token


def test_a_token_that_others_could_read_is_hidden_and_said(home: Path, caplog: pytest.LogCaptureFixture):
    """Ray itself writes it so."""
    home.parent.mkdir()
    home.write_text("s3cret")
    home.chmod(0o644)
    require_token()
    assert (home.read_text(), mode(home)) == ("s3cret", 0o600)
    assert "was readable by other users" in caplog.text
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize("refusal", ["read-only", "foreign"])
def test_a_token_that_cannot_be_hidden_is_said(
    refusal: str, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """As on a disk that is mounted to be read only; Ray starts all the same."""
    home.parent.mkdir()
    home.write_text("s3cret")
    home.chmod(0o644)
    if refusal == "foreign":
        if os.geteuid():
            pytest.skip("root alone can make another user's file")
        os.chown(home, NOBODY, NOBODY)
    else:
        monkeypatch.setattr(Path, "chmod", _read_only)
    require_token()
    assert mode(home) == 0o644
    assert "is readable by other users" in caplog.text
    assert "cannot any more" not in caplog.text


def _read_only(*_: object) -> None:
    raise OSError(errno.EROFS, "Read-only file system")


def test_a_token_that_the_user_named_is_left_as_it_is(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    file = home.parent.parent / "mine"
    file.write_text("s3cret")
    file.chmod(0o640)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(file))
    require_token()
    assert mode(file) == 0o640
    assert f"{file} is readable by other users" in caplog.text
    caplog.clear()
    file.chmod(0o400)
    require_token()
    assert caplog.text == ""


def test_what_ray_is_told_goes_first(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "s3cret")
    require_token()
    assert not home.exists()
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    require_token()
    assert "every user of this machine can run code" in caplog.text
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(home.parent.parent / "mine"))
    require_token()
    assert not home.exists()
