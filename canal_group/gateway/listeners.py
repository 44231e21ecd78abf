"""Listeners: find the users whose sockets listen on an address of this machine, as Linux lists them.

Format: "proc_net_tcp" in the kernel's documentation. An address is printed as 32-bit words, each in the
machine's byte order.
"""

from __future__ import annotations

import contextlib
import ipaddress
import struct
from collections.abc import Iterator
from typing import TypeAlias

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
    # A socket on the address itself precedes a wildcard one, and one of its own family precedes one of IPv6.
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
