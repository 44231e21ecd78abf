"""A server's nodes under canal's two cluster nodes, in which canal's tools see the existing servers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from actors.coordination.connection import Connection
from canal_group.zookeeper.tree import Tree


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
