"""A ZooKeeper ensemble: sessions that expire, nodes with versions and owners, transactions, watches.

A session that is silent for its timeout expires with its ephemeral nodes. While the ensemble itself is
unavailable no time counts, as during the election of a new leader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)

from canal_group.actors.coordination.consumer_nodes import lease_of
from canal_group.actors.group.stored.cursors import CURSORS, subscription_of
from canal_group.actors.meta.zookeeper import ZooKeeperStore
from canal_group.actors.ports import ConsumerLease, Key, Subscription
from canal_group.zookeeper.tree import Tree
from simulation.channel import Channel
from simulation.loop import MS, Future, Loop
from simulation.network import Line, Network
from simulation.process import Process

DESTINATION = "shop"
TREE = Tree(DESTINATION)
#: silence after which a session expires
SESSION_US = 4_000 * MS
#: how often sessions are checked
LOOK_US = 250 * MS


@dataclass
class Session(Line):
    """A client's session."""

    number: int = 0
    owner: str = ""
    heard_us: int = 0
    alive: bool = True


@dataclass
class Node:
    """One node."""

    data: bytes
    #: number of the session that owns it; 0: none
    owner: int = 0
    version: int = 0


@dataclass(frozen=True, slots=True)
class Stat:
    """The metadata of a node, named as in kazoo."""

    version: int
    ephemeralOwner: int  # noqa: N815


#: an operation of a transaction: its name, a path, and data, version, or whether it is ephemeral
Operation = tuple[str, str, Any, Any]


@dataclass
class _Change:
    """The changes of a transaction so far, and how to undo them."""

    results: list[Any] = field(default_factory=list)
    undo: list[tuple[str, Node | None]] = field(default_factory=list)


