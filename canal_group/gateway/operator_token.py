"""The operator's token: `serve` makes it for commands of the same user, where settings name no clients.

It is stored in a file that only this user can read, one file for each gateway. The file exists from when the
gateway answers until its last such instance ends; each start makes a new token. A command sends the token
only to the address in the file's name, because a host name may lead to another listener. It does so only
while the listener belongs to this user: when a gateway has ended, another account of the machine can take its
port.

Linux lists which sockets listen: "proc_net_tcp" in the kernel's documentation. An address is printed as
32-bit words, each in the machine's byte order.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
import stat
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from canal_group.merge.errors import ConfigError, UsageError
from canal_group.merge.file_name import file_name

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_LISTEN = "0A"
_EVERY = (ipaddress.IPv4Address(0), ipaddress.IPv6Address(0))


def listeners(host: str, port: int) -> set[int]:
    """Return the ids of the users that listen on an address of this network namespace.

    Args:
        host: an IP address; for any other text the result is empty.
        port: its port.
    """
    try:
        plain = _plain(ipaddress.ip_address(host))
    except ValueError:
        return set()
    sockets = [(at, user) for at, its_port, user in _listening() if its_port == port]
    # A socket on the address itself precedes a wildcard socket, and its own family precedes IPv6.
    for address in (plain, *(each for each in _EVERY if each.version >= plain.version)):
        users = {user for at, user in sockets if at == address}
        if users:
            return users
    return set()


def _listening() -> Iterator[tuple[_Address, int, int]]:
    """Yield (address, port, user id) of each TCP socket that listens."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        # A kernel without IPv6 has no table for it. If a table cannot be read, no listener is known.
        with contextlib.suppress(OSError), open(table, encoding="ascii") as rows:  # noqa: PTH123
            next(rows)
            for row in rows:
                _, local, _, state, _, _, _, user, *_ = row.split()
                if state == _LISTEN:
                    address, _, port = local.rpartition(":")
                    yield _address(address), int(port, 16), int(user)


def _address(text: str) -> _Address:
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    if len(words) == 1:
        return ipaddress.IPv4Address(packed)
    return _plain(ipaddress.IPv6Address(packed))


def _plain(address: _Address) -> _Address:
    """Return an address; one that is IPv4-mapped becomes an IPv4 address."""
    return getattr(address, "ipv4_mapped", None) or address


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
