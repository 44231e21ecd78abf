"""Settings of shards that commands add: which files and secrets they may name, and for which servers."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated

from pydantic import AfterValidator, Field

from canal_group.conf.value import AnchoredPath, Settings, Variable, unfit

_LABEL = re.compile(r"[^\s*?:,/\[\]]+")
#: the resolver takes a host whose last label matches for an address: "10.1", "0x7f.1"
_NUMBER = re.compile(r"\d+|0[xX][0-9a-fA-F]*")


def _hosts_entry(value: str) -> str:
    labels = value.split(".")
    valid = all(label == "*" or _LABEL.fullmatch(label) for label in labels)
    if _network(value) is None and (not valid or labels[-1] == "*" or _NUMBER.fullmatch(labels[-1])):
        raise unfit(
            "be addresses such as '10.0.0.7' and '10.0.0.0/8', or a name such as '*.db.example.com', where"
            " `*` is one whole label and not the last"
        )
    return value


#: addresses, as an address or a network, or a name in which `*` is any one label
HostsEntry = Annotated[str, AfterValidator(_hosts_entry)]


class ShardAddSettings(Settings):
    """What shards that are added by command may use; shards of an instance file may use what it names."""

    #: folder of the passwords, certificates and keys that they may name; None: only those that the shards of
    #: the instance file name
    secrets: AnchoredPath | None = None
    #: environment variables that they may name, besides those of the instance file's own shards
    variables: Annotated[tuple[Variable, ...], Field(strict=False)] = ()
    #: servers to which they may log in with a password; to others they log in without one
    hosts: Annotated[tuple[HostsEntry, ...], Field(strict=False)] = ()
    #: folder below which they may read binlog files; None: they may only be servers
    files: AnchoredPath | None = None

    def lists(self, host: str) -> bool:
        """Return whether `hosts` contains a host; addresses match addresses only, and names match names."""
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return any(_fits(host, entry) for entry in self.hosts)
        networks = map(_network, self.hosts)
        return any(network is not None and address in network for network in networks)


def _network(entry: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(entry)
    except ValueError:
        return None


def _fits(name: str, entry: str) -> bool:
    labels, pattern = name.lower().split("."), entry.lower().split(".")
    return len(labels) == len(pattern) and all(
        want in {"*", label} for label, want in zip(labels, pattern, strict=True)
    )
