"""The coordinator's ensemble: sessions that expire, `running`, the epochs, and the nodes of the cursors.

A request is one transaction. A session that was not heard of for its timeout expires with its ephemeral
nodes; while the ensemble itself is away no time counts, as after the election of a new leader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from actors.ports import ConsumerLease
from merge.epoch import fenced
from simulation.channel import Channel, Line
from simulation.loop import MS, Future, Loop
from simulation.network import Network
from simulation.process import Process

#: silence after which a session is over
SESSION_US = 4_000 * MS
#: how often sessions are looked at
LOOK_US = 250 * MS


@dataclass
class Session(Line):
    """A client's session."""

    owner: str = ""
    heard_us: int = 0
    alive: bool = True


@dataclass
class Running:
    """The `running` node of the destination."""

    session: Session
    owner: str


class ZooKeeper:
    """The ensemble; implements `actors.meta.zookeeper.FencedNodes` for whoever acts inside a request.

    Args:
        loop: its time.
        network: between it and the servers.
        elected: is told each epoch and who won it.
    """

    def __init__(self, loop: Loop, network: Network, elected: Callable[[int, str], None]) -> None:
        self._loop = loop
        self._network = network
        self._elected = elected
        self._sessions: list[Session] = []
        self._nodes: dict[str, bytes] = {}
        self._leases: dict[str, ConsumerLease] = {}
        self._watches: list[Callable[[], None]] = []
        self.channel = Channel(loop, network, "zookeeper")
        #: version of the epoch's node: the epoch of the last election
        self.epoch = 0
        self.running: Running | None = None
        loop.after(LOOK_US, self._look)

    # ---- sessions --------------------------------------------------------------------------------------

    def connect(self, client: Process) -> Session:
        """Begin a session."""
        session = Session(owner=client.name, heard_us=self._loop.now_us)
        self._sessions.append(session)
        return session

    def request(self, client: Process, session: Session, act: Callable[[], Any]) -> Future:
        """Run `act` as one transaction; fails with FencedError if the session is over."""

        def run() -> Any:
            if not session.alive:
                raise fenced(0, None, "The ZooKeeper session has ended.")
            session.heard_us = self._loop.now_us
            return act()

        return self.channel.request(client, session, run)

    def expire(self, session: Session) -> None:
        """End a session, whatever its client thinks."""
        if session.alive:
            session.alive = False
            self._loop.note("zookeeper", "the session of {} is over", session.owner)
            self.resign(session)

    def watch(self, action: Callable[[], None]) -> None:
        """Call `action` once when `running` has changed."""
        self._watches.append(action)

    def _fire(self) -> None:
        watches, self._watches = self._watches, []
        for action in watches:
            self._loop.after(self._network.delay_us(), action)

    def _look(self) -> None:
        for session in self._sessions:
            if self.channel.away:
                session.heard_us = self._loop.now_us
            elif self._loop.now_us - session.heard_us > SESSION_US:
                self.expire(session)
        self._sessions = [session for session in self._sessions if session.alive]
        self._loop.after(LOOK_US, self._look)

    # ---- what a transaction does -----------------------------------------------------------------------

    def win(self, session: Session, owner: str, epoch: int) -> int | None:
        """Take `running`, if it is free or an older incarnation's and `epoch` is still the last one."""
        if epoch != self.epoch:
            return None
        if self.running is not None and self.running.session is not session and self.running.owner != owner:
            return None
        self.running = Running(session, owner)
        self.epoch += 1
        self._elected(self.epoch, session.owner)
        self._fire()
        return self.epoch

    def resign(self, session: Session) -> None:
        """Remove `running` if it is this session's."""
        if self.running is not None and self.running.session is session:
            self.running = None
            self._fire()

    def lease(self, epoch: int, client_id: str, holder: str) -> ConsumerLease:
        """Give a client id to a holder under a new epoch."""
        self.require_epoch(epoch)
        last = self._leases.get(client_id)
        lease = ConsumerLease(client_id, holder, 1 if last is None else last.epoch + 1)
        self._leases[client_id] = lease
        return lease

    def leases(self) -> list[ConsumerLease]:
        """Return the last holder of each client id."""
        return [self._leases[client_id] for client_id in sorted(self._leases)]

    def read(self, path: str) -> bytes | None:
        """Return a node's data."""
        return self._nodes.get(path)

    def children(self, path: str) -> list[str]:
        """Return the names of a node's children in order."""
        below = [name[len(path) + 1 :] for name in self._nodes if name.startswith(path + "/")]
        return sorted(dict.fromkeys(name.partition("/")[0] for name in below))

    def write(self, epoch: int, changes: Sequence[tuple[str, bytes | None]]) -> None:
        """Set or remove nodes, all or none."""
        self.require_epoch(epoch)
        for path, data in changes:
            if data is None:
                self._nodes.pop(path, None)
            else:
                self._nodes[path] = data

    def require_epoch(self, epoch: int) -> None:
        """Refuse every epoch but the last one."""
        if epoch != self.epoch:
            raise fenced(epoch, self.epoch, f"Epoch {epoch} is not the current one.")
