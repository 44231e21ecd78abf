"""A server's nodes under canal's two cluster nodes, by which canal's tools see which servers there are."""

from __future__ import annotations

from actors.coordination.connection import Connection
from canal_group.zookeeper.tree import Tree


class Registration:
    """Shows one server under both cluster nodes, as canal's servers do.

    Args:
        connection: by whose session it is shown.
        tree: of the destination.
        address: "host:port" of the server.
    """

    def __init__(self, connection: Connection, tree: Tree, address: str) -> None:
        self._connection = connection
        self._tree = tree
        self._address = address
        #: (session id, path) of every node that is ours
        self._registered: set[tuple[int, str]] = set()

    def refresh(self) -> None:
        """Make the nodes that are missing; once in each session.

        A node that another session holds (another destination of this server, a predecessor) is tried again
        with the next beat.

        Raises:
            CoordinatorUnavailable: ZooKeeper did not answer.
        """
        session_id = self._connection.session_id
        for parent, node in zip(self._tree.clusters, self._tree.servers(self._address), strict=True):
            if (session_id, node) in self._registered:
                continue
            self._connection.ensure(parent)
            if self._connection.register(node):
                self._registered = {mine for mine in self._registered if mine[0] == session_id}
                self._registered.add((session_id, node))