class ZooKeeper:
    """The ensemble.

    Args:
        loop: its time.
        network: between it and the servers.
        elected: is called with each epoch and its winner.
        written: is called for each subscription that was written, with the epoch.
        forgotten: is called for each client id whose subscription was removed.
    """

    def __init__(
        self,
        loop: Loop,
        network: Network,
        elected: Callable[[int, str], None],
        written: Callable[[Subscription, int], None],
        forgotten: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._network = network
        self._elected = elected
        self._written = written
        self._forgotten = forgotten
        self._sessions: dict[int, Session] = {}
        self._numbers = 0
        self._nodes: dict[str, Node] = {}
        self._watches: dict[str, list[Callable[[], None]]] = {}
        self.channel = Channel(loop, network, "zookeeper")
        self.store = ZooKeeperStore(self, TREE)
        loop.after(LOOK_US, self._look)

    # ---- sessions --------------------------------------------------------------------------------------

    def connect(self, client: Process) -> Session:
        """Begin a session."""
        self._numbers += 1
        session = Session(number=self._numbers, owner=client.name, heard_us=self._loop.now_us)
        self._sessions[session.number] = session
        return session

    def request(self, client: Process, session: Session, act: Callable[[], Any]) -> Future:
        """Run `act`; fail with SessionExpiredError if the session has expired."""

        def run() -> Any:
            if not session.alive:
                raise SessionExpiredError
            session.heard_us = self._loop.now_us
            return act()

        return self.channel.request(client, session, run)

    def end(self, session: Session) -> None:
        """Expire a session with its ephemeral nodes; its client may not know it."""
        if session.alive:
            session.alive = False
            self._sessions.pop(session.number, None)
            self._loop.note("zookeeper", "the session of {} is over", session.owner)
            for path in [path for path, node in self._nodes.items() if node.owner == session.number]:
                del self._nodes[path]
                self._changed(path)

    def _look(self) -> None:
        for session in list(self._sessions.values()):
            if self.channel.away:
                session.heard_us = self._loop.now_us
            elif self._loop.now_us - session.heard_us > SESSION_US:
                self.end(session)
        self._loop.after(LOOK_US, self._look)

    # ---- what a request does ---------------------------------------------------------------------------

    def stat(self, path: str, watch: Callable[[], None] | None = None) -> Stat | None:
        """Return a node's stat; `watch` is called once when it has changed."""
        if watch is not None:
            self._watches.setdefault(path, []).append(watch)
        node = self._nodes.get(path)
        return None if node is None else Stat(node.version, node.owner)

    def get(self, path: str) -> tuple[bytes, Stat]:
        """Return a node's data and stat."""
        if path not in self._nodes:
            raise NoNodeError
        node = self._nodes[path]
        return node.data, Stat(node.version, node.owner)

    def ensure(self, path: str) -> None:
        """Create a node and its missing parents."""
        for end in [index for index, letter in enumerate(path) if letter == "/" and index] + [len(path)]:
            self._nodes.setdefault(path[:end], Node(b""))

    def commit(self, session: Session, operations: Sequence[Operation]) -> list[Any]:
        """Apply all of the changes, or none; return kazoo's results."""
        change = _Change()
        for index, operation in enumerate(operations):
            try:
                change.results.append(self._apply(session, operation, change))
            except KazooException as error:
                for path, node in reversed(change.undo):
                    if node is None:
                        self._nodes.pop(path, None)
                    else:
                        self._nodes[path] = node
                after = len(operations) - index - 1
                return [RolledBackError()] * index + [error] + [RuntimeInconsistency()] * after
        for path in dict.fromkeys(path for path, _ in change.undo):
            self._changed(path)
        self._observe(session, operations)
        return change.results

    def _apply(self, session: Session, operation: Operation, change: _Change) -> Any:
        kind, path, value, option = operation
        node = self._nodes.get(path)
        if kind == "create":
            if node is not None:
                raise NodeExistsError
            if path.rpartition("/")[0] not in self._nodes:
                raise NoNodeError
            made: Node | None = Node(value, session.number if option else 0)
        elif node is None:
            raise NoNodeError
        elif kind == "delete":
            made = None
        else:
            if option not in {-1, node.version}:
                raise BadVersionError
            if kind == "check":
                return True
            made = Node(value, node.owner, node.version + 1)
        change.undo.append((path, node))
        if made is None:
            del self._nodes[path]
            return True
        self._nodes[path] = made
        return path if kind == "create" else Stat(made.version, made.owner)

    def _changed(self, path: str) -> None:
        for watch in self._watches.pop(path, ()):
            self._loop.after(self._network.delay_us(), watch)

    def _observe(self, session: Session, operations: Sequence[Operation]) -> None:
        """Report elections and written subscriptions."""
        clients: dict[str, None] = {}
        for kind, path, _, _ in operations:
            if kind == "set_data" and path == TREE.epoch:
                self._elected(self.epoch, session.owner)
            parent, _, name = path.rpartition("/")
            if kind == "delete" and name == "filter":
                self._forgotten(parent.rpartition("/")[2])
            elif kind != "check" and name in {"filter", "cursor", "dropped"}:
                clients[parent.rpartition("/")[2]] = None
        for client_id in clients:
            text = self.store.get(Key(CURSORS, client_id), self.epoch)
            if text is not None:
                self._written(subscription_of(client_id, text), self.epoch)

    # ---- what is there, for a store that reads it ----------------------------------------

    @property
    def epoch(self) -> int:
        """Return the epoch of the last election."""
        return self._nodes[TREE.epoch].version if TREE.epoch in self._nodes else 0

    def read(self, path: str) -> bytes | None:
        """Return a node's data."""
        return self._nodes[path].data if path in self._nodes else None

    def children(self, path: str) -> list[str]:
        """Return the names of a node's children in order."""
        below = [name[len(path) + 1 :] for name in self._nodes if name.startswith(path + "/")]
        return sorted(name for name in below if "/" not in name)

    def write(self, epoch: int, changes: Sequence[tuple[str, bytes | None]]) -> None:
        """Refuse: this view is read-only."""
        raise NotImplementedError

    def require_epoch(self, epoch: int) -> None:
        """Refuse: this view is read-only."""
        raise NotImplementedError

    def check_epoch(self, epoch: int) -> None:
        """Do nothing: this view is of the ensemble itself."""

    def leases(self) -> list[ConsumerLease]:
        """Return the last holder of each client id."""
        names = filter(TREE.is_client, self.children(TREE.destination))
        found = [(name, self.read(TREE.client_lease(name))) for name in names]
        leases = [lease_of(name, data) for name, data in found if data is not None]
        return [lease for lease in leases if lease is not None]
