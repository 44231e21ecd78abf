"""Broker: an address of a broker as people write it: host, host and port, an IPv6 address, or a URI."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from canal_group.conf.sentence import shown
from canal_group.conf.value import is_host_and_port
from canal_group.programs.migration.canal_files.properties import Entry
from canal_group.programs.migration.canal_files.secret_text import masked

_SCHEMES: Final = {"amqp": False, "amqps": True}
_IPV6 = re.compile(r"\[?(?P<host>[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)\]?")
_PROTOCOL = re.compile(r"[A-Za-z_]+://")


@dataclass(frozen=True, slots=True)
class Broker:
    """Where a broker of RabbitMQ is, and what else a URI says."""

    host: str
    #: None: it is not said
    port: int | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    virtual_host: str | None = None
    is_encrypted: bool = False


def broker_of(entry: Entry, text: str) -> Broker:
    """Return the broker that a text names.

    Raises:
        ConfigError: it is not an address; the message does not show its user and password.
    """
    address = _IPV6.fullmatch(text)
    if address is not None:
        return Broker(address["host"])
    try:
        parts = urlsplit(text if "://" in text else f"amqp://{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _no_address(entry, text) from None
    if not host or parts.scheme not in _SCHEMES or re.search(r"[\s,;]", parts.netloc):
        raise _no_address(entry, text)
    return Broker(
        host,
        port,
        None if parts.username is None else unquote(parts.username),
        None if parts.password is None else unquote(parts.password),
        unquote(parts.path[1:]) or None,
        _SCHEMES[parts.scheme],
    )


def servers_of(entry: Entry, text: str) -> str:
    """Return Kafka's servers, `host:port` separated by commas; a protocol before one is left out.

    Raises:
        ConfigError: one of them has no port, or is not an address.
    """
    servers = [_PROTOCOL.sub("", each.strip(), count=1) for each in text.split(",") if each.strip()]
    if not servers or not all(map(is_host_and_port, servers)):
        raise entry.wrong("be `host:port`, several separated by commas", f"is {shown(masked(text))}")
    return ",".join(servers)


def _no_address(entry: Entry, text: str) -> Exception:
    return entry.wrong(
        "be a host, `host:port`, or a URI amqp://user:password@host:port/virtual-host",
        f"is {shown(masked(text))}",
    )
