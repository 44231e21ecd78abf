"""A server's nodes under canal's two cluster nodes, in which canal's tools see the existing servers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from canal_group.actors.coordination.connection import Connection
from canal_group.actors.coordination.consumer_nodes import parsed
from canal_group.actors.ports import ServerSeen
from canal_group.zookeeper.tree import Tree

#: servers that stand by of which a status tells
STANDBYS_MAX = 16


class Registration:
    """Registers one server under both cluster nodes, as canal's servers do.

    Args:
        connection: its session owns the nodes.
        tree: paths of the destination.
        address: "host:port" of the server, by which canal's clients find it.
        state: what its nodes say besides.
    """

    def __init__(
        self, connection: Connection, tree: Tree, address: str, state: Mapping[str, Any] | None = None
    ) -> None:
        self._connection = connection
        self._tree = tree
        self._address = address
        self._data = json.dumps(state, separators=(",", ":")).encode() if state else b""
        #: (session id, path) of every node that this server owns
        self._registered: set[tuple[int, str]] = set()

    def refresh(self) -> None:
        """Create the missing nodes; once in each session.

        If another session holds a node (another destination of this server, a predecessor), the next
        heartbeat tries again.

        Raises:
            CoordinatorUnavailable: ZooKeeper did not answer.
        """
        session_id = self._connection.session_id
        for parent, node in zip(self._tree.clusters, self._tree.servers(self._address), strict=True):
            if (session_id, node) in self._registered:
                continue
            self._connection.ensure(parent)
            if self._connection.register(node, self._data):
                self._registered = {mine for mine in self._registered if mine[0] == session_id}
                self._registered.add((session_id, node))

    def servers(self) -> list[ServerSeen]:
        """Return the active server and `STANDBYS_MAX` that stand by; times are of ZooKeeper's clock.

        Raises:
            CoordinatorUnavailable: ZooKeeper did not answer.
        """
        seen = []
        active = ""
        running = self._connection.get(self._tree.running)
        if running is not None:
            data, stat = running
            active = str(parsed(data).get("address", ""))
            seen.append(ServerSeen(active, active=True, since_us=_created_us(stat)))
        _, cluster = self._tree.clusters
        standbys = [name for name in self._connection.children(cluster) if name != active]
        for name in standbys[:STANDBYS_MAX]:
            node_stat = self._connection.stat(f"{cluster}/{name}")
            if node_stat is not None:
                seen.append(ServerSeen(name, active=False, since_us=_created_us(node_stat)))
        return seen


def _created_us(stat: Any) -> int:
    return int(stat.ctime) * 1000
