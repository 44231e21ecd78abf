"""Coordination through ZooKeeper: canal's `running` nodes, and an epoch that fences earlier active servers.

Rules:
- an election is won by one transaction: it creates `running` and increments the version of `epoch`. That
  version is the fencing epoch. The version of `running` could not be: it is 0 again in each new node;
- a tenure is valid for a limited time after the last answered request to ZooKeeper was *sent*, whatever state
  the connection seems to be in: kazoo reports a lost session only after it has reconnected, and to a process
  that was paused the connection looks healthy when it resumes;
- kazoo's threads set flags. Only the keeper thread and the callers' threads send requests to ZooKeeper.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient

from canal_group.actors.coordination.connection import Connection, Refused
from canal_group.actors.coordination.consumer_nodes import ConsumerNodes, parsed, to_json
from canal_group.actors.coordination.held_tenure import HeldTenure
from canal_group.actors.coordination.registration import Registration
from canal_group.actors.ports import ConsumerLease, Host, ServerSeen, Silence, Thread
from canal_group.actors.process.host import OS_HOST
from canal_group.merge.errors import CanalGroupError, CoordinatorUnavailable, UsageError
from canal_group.merge.values.epoch import Tenure, fenced
from canal_group.merge.well_known import PREFIX
from canal_group.zookeeper.login import NOBODY, ZooKeeperLogin
from canal_group.zookeeper.server_state import gateway_of, registered_server, running_server
from canal_group.zookeeper.stop_mark import StopMark
from canal_group.zookeeper.tree import Tree

_log = logging.getLogger(__name__)

#: heartbeats to ZooKeeper in one session timeout; a session survives the loss of several
BEATS_PER_SESSION = 6
#: how long a server that was asked to release does not campaign, seconds; canal's value
RELEASED_S = 5.0


class ZooKeeperCoordinator:
    """Elects one active server for a destination, and stores the one consumer of each client id.

    Guarantees: epochs grow with each election, as long as the `epoch` nodes are not removed; a server that
    cannot reach ZooKeeper fails `check_active` before its session can have expired; every write is refused
    once a newer epoch exists. Does not guarantee that a delivery which passed `check_active` arrives before
    the next server is elected.

    Implements `canal_group.actors.ports.Coordinator`. A fenced coordinator may campaign again, and then waits
    until the active server ends. One that was replaced by a newer incarnation of its own server may not. The
    cursor store shares the session through `connection` and its `tree`.

    Args:
        hosts: "host:port,host:port" of the ZooKeeper servers, optionally followed by a chroot.
        destination: name of the destination.
        address: "host:port" of this server's gateway.
        owner: a token that is the same for all restarts of one server. A new incarnation takes over from the
            old one at once, without waiting for its session to expire.
        canal_address: "host:port" where it serves canal's protocol; empty: nowhere.
        prefix: root of canal's tree.
        session_timeout_s: seconds of silence after which ZooKeeper lets another server win. ZooKeeper bounds
            it to between 2 and 20 of its ticks, and its decision counts.
        margin_s: seconds before the end of the session at which serving stops; None: a sixth of the session
            timeout. It covers the time between `check_active` and the delivery, and half a tick in which a
            ZooKeeper follower reports to its leader that the session is alive.
        connect_timeout_s: seconds that the first connection may take.
        released_s: seconds for which it does not campaign after it was asked to release.
        clock: seconds on a clock that never steps back; None: the host's.
        login: the ZooKeeper user, who owns the destination's nodes.
        host: makes the threads.
        make_client: makes the ZooKeeper client.

    Raises:
        ConfigError: hosts, destination or prefix are invalid.
    """

    def __init__(
        self,
        hosts: str,
        destination: str,
        address: str,
        owner: str,
        *,
        session_timeout_s: float,
        canal_address: str = "",
        prefix: str = PREFIX,
        margin_s: float | None = None,
        connect_timeout_s: float = 15.0,
        released_s: float = RELEASED_S,
        clock: Callable[[], float] | None = None,
        login: ZooKeeperLogin = NOBODY,
        host: Host = OS_HOST,
        make_client: Callable[..., Any] = KazooClient,
    ) -> None:
        self._tree = Tree(destination, prefix)
        self._destination = destination
        self._address = address
        self._state = running_server(address, canal_address)
        self._owner = owner
        self._margin_s = margin_s
        self._released_s = released_s
        self._connect_timeout_s = connect_timeout_s
        self._host = host
        self._clock = clock or host.clock_s
        self._tenure = HeldTenure(destination, self._clock)
        self._closed = host.event()
        #: wakes a waiting campaign
        self._changed = host.event()
        #: wakes the keeper before its time
        self._beat_due = host.event()
        self._keeper: Thread | None = None
        #: an operator's stop mark, as it was last seen
        self._stop_mark: StopMark | None = None
        #: whether `running` was changed to say `"active": false`, and until when not to campaign
        self._release_asked = False
        self._released_until_s = 0.0
        #: "host:port" of the active server, as it was last seen
        self._active_address = ""
        self.connection = Connection(
            hosts,
            self._tree,
            session_timeout_s,
            self._on_change,
            self._on_lost,
            login,
            make_client,
            self._clock,
        )
        self._consumers = ConsumerNodes(self.connection)
        self._registration = Registration(
            self.connection, self._tree, *registered_server(address, canal_address)
        )

    # ---- the server

    def campaign(self) -> int:
        """Wait until this server is the active one of its destination and return its fencing epoch.

        Returns:
            The epoch, from 1; higher than that of any election before.

        Raises:
            CoordinatorUnavailable: the first connection failed. After that, outages only delay the result.
            FencedError: a newer incarnation of this server is active.
            ConfigError: ZooKeeper refuses access.
            UsageError: `close` was called.
        """
        self._open()
        while not self._closed.is_set():
            if self._closed.wait(max(0.0, self._released_until_s - self._clock())):
                continue
            self._changed.clear()
            try:
                self._registration.refresh()
                epoch = self._try_to_win()
                if epoch is not None:
                    return epoch
            except CoordinatorUnavailable as error:
                _log.warning("campaign waits: %s", error.message, extra={"destination": self._destination})
            self._changed.wait(self.connection.session_timeout_s)
        raise UsageError("The coordinator is closed.")

    def check_active(self) -> float:
        """Return for how many seconds this server is certainly the active one, without a request.

        Raises:
            CoordinatorUnavailable: not elected yet, or no answer from ZooKeeper for so long that another
                server may be active.
            FencedError: another server was elected, the session ended, or the coordinator was closed.
        """
        return self._tenure.require().check(self._clock())

    def stop_mark(self) -> StopMark | None:
        """Return the operator's stop mark as last seen, or None."""
        return self._stop_mark

    def release_asked(self) -> bool:
        """Return whether `running` says `"active": false`, with which canal asks a server to release."""
        return self._release_asked

    def silence(self) -> Silence:
        """Return how long ZooKeeper has not answered this server."""
        return self.connection.silence()

    def active_address(self) -> str:
        """Return "host:port" of the active server's gateway as last seen; empty if none, or unknown."""
        return self._active_address

    def servers(self) -> list[ServerSeen]:
        """Return the servers of the destination that are known; see `Registration.servers`."""
        return self._registration.servers()

    def resign(self) -> None:
        """Stop being active in an orderly way: the next server can take over at once. May campaign again."""
        if self._release_asked:
            self._release_asked, self._released_until_s = False, self._clock() + self._released_s
        self._give_up("The activity was given up.")

    def close(self) -> None:
        """Stop being active in an orderly way: the next server can take over at once. May be called again."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._on_change()
        if self._keeper is not None:
            self._keeper.join(timeout=self.connection.session_timeout_s)
        self._give_up("The coordinator was closed.")
        self.connection.close()

    def _give_up(self, why: str) -> None:
        tenure = self._tenure.last
        self._tenure.end(why)
        if tenure is not None and not tenure.over:
            try:
                self._remove_nodes(tenure.epoch)
            except CanalGroupError as error:
                _log.info(
                    "running node not removed, it expires: %s",
                    error.message,
                    extra={"destination": self._destination},
                )

    # ---- its consumers

    def lease_consumer(self, client_id: str, holder: str, session: str = "") -> ConsumerLease:
        """Make `holder` the active consumer of `client_id`, with a new and higher epoch.

        The caller has made sure that no other consumer is alive.

        Raises:
            FencedError: this server is no longer the active one; nothing was changed.
            CoordinatorUnavailable: it is unknown whether the lease was made; making it again is harmless.
            ConsumerActive: the running node is not that of `session`; nothing was changed.
            UsageError: `client_id` cannot be one.
        """
        return self._consumers.lease(self._tenure.require().epoch, client_id, holder, session)

    def keep_consumer(self, client_id: str, holder: str) -> None:
        """Create the running node of a consumer with a lease of an earlier server, unless there is one.

        Raises:
            FencedError: this server is no longer the active one; nothing was changed.
            CoordinatorUnavailable: it is unknown whether it was done; doing it again is harmless.
        """
        self._consumers.keep(self._tenure.require().epoch, client_id, holder)

    def gone_consumer(self, client_id: str, session: str) -> ConsumerLease | None:
        """Return the last holder if it is certainly gone: the node that it kept now belongs to `session`.

        Raises:
            ConsumerActive: the running node does not belong to `session`.
            CoordinatorUnavailable: ZooKeeper did not answer.
        """
        return self._consumers.gone(client_id, session)

    def session_keeping(self, client_id: str) -> str:
        """Return the session that keeps a client id's running node, if a consumer made the node itself.

        canal's clients do, and do not tell it. Empty: there is no such node.

        Raises:
            CoordinatorUnavailable: ZooKeeper did not answer.
        """
        return self._consumers.session_keeping(client_id)

    def release_consumer(self, client_id: str, session: str = "") -> None:
        """Remove the running node if this server, or the consumer's `session`, owns it; its lease stays.

        Raises:
            FencedError: this server is no longer the active one; nothing was changed.
            CoordinatorUnavailable: it is unknown whether it was done; doing it again is harmless.
        """
        self._consumers.release(self._tenure.require().epoch, client_id, session)

    def forget_consumer(self, client_id: str) -> None:
        """Keep nothing of a client id that was unsubscribed; raises as `release_consumer`."""
        self._consumers.forget(self._tenure.require().epoch, client_id)

    def consumers(self) -> list[ConsumerLease]:
        """Return the last holder of each client id, with its epoch, in the order of client ids.

        Raises:
            CoordinatorUnavailable: ZooKeeper did not answer.
        """
        return self._consumers.leases()

    # ---- inside: the election

    def _open(self) -> None:
        if self._closed.is_set():
            raise UsageError("The coordinator is closed.")
        self.connection.open(self._connect_timeout_s)
        if self._keeper is None:
            self.connection.protect(self._tree.destination)
            self._keeper = self._host.start(self._keep, f"zookeeper-keeper-{self._destination}")

    def _try_to_win(self) -> int | None:
        """Return the new epoch, or None while another is active; `_changed` is set when that changes."""
        connection, tree = self.connection, self._tree
        connection.ensure(tree.epoch)
        session_id = connection.session_id
        self._look_at_stop_mark()
        running = connection.stat(tree.running, watch=True)
        self._active_address = gateway_of(connection.read(tree.running) or b"")
        if self._stop_mark is not None:
            return None
        node = connection.get(tree.epoch)
        if node is None:
            self._changed.set()
            return None
        data, epoch_stat = node
        transaction = connection.transaction()
        # Refused if the node exists by now: a destination that was just stopped cannot be won.
        transaction.create(tree.stopped)
        transaction.delete(tree.stopped)
        if running is not None:
            if not self._is_ours(running.ephemeralOwner, session_id, data):
                return None
            if running.ephemeralOwner != session_id:
                self._refuse_to_oust_successor(epoch_stat.version)
            transaction.delete(tree.running)
        transaction.create(tree.running, to_json(self._state), ephemeral=True)
        # The expected version guards everything read above: a server that won meanwhile has changed it.
        claim = {"address": self._address, "owner": self._owner, "session": hex(session_id)}
        transaction.set_data(tree.epoch, to_json(claim), version=epoch_stat.version)
        asked_at_s = self._clock()
        try:
            epoch: int = connection.commit(transaction)[-1].version
        except Refused:
            self._changed.set()
            return None
        self._release_asked = False
        self._tenure.won(Tenure(epoch, asked_at_s + self._lease_s()), session_id)
        self._active_address = self._address
        # The first beat sets the watches.
        self._beat_due.set()
        _log.info(
            "elected at address=%s", self._address, extra={"destination": self._destination, "epoch": epoch}
        )
        return epoch

    def _is_ours(self, holding_session_id: int, session_id: int, claim: bytes) -> bool:
        """Return whether `running` belongs to this session, or to an earlier incarnation of this server.

        It belongs to this session if the answer to an earlier campaign was lost. It belongs to a predecessor
        if the claim carries our owner token, and the session that made the claim holds `running`. (canal's
        own server makes no claims, so it never counts as a predecessor.)
        """
        if holding_session_id == session_id:
            return True
        value = parsed(claim)
        return value.get("owner") == self._owner and value.get("session") == hex(holding_session_id)

    def _refuse_to_oust_successor(self, current_epoch: int) -> None:
        """Raise FencedError if the holder of `running`, with our own owner token, was elected after us.

        Otherwise two running incarnations of one server would replace each other for ever.
        """
        last = self._tenure.last
        if last is not None and current_epoch > last.epoch:
            raise fenced(
                last.epoch,
                current_epoch,
                f"A newer incarnation of {self._owner} is active, not epoch {last.epoch}.",
            )

    # ---- inside: keeping it

    def _keep(self) -> None:
        """Send heartbeats to ZooKeeper until `close`; this is the keeper thread."""
        while not self._closed.is_set():
            self._beat_due.wait(self.connection.session_timeout_s / BEATS_PER_SESSION)
            self._beat_due.clear()
            if self._closed.is_set() or not self.connection.connected:
                continue
            try:
                self._beat()
            except CanalGroupError as error:
                _log.warning("no heartbeat: %s", error.message, extra={"destination": self._destination})

    def _beat(self) -> None:
        """Learn whether this server is still the active one, and confirm its tenure.

        A follower answers from its memory even while it is cut off from its leader, so synchronize with the
        leader first.
        """
        tenure, session_id = self._tenure.last, self._tenure.session_id
        if tenure is not None and not tenure.over:
            asked_at_s = self._clock()
            self.connection.sync(self._tree.epoch)
            epoch_stat = self.connection.stat(self._tree.epoch, watch=True)
            running = self.connection.stat(self._tree.running, watch=True)
            seen = tenure.saw(None if epoch_stat is None else epoch_stat.version)
            if running is None or running.ephemeralOwner != session_id:
                seen = seen.ended(f"The node {self._tree.running} no longer belongs to this server.")
            elif running.version:
                # Only an operator writes to the node; this server only creates the node.
                self._look_whether_to_release()
            self._tenure.update(seen.confirmed(asked_at_s, self._lease_s()))
            self._look_at_stop_mark()
        else:
            # It tells how old what a standby knows is.
            self.connection.stat(self._tree.epoch)
        self._registration.refresh()

    def _look_at_stop_mark(self) -> None:
        stopped = self._tree.stopped
        stat = self.connection.stat(stopped, watch=True)
        text = None if stat is None else self.connection.read(stopped)
        self._stop_mark = None if text is None else StopMark.from_json(text)

    def _look_whether_to_release(self) -> None:
        state = parsed(self.connection.read(self._tree.running) or b"")
        if state.get("active") is False and not self._release_asked:
            self._release_asked = True
            _log.info("asked to release", extra={"destination": self._destination})

    def _lease_s(self) -> float:
        session_timeout_s = self.connection.session_timeout_s
        margin_s = session_timeout_s / BEATS_PER_SESSION if self._margin_s is None else self._margin_s
        return session_timeout_s - margin_s

    def _remove_nodes(self, epoch: int) -> None:
        """Remove `running`, and the consumers' nodes of this session: the next server creates its own."""

        def fill(transaction: Any) -> None:
            for path in (self._tree.running, *self._consumers.ours()):
                if self.connection.stat(path) is not None:
                    transaction.delete(path)

        self.connection.commit_under(epoch, fill)

    def _on_change(self) -> None:
        self._changed.set()
        self._beat_due.set()

    def _on_lost(self) -> None:
        self._tenure.end("The ZooKeeper session has ended; another server may be active.")
