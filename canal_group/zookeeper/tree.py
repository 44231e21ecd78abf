"""The ZooKeeper tree of one destination: canal's own layout, plus the epochs and the mark of a stop.

    {prefix}/cluster/{host:port}                              ephemeral
    {prefix}/destinations/{dest}/running                      ephemeral  {"active":true,"address":"host:port"}
    {prefix}/destinations/{dest}/cluster/{host:port}          ephemeral
    {prefix}/destinations/{dest}/epoch                        persistent, its version is the server's epoch
    {prefix}/destinations/{dest}/stopped                      persistent, while an operator keeps it stopped
    {prefix}/destinations/{dest}/{client}/filter | cursor     persistent
    {prefix}/destinations/{dest}/{client}/dropped             persistent, if it was away for too long
    {prefix}/destinations/{dest}/{client}/running             ephemeral
    {prefix}/destinations/{dest}/{client}/epoch               persistent, its version is the consumer's epoch

After canal's ZookeeperPathUtils, so that canal's tools can read it. Servers go by it, and consumers that
know ZooKeeper.
"""

from __future__ import annotations

import re

from merge.errors import ConfigError, UsageError

#: Children of a destination that are no client ids; `parse` is canal's own.
RESERVED = frozenset({"cluster", "epoch", "parse", "running", "stopped"})

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_PATH = re.compile(r"(/[A-Za-z0-9_.-]*[A-Za-z0-9_-])+")


class Tree:
    """Paths of one destination.

    Args:
        destination: name of the destination.
        prefix: where canal's tree hangs.

    Raises:
        ConfigError: a name that ZooKeeper does not take as a node.
    """

    def __init__(self, destination: str, prefix: str = "/otter/canal") -> None:
        if not _NAME.fullmatch(destination):
            raise ConfigError(
                f"{destination!r} is not a destination name.",
                hint="Use letters, digits, dots, hyphens and underscores.",
            )
        if not _PATH.fullmatch(prefix):
            raise ConfigError(
                f"{prefix!r} is not a ZooKeeper path.", hint="Expected a path such as /otter/canal."
            )
        self.prefix = prefix
        #: everything of this destination
        self.destination = f"{prefix}/destinations/{destination}"
        #: who is active
        self.running = f"{self.destination}/running"
        #: its version is the server's fencing epoch
        self.epoch = f"{self.destination}/epoch"
        #: stands while an operator keeps the destination stopped
        self.stopped = f"{self.destination}/stopped"
        #: parents of the ephemeral registrations
        self.clusters = (f"{prefix}/cluster", f"{self.destination}/cluster")

    def servers(self, address: str) -> tuple[str, str]:
        """Return the two nodes by which a server at `address` ("host:port") registers itself."""
        everywhere, here = self.clusters
        return f"{everywhere}/{address}", f"{here}/{address}"

    def is_client(self, name: str) -> bool:
        """Return whether a child of the destination's node is a client id."""
        return name not in RESERVED and _NAME.fullmatch(name) is not None

    def client(self, client_id: str) -> str:
        """Return the node of a client id.

        Raises:
            UsageError: the client id cannot be a node beside the destination's own ones.
        """
        if not self.is_client(client_id):
            taken = ", ".join(sorted(RESERVED))
            raise UsageError(
                f"{client_id!r} is not a client id.",
                hint=f"Use letters, digits, dots, hyphens and underscores; {taken} are reserved.",
            )
        return f"{self.destination}/{client_id}"

    def client_running(self, client_id: str) -> str:
        """Return the node that says which consumer holds a client id."""
        return f"{self.client(client_id)}/running"

    def client_epoch(self, client_id: str) -> str:
        """Return the node whose version is the consumer's epoch."""
        return f"{self.client(client_id)}/epoch"
