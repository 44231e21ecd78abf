"""The private folder and the token of a Ray that we start.

The token allows running code as the user who owns Ray. By default Ray lets every user of the machine read the
token's file, and write into its folder, where sockets and logs are.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import stat
import tempfile
from pathlib import Path

from ray._common.utils import get_default_system_temp_dir
from ray._raylet import Config

_log = logging.getLogger(__name__)

#: whether Ray asks for a token; Ray reads it once, and again when it is told to
_MODE = "RAY_AUTH_MODE"
_TOKEN, _TOKEN_FILE = "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
#: Ray has sockets deep in its folder, whose paths may have 107 characters: 64 of them are Ray's own
FOLDER_MAX = 39
_SHORT = Path("/tmp")  # noqa: S108 - only for a folder of ours in it


def private_folder(length_max: int = FOLDER_MAX) -> Path:
    """Return the folder of a Ray of our own: nobody else can enter it, whatever Ray makes of what is in it.

    It is in the folder for temporary files (RAY_TMPDIR, TMPDIR, or /tmp), or in /tmp where that has too long
    a path, and the same one each time.

    Args:
        length_max: characters of a path that is not too long.
    """
    parent = Path(get_default_system_temp_dir())
    if _is_private(parent) and _is_short(parent, length_max):
        return parent
    name = f"canal-group-{os.geteuid()}"
    if not _is_short(parent / name, length_max):
        parent = _SHORT
    folder = parent / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):  # a link or a file: somebody was here before us
        folder.mkdir(mode=0o700, exist_ok=True)
    if not _is_ours(folder):
        return _another(parent, name, length_max)
    folder.chmod(0o700)
    return folder


def _another(parent: Path, name: str, length_max: int) -> Path:
    """Return a folder of ours where its name is taken: any user can do that in a folder for all of them."""
    if not _is_short(parent / f"{name}-12345678", length_max):
        parent = _SHORT
    ours = (folder for folder in sorted(parent.glob(f"{name}-*")) if _is_private(folder))
    return next(ours, None) or Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent))


def require_token() -> None:
    """Let a Ray of our own ask for a token, which our user alone can read. Ray's own settings go first."""
    if _MODE not in os.environ:
        os.environ[_MODE] = "token"
        Config.initialize("")
    if os.environ[_MODE].lower() != "token":
        _log.warning(
            "%s is %s: every user of this machine can run code as this one through Ray",
            _MODE,
            os.environ[_MODE],
        )
        return
    if os.environ.get(_TOKEN):
        return
    path = os.environ.get(_TOKEN_FILE)
    file = Path(path) if path else Path.home() / ".ray" / "auth_token"
    if not path:
        _make(file)
    if not _is_open(file):
        return
    # A file that the user named is the user's: who else reads it is a choice.
    if not path and _hide(file):
        _log.warning(
            "%s was readable by other users of this machine, and is private now. If there are other users,"
            " remove it and start again: that makes a new token",
            file,
        )
    else:
        _log.warning(
            "%s is readable by other users of this machine: they can run code as this one through Ray", file
        )


def _make(file: Path) -> None:
    """Make a token, whole or not at all, if there is none."""
    if file.exists():
        return
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp: readable by us alone.
    handle, name = tempfile.mkstemp(prefix=".auth_token", dir=file.parent)
    try:
        with os.fdopen(handle, "w") as new:
            new.write(secrets.token_hex(32))
        file.hardlink_to(name)
    except FileExistsError:
        pass  # another process was faster
    finally:
        Path(name).unlink()


def _is_open(file: Path) -> bool:
    """Return whether a token is another user's, or one that others may read."""
    try:
        status = file.stat()
    except OSError:
        return False  # Ray says so, in its own words.
    return status.st_uid not in {0, os.geteuid()} or bool(stat.S_IMODE(status.st_mode) & 0o077)


def _hide(file: Path) -> bool:
    """Let nobody but its owner read a token; return whether that could be."""
    try:
        if file.stat().st_uid != os.geteuid():
            return False
        file.chmod(0o600)
    except OSError:
        return False  # on a disk that is not to be written to
    return True


def _is_short(folder: Path, length_max: int) -> bool:
    return len(str(folder)) <= length_max


def _is_private(folder: Path) -> bool:
    return _is_ours(folder) and not stat.S_IMODE(folder.lstat().st_mode) & 0o077


def _is_ours(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
