"""The ZooKeeper tree of one destination: canal's own layout, plus the epochs and the mark of a stop.

    {prefix}/cluster/{host:port}                              ephemeral
    {prefix}/destinations/{dest}/running                      ephemeral  {"active":true,"address":"host:port"}
    {prefix}/destinations/{dest}/cluster/{host:port}          ephemeral
    {prefix}/destinations/{dest}/epoch                        persistent, its version is the server's epoch
    {prefix}/destinations/{dest}/epoch/consumers              persistent, its version is the last lease's
    {prefix}/destinations/{dest}/stopped                      persistent, while an operator keeps it stopped
    {prefix}/destinations/{dest}/stored/{kind}/{name}         persistent, texts that its servers keep
    {prefix}/destinations/{dest}/{client}/filter | cursor     persistent
    {prefix}/destinations/{dest}/{client}/dropped             persistent, if it was inactive for too long
    {prefix}/destinations/{dest}/{client}/losses              persistent, if its sources had purged rows
    {prefix}/destinations/{dest}/{client}/quiet_since         persistent, if it passed what is not kept
    {prefix}/destinations/{dest}/{client}/unread              persistent, if a snapshot could not read tables
    {prefix}/destinations/{dest}/{client}/running             ephemeral
    {prefix}/destinations/{dest}/{client}/lease               persistent, the last consumer, with its epoch

`server_state` has what a server's nodes say besides. The layout follows canal's ZookeeperPathUtils, so that
canal's tools can read it. Servers use it, and so do consumers that connect by ZooKeeper.
"""

from __future__ import annotations

import re

from canal_group.merge.calls.client_id import checked_client_id, is_client_id
from canal_group.merge.errors import ConfigError
from canal_group.merge.well_known import NAME, PREFIX

_PATH = re.compile(r"(/[A-Za-z0-9_.-]*[A-Za-z0-9_-])+")


class Tree:
    """Paths of one destination.

    Args:
        destination: name of the destination.
        prefix: path of canal's tree.

    Raises:
        ConfigError: a name is not valid for a ZooKeeper node.
    """

    def __init__(self, destination: str, prefix: str = PREFIX) -> None:
        if not NAME.fullmatch(destination):
            raise ConfigError(
                f"{destination!r} is not a destination name.",
                hint="Use letters, digits, dots, hyphens and underscores.",
            )
        if not _PATH.fullmatch(prefix):
            raise ConfigError(
                f"{prefix!r} is not a ZooKeeper path.", hint="Expected a path such as /otter/canal."
            )
        self.prefix = prefix
        #: parent of all nodes of this destination
        self.destination = f"{prefix}/destinations/{destination}"
        #: names the active server
        self.running = f"{self.destination}/running"
        #: the node whose version is the server's fencing epoch
        self.epoch = f"{self.destination}/epoch"
        #: the node whose version is the epoch of the consumer that was leased to last, whatever its client id
        self.consumers_epoch = f"{self.epoch}/consumers"
        #: exists while an operator keeps the destination stopped
        self.stopped = f"{self.destination}/stopped"
        #: parents of the ephemeral registrations
        self.clusters = (f"{prefix}/cluster", f"{self.destination}/cluster")

    def servers(self, address: str) -> tuple[str, str]:
        """Return the two nodes by which a server at `address` ("host:port") registers itself."""
        everywhere, here = self.clusters
        return f"{everywhere}/{address}", f"{here}/{address}"

    def stored(self, kind: str) -> str:
        """Return the parent of the texts of a kind that the destination's servers keep."""
        return f"{self.destination}/stored/{kind}"

    def is_client(self, name: str) -> bool:
        """Return whether a child of the destination's node is a client id."""
        return is_client_id(name)

    def client(self, client_id: str) -> str:
        """Return the node of a client id.

        Raises:
            UsageError: the client id is not a valid node name, or is reserved.
        """
        return f"{self.destination}/{checked_client_id(client_id)}"

    def client_running(self, client_id: str) -> str:
        """Return the node that says which consumer holds a client id."""
        return f"{self.client(client_id)}/running"

    def client_lease(self, client_id: str) -> str:
        """Return the node that says which consumer held a client id last, under which epoch."""
        return f"{self.client(client_id)}/lease"
