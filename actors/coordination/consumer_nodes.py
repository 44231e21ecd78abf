"""The consumers' nodes of one destination: which consumer holds which client id.

The next server and canal's tools read them. A client id's `running` node belongs to the ZooKeeper session
that keeps it alive: the consumer's own if it has one, else the server's. Fencing uses neither, but epochs.
All client ids have one counter, the version of a node: so nothing has to be kept of a client id that is gone.
"""

from __future__ import annotations

import json
from typing import Any

from canal_group.actors.coordination.connection import Connection
from canal_group.actors.ports import ConsumerLease
from canal_group.merge.errors import ConsumerActive


class ConsumerNodes:
    """Reads and writes the consumers' nodes; every write is checked against the server's epoch.

    Args:
        connection: the server's session.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._tree = connection.tree

    def lease(self, server_epoch: int, client_id: str, holder: str, session: str) -> ConsumerLease:
        """Make `holder` the consumer, with a new and higher epoch; errors as for `lease_consumer`."""
        node, running = self._tree.client(client_id), self._tree.client_running(client_id)
        lease_node, counter = self._tree.client_lease(client_id), self._tree.consumers_epoch

        def fill(transaction: Any) -> None:
            stat = self._connection.stat(counter)
            if stat is None:
                transaction.create(counter)
            version = 0 if stat is None else stat.version
            lease = {"epoch": version + 1, "holder": holder, "session": session}
            if self._connection.stat(node) is None:
                transaction.create(node)
            if self._connection.stat(lease_node) is None:
                transaction.create(lease_node, to_json(lease))
            else:
                transaction.set_data(lease_node, to_json(lease))
            self._keep_node(transaction, running, client_id, holder, session)
            transaction.set_data(counter, b"", version=version)

        results = self._connection.commit_under(server_epoch, fill)
        return ConsumerLease(client_id, holder, results[-1].version, session)

    def forget(self, server_epoch: int, client_id: str) -> None:
        """Remove the lease of a client id's last consumer, and the client id's node if that is empty then."""
        node, lease_node = self._tree.client(client_id), self._tree.client_lease(client_id)
        name = lease_node.rpartition("/")[2]

        def fill(transaction: Any) -> None:
            inside = self._connection.children(node)
            if name in inside:
                transaction.delete(lease_node)
            if set(inside) <= {name} and self._connection.stat(node) is not None:
                transaction.delete(node)

        self._connection.commit_under(server_epoch, fill)

    def _keep_node(self, transaction: Any, running: str, client_id: str, holder: str, session: str) -> None:
        """Add the operations that make `running` the holder's; raise if another consumer's session has it."""
        stat = self._connection.stat(running)
        if session:
            if stat is None or stat.ephemeralOwner != int(session, 16):
                raise self._held_by_another(client_id, running)
            transaction.check(running, stat.version)
            return
        if stat is not None:
            transaction.delete(running)
        transaction.create(running, running_state(holder, client_id), ephemeral=True)

    def gone(self, client_id: str, session: str) -> ConsumerLease | None:
        """Return the last holder if its own node is gone, and `running` now belongs to `session`.

        Raises:
            ConsumerActive: the running node does not belong to `session`.
        """
        running = self._tree.client_running(client_id)
        stat = self._connection.stat(running)
        if stat is None or stat.ephemeralOwner != int(session, 16):
            raise self._held_by_another(client_id, running)
        last = self._last(client_id)
        return last if last is not None and last.session not in {"", session} else None

    def session_keeping(self, client_id: str) -> str:
        """Return the session of a consumer that made its own node `running`; empty if a server made it."""
        node = self._connection.get(self._tree.client_running(client_id))
        if node is None or node[1].ephemeralOwner == self._connection.session_id:
            return ""
        last = self._last(client_id)
        made_by_server = last is not None and parsed(node[0]).get("address") == last.holder
        return "" if made_by_server else hex(node[1].ephemeralOwner)

    def keep(self, server_epoch: int, client_id: str, holder: str) -> None:
        """Create the running node of a holder whose server is gone, unless there is one."""
        running = self._tree.client_running(client_id)

        def fill(transaction: Any) -> None:
            if self._connection.stat(running) is None:
                transaction.create(running, running_state(holder, client_id), ephemeral=True)

        self._connection.commit_under(server_epoch, fill)

    def ours(self) -> list[str]:
        """Return the paths of the running nodes that the server's session owns."""
        names = filter(self._tree.is_client, self._connection.children(self._tree.destination))
        nodes = ((path, self._connection.stat(path)) for path in map(self._tree.client_running, names))
        mine = self._connection.session_id
        return [path for path, stat in nodes if stat is not None and stat.ephemeralOwner == mine]

    def release(self, server_epoch: int, client_id: str, session: str) -> None:
        """Remove the running node, if it belongs to the server or to `session`."""
        running = self._tree.client_running(client_id)
        owners = {self._connection.session_id} | ({int(session, 16)} if session else set())

        def fill(transaction: Any) -> None:
            stat = self._connection.stat(running)
            if stat is not None and stat.ephemeralOwner in owners:
                transaction.delete(running)

        self._connection.commit_under(server_epoch, fill)

    def leases(self) -> list[ConsumerLease]:
        """Return the last holder of each client id, in the order of client ids."""
        names = filter(self._tree.is_client, self._connection.children(self._tree.destination))
        return [lease for lease in map(self._last, names) if lease is not None]

    def _last(self, client_id: str) -> ConsumerLease | None:
        data = self._connection.read(self._tree.client_lease(client_id))
        return None if data is None else lease_of(client_id, data)

    def _held_by_another(self, client_id: str, running: str) -> ConsumerActive:
        holder = str(parsed(self._connection.read(running) or b"").get("address") or "nobody")
        return ConsumerActive(
            f"The running node of client {client_id} is held by {holder}, not by this consumer's session.",
            hint="Create the node in this consumer's session first, or wait until it is gone.",
            holder=holder,
            retry_after_s=0.5,
        )


def lease_of(client_id: str, data: bytes) -> ConsumerLease | None:
    """Return the node's lease, or None if its data is not a lease."""
    lease = parsed(data)
    epoch = lease.get("epoch")
    if type(epoch) is not int:
        return None
    return ConsumerLease(client_id, str(lease.get("holder", "")), epoch, str(lease.get("session", "")))


def running_state(holder: str, client_id: str) -> bytes:
    """Return the data of a client id's running node, as canal's clients write it."""
    number = int(client_id) if client_id.isdecimal() else client_id
    return to_json({"active": True, "address": holder, "clientId": number})


def to_json(value: dict[str, Any]) -> bytes:
    """Return a node's data."""
    return json.dumps(value, separators=(",", ":")).encode()


def parsed(data: bytes) -> dict[str, Any]:
    """Return a node's data as a dict; an empty one if it is not a JSON object."""
    try:
        value = json.loads(data)
    except (RecursionError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
