"""The operator's token: `serve` makes it for commands of the same user, where settings name no clients.

It is stored in a file that only this user can read, one file for each gateway. The file exists from when the
gateway answers until its last such instance ends; each start makes a new token. A command sends the token
only to the address in the file's name, because a host name may lead to another listener. It does so only
while the listener belongs to this user: when a gateway has ended, another account of the machine can take its
port.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from canal_group.gateway.listeners import listeners
from canal_group.merge.errors import ConfigError, UsageError
from canal_group.merge.file_name import file_name

_FOLDER = "canal-group"
_BYTES_MAX = 1_024
#: wildcard address -> the loopback address by which its gateway is reached on its own machine
_OF_EVERY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  an address to look up, not to bind


class OperatorToken:
    """A token, and its file from `publish` until `close`.

    Args:
        host: address that the gateway listens on.
        port: port that the gateway listens on.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = _OF_EVERY.get(host, host), port
        #: the token
        self.token = secrets.token_urlsafe(32)
        #: the file; None if the token is not published
        self.file: Path | None = None

    def publish(self) -> None:
        """Write the token to its file, for this user's commands; call it once the gateway answers.

        Raises:
            ConfigError: this user has no private folder.
        """
        folder = _folder_to_write()
        try:
            target = folder / file_name(_name(self._host, self._port))
            new = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
            # A new file: no other process has it open, and no link is followed.
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(self.token)
            new.replace(target)
        except OSError as error:
            raise ConfigError(
                f"The operator's token cannot be written into {folder} ({error.strerror})."
            ) from error
        self.file = target

    def close(self) -> None:
        """Remove the file, unless another server has replaced it."""
        if self.file is None:
            return
        with contextlib.suppress(OSError):
            if _read(self.file) == self.token:
                self.file.unlink()
        self.file = None


def find_token(uri: str) -> str | None:
    """Return the token with which this user may operate the gateway at an address; None if there is none.

    Ask again for each call: the listener may have changed.
    """
    try:
        where = urlsplit(uri)
        host, port = where.hostname, where.port
    except ValueError:
        return None
    if host is None or port is None or not (_is_here(host) or where.scheme.endswith("+tls")):
        return None
    if listeners(host, port) != {os.geteuid()}:
        return None
    for folder in _folders():
        with contextlib.suppress(OSError, UsageError):
            _check(folder)
            return _read(folder / file_name(_name(host, port)))
    return None


def _is_here(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def _name(host: str, port: int) -> str:
    """Return the name of a gateway's file; it is unique for machines and containers that share a home."""
    network = Path("/proc/self/ns/net").stat().st_ino
    return f"{os.uname().nodename}-{network}-{host.lower().replace(':', '_')}-{port}"


def _folders() -> list[Path]:
    """Return the folders where tokens may be. The first one is the same in every session of the user."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not Path(cache).is_absolute():
        home = os.path.expanduser("~")  # noqa: PTH111  it never raises
        cache = f"{home}/.cache" if home.startswith("/") else ""
    bases = (cache, os.environ.get("XDG_RUNTIME_DIR", ""))
    return [Path(base) / _FOLDER for base in bases if base.startswith("/")]


def _folder_to_write() -> Path:
    why = "neither a home folder nor XDG_RUNTIME_DIR is set"
    for folder in _folders():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            _check(folder)
        except OSError as error:
            why = f"{folder}: {error.strerror}"
        else:
            return folder
    raise ConfigError(f"This user has no folder of its own for the operator's token ({why}).")


def _check(folder: Path) -> None:
    """Check that only this user can read a folder and its content.

    Raises:
        OSError: it does not exist, or others can read it.
    """
    _check_own(folder.lstat(), stat.S_ISDIR)


def _check_own(status: os.stat_result, is_kind: Callable[[int], bool]) -> None:
    if not is_kind(status.st_mode) or status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise PermissionError(1, "is not private to this user (chmod 700, and no link)")


def _read(file: Path) -> str:
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, encoding="ascii", errors="replace") as opened:
        _check_own(os.fstat(descriptor), stat.S_ISREG)
        return opened.read(_BYTES_MAX)
