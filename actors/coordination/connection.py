"""One ZooKeeper session, shared by the coordinator and the store of a destination's group.

Rules:
- every call has a deadline; kazoo's own calls wait for ever;
- a call made while the connection is down fails at once. kazoo would queue it until the connection is back;
- kazoo's errors are translated here: connection loss and timeouts become CoordinatorUnavailable, denied
  access becomes ConfigError. If a node's state refuses a transaction (Refused), the caller reads again and
  decides.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from kazoo.client import KazooClient, KazooState, TransactionRequest
from kazoo.exceptions import (
    InvalidACLError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)

from canal_group.actors.coordination.handshake import Handshake
from canal_group.actors.ports import Silence
from canal_group.merge.errors import ConfigError, CoordinatorUnavailable
from canal_group.merge.values.epoch import fenced
from canal_group.zookeeper.client import acl_of, new_client, translated
from canal_group.zookeeper.login import NOBODY, ZooKeeperLogin
from canal_group.zookeeper.tree import Tree

_log = logging.getLogger(__name__)

#: attempts of a write whose nodes change while it is prepared
ATTEMPTS_MAX = 5


class Refused(Exception):  # noqa: N818 - not a failure: an outcome that the caller handles
    """A transaction changed nothing; `reason` is the first refusal, `index` the refused operation."""

    def __init__(self, index: int, reason: Exception) -> None:
        super().__init__(f"operation {index}: {type(reason).__name__}")
        self.index = index
        self.reason = reason


class Connection:
    """A session with translated errors, and writes that only the current epoch can make.

    Safe to use from several threads. Implements `canal_group.actors.meta.zookeeper.FencedNodes`.

    Args:
        hosts: "host:port,host:port", optionally followed by a chroot.
        tree: paths of the destination.
        session_timeout_s: seconds of silence after which ZooKeeper ends the session; the server may change
            it.
        on_change: called on kazoo's threads when the connection's state or a watched node changed. It must
            not block and not call ZooKeeper.
        on_lost: called on kazoo's threads when the session has ended and its ephemeral nodes are gone.
        login: the user. Every node that is created belongs to that user alone.
        make_client: makes the ZooKeeper client.
        clock: seconds on a clock that never steps back.
    """

    def __init__(
        self,
        hosts: str,
        tree: Tree,
        session_timeout_s: float,
        on_change: Callable[[], None],
        on_lost: Callable[[], None],
        login: ZooKeeperLogin = NOBODY,
        make_client: Callable[..., Any] = KazooClient,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        #: when ZooKeeper answered last; before it has, since when it is asked
        self._answered_s = clock()
        self.tree = tree
        self._hosts = hosts
        self._on_change = on_change
        self._on_lost = on_lost
        self._started = False
        self._login = login
        self._acl = acl_of(login)
        self._client = new_client(hosts, session_timeout_s, login, make_client)
        self._client.add_listener(self._state_changed)
        self._handshake = Handshake(self._client, session_timeout_s)

    @property
    def session_timeout_s(self) -> float:
        """Seconds of silence after which the session ends, as the server decided."""
        return self._handshake.negotiated_s

    @property
    def connected(self) -> bool:
        """Whether the session is connected, as far as kazoo has noticed."""
        return bool(self._client.connected)

    @property
    def session_id(self) -> int:
        """Id of the session, as `ephemeralOwner` of its nodes shows it.

        Raises:
            CoordinatorUnavailable: not connected.
        """
        identity = self._client.client_id
        if identity is None:
            raise self._unavailable("is not connected")
        return int(identity[0])

    def silence(self) -> Silence:
        """Return how long ZooKeeper has not answered; what it said holds for a session's timeout."""
        for_s = self._clock() - self._answered_s
        return Silence(f"ZooKeeper at {self._hosts}", for_s, self._handshake.negotiated_s)

    def open(self, timeout_s: float) -> None:
        """Connect, unless connected before; from then on kazoo reconnects by itself.

        Raises:
            CoordinatorUnavailable: no server answered within `timeout_s` seconds; nothing is left open.
        """
        if self._started:
            return
        with self._translated():
            self._client.start(timeout=timeout_s)
        self._started = True

    def close(self) -> None:
        """End the session; its ephemeral nodes are removed if ZooKeeper can be reached."""
        try:
            self._client.stop()
            self._client.close()
        except Exception as error:  # noqa: BLE001 - closing, whatever kazoo says
            _log.warning("zookeeper connection did not close hosts=%s error=%r", self._hosts, error)

    # ---- reads

    def get(self, path: str) -> tuple[bytes, Any] | None:
        """Return a node's data and stat, or None if there is no such node."""
        try:
            data, stat = self._wait(lambda: self._client.get_async(path))
        except NoNodeError:
            return None
        return data or b"", stat

    def stat(self, path: str, *, watch: bool = False) -> Any | None:
        """Return a node's stat, None without a node; with `watch`, call `on_change` once when it changes."""
        watcher = self._watched if watch else None
        return self._wait(lambda: self._client.exists_async(path, watch=watcher))

    def read(self, path: str) -> bytes | None:
        """Return a node's data, or None if the node does not exist."""
        node = self.get(path)
        return None if node is None else node[0]

    def children(self, path: str) -> list[str]:
        """Return the names of a node's children in order; none if there is no such node."""
        try:
            return sorted(self._wait(lambda: self._client.get_children_async(path)))
        except NoNodeError:
            return []

    def sync(self, path: str) -> None:
        """Synchronize with the leader: later reads see at least this state, and the session was alive."""
        self._wait(lambda: self._client.sync_async(path))

    # ---- writes

    def ensure(self, path: str) -> None:
        """Create a persistent node and its parents, if they are missing."""
        try:
            self._wait(lambda: self._client.ensure_path_async(path))
        except NoNodeError as error:
            raise self._unavailable(f"parents of {path} are being removed") from error

    def register(self, path: str, data: bytes = b"") -> bool:
        """Create an ephemeral node; return False if there is one already, or no parent."""
        try:
            self._wait(lambda: self._client.create_async(path, data, ephemeral=True))
        except (NodeExistsError, NoNodeError):
            return False
        return True

    def protect(self, path: str) -> None:
        """Give a node and all nodes below it to our user alone; without a user do nothing.

        They may have been created before there was a user.

        Raises:
            ConfigError: they belong to another user.
        """
        if self._acl is None:
            return
        waiting = [path]
        while waiting:
            node = waiting.pop()
            try:
                acl, _ = self._wait(partial(self._client.get_acls_async, node))
                if acl != self._acl:
                    self._wait(partial(self._client.set_acls_async, node, self._acl))
                    _log.info("zookeeper node protected path=%s user=%s", node, self._login.user)
            except NoNodeError:
                continue
            waiting += [f"{node}/{name}" for name in self.children(node)]

    def transaction(self) -> TransactionRequest:
        """Return a new transaction, to be filled and passed to `commit`."""
        return self._client.transaction()

    def commit(self, transaction: TransactionRequest) -> list[Any]:
        """Make all of a transaction's changes, or none.

        Returns:
            One result for each operation.

        Raises:
            Refused: nothing was changed.
            CoordinatorUnavailable: it is unknown whether it was changed.
        """
        results: list[Any] = self._wait(transaction.commit_async)
        for index, result in enumerate(results):
            if isinstance(result, Exception) and not isinstance(
                result, RolledBackError | RuntimeInconsistency
            ):
                with self._translated():
                    if isinstance(result, NoAuthError | InvalidACLError):
                        raise result
                raise Refused(index, result)
        return results

    def commit_under(self, epoch: int, fill: Callable[[TransactionRequest], None]) -> list[Any]:
        """Make the changes that `fill` adds to a transaction, or none, if `epoch` is current.

        `fill` reads the nodes, and is called again if they changed meanwhile.

        Args:
            epoch: the server's fencing epoch.
            fill: adds operations to the transaction it is given.

        Returns:
            One result for each operation of `fill`.

        Raises:
            FencedError: another epoch is current; nothing was changed.
            CoordinatorUnavailable: it is unknown whether it was changed.
        """
        if epoch <= 0:
            # No server was elected under such an epoch, and to ZooKeeper version -1 means "any".
            raise self.fenced(epoch)
        for _ in range(ATTEMPTS_MAX):
            transaction = self.transaction()
            transaction.check(self.tree.epoch, epoch)
            fill(transaction)
            try:
                return self.commit(transaction)[1:]
            except Refused as refused:
                if refused.index == 0:
                    raise self.fenced(epoch) from refused
        raise self._unavailable(f"nodes below {self.tree.destination} keep changing")

    def write(self, epoch: int, changes: Sequence[tuple[str, bytes | None]]) -> None:
        """Set or create every (path, data) and delete every (path, None), or change nothing at all.

        Missing parents are created.

        Raises:
            FencedError: `epoch` is not the server's current one; nothing was changed.
            CoordinatorUnavailable: it is unknown whether it was changed.
        """

        def fill(transaction: TransactionRequest) -> None:
            made: set[str] = set()
            for path, data in changes:
                exists = self.stat(path) is not None
                if data is None:
                    if exists:
                        transaction.delete(path)
                elif exists:
                    transaction.set_data(path, data)
                else:
                    missing, parent = [], path.rpartition("/")[0]
                    while parent and parent not in made and self.stat(parent) is None:
                        missing.append(parent)
                        parent = parent.rpartition("/")[0]
                    for each in reversed(missing):
                        transaction.create(each)
                    made.update(missing)
                    transaction.create(path, data)

        self.commit_under(epoch, fill)

    def require_epoch(self, epoch: int) -> None:
        """Return if `epoch` is the server's current one; what is read after that is not older.

        Raises:
            FencedError: it is not.
        """
        self.commit_under(epoch, lambda _: None)

    def check_epoch(self, epoch: int) -> None:
        """Return unless another epoch is seen to be current: a read, which costs less than `require_epoch`.

        Raises:
            FencedError: another one is.
        """
        stat = self.stat(self.tree.epoch)
        if stat is None or stat.version != epoch:
            raise self.fenced(epoch)

    def fenced(self, epoch: int) -> Exception:
        """Return the FencedError of a server that acts under `epoch`, with the current epoch looked up."""
        try:
            stat = self.stat(self.tree.epoch)
        except CoordinatorUnavailable:
            return fenced(epoch, None, f"Epoch {epoch} is no longer current.")
        if stat is None:
            return fenced(epoch, None, f"The node {self.tree.epoch} was removed.")
        return fenced(epoch, stat.version, f"Epoch {epoch} is no longer current: epoch {stat.version} is.")

    # ---- inside

    def _wait(self, ask: Callable[[], Any]) -> Any:
        with self._translated():
            self._require_connected()
            try:
                answer = ask().get(timeout=self._handshake.negotiated_s)
            except (NoNodeError, NodeExistsError):
                self._answered_s = self._clock()
                raise
            self._answered_s = self._clock()
            return answer

    def _require_connected(self) -> None:
        if not self._client.connected:
            raise self._unavailable("is not connected")

    def _translated(self) -> AbstractContextManager[None]:
        return translated(self._client, self._refused, self._unavailable)

    def _refused(self, why: str) -> ConfigError:
        who = f"user {self._login.user}" if self._login.user else "a client without a user"
        return ConfigError(
            f"ZooKeeper at {self._hosts} refuses {who} access ({why}).",
            hint=f"Check coordination.user and its password, and the ACLs below {self.tree.prefix}.",
        )

    def _unavailable(self, what: str) -> CoordinatorUnavailable:
        return CoordinatorUnavailable(
            f"ZooKeeper at {self._hosts}: {what}.",
            hint="The call is retried automatically.",
            hosts=self._hosts,
        )

    def _watched(self, _event: Any) -> None:
        self._on_change()

    def _state_changed(self, state: str) -> None:
        """Report a change of state; runs on kazoo's thread, where a call to ZooKeeper would block itself."""
        if state == KazooState.LOST:
            self._on_lost()
        self._on_change()
