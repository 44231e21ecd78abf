"""A client of the simulated ensemble: what `canal_group.actors.coordination.connection` uses of kazoo's."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kazoo.client import KazooState
from kazoo.exceptions import ConnectionLoss, NodeExistsError, SessionExpiredError

from simulation.channel import NoAnswerError
from simulation.loop import MS, Future
from simulation.process import Process
from simulation.zookeeper import SESSION_US, Operation, Session, ZooKeeper

#: interval of a client's pings, and delay before it reconnects
PING_US = SESSION_US // 3
RECONNECT_US = 200 * MS


class KazooTimeoutError(Exception):
    """An answer did not come in time."""


class Client:
    """See the module; every method may be called by any thread of its process.

    Args:
        zookeeper: the ensemble.
        process: the process that uses it.
    """

    def __init__(self, zookeeper: ZooKeeper, process: Process) -> None:
        self._zookeeper = zookeeper
        self._process = process
        self._incarnation = process.incarnation
        self._session: Session | None = None
        self._listeners: list[Callable[[str], None]] = []
        self._stopped = False
        self.connected = False
        self.handler = SimpleNamespace(timeout_exception=KazooTimeoutError, create_connection=None)
        #: where kazoo's handshake is listened to
        self._connection = SimpleNamespace(_invoke=None)

    @property
    def client_id(self) -> tuple[int, bytes] | None:
        """Return the session's number; None before the first."""
        return None if self._session is None else (self._session.number, b"")

    def add_listener(self, listener: Callable[[str], None]) -> None:
        """Tell `listener` of each change of the connection's state."""
        self._listeners.append(listener)

    def start(self, timeout: float) -> None:
        """Connect."""
        self._ping_soon(0)
        waited_us, step_us = 0, 50 * MS
        event = self._process.host.event()
        while not self.connected and waited_us < timeout * 1e6:
            event.wait(step_us / 1e6)
            waited_us += step_us
        if not self.connected:
            raise KazooTimeoutError

    def stop(self) -> None:
        """End the session."""
        self._stopped = True
        session = self._session
        if session is not None and self.connected:
            ended = self._zookeeper.request(self._process, session, lambda: self._zookeeper.end(session))
            self._process.host.wait_for(ended, SESSION_US / 1e6)
        self.connected = False

    def close(self) -> None:
        """Do nothing: `stop` did everything."""

    # ---- requests --------------------------------------------------------------------------------------

    def get_async(self, path: str) -> Answer:
        """Return a node's data and stat."""
        return self._ask(lambda _: self._zookeeper.get(path))

    def exists_async(self, path: str, watch: Callable[[Any], None] | None = None) -> Answer:
        """Return a node's stat, or None."""
        watcher = None if watch is None else lambda: self._soon(lambda: watch(None))
        return self._ask(lambda _: self._zookeeper.stat(path, watcher))

    def get_children_async(self, path: str) -> Answer:
        """Return the names of a node's children."""

        def children(_: Session) -> list[str]:
            self._zookeeper.get(path)
            return self._zookeeper.children(path)

        return self._ask(children)

    def sync_async(self, path: str) -> Answer:
        """Return once the leader has answered."""
        return self._ask(lambda _: path)

    def ensure_path_async(self, path: str) -> Answer:
        """Create a node and its parents."""
        return self._ask(lambda _: self._zookeeper.ensure(path))

    def create_async(self, path: str, value: bytes = b"", *, ephemeral: bool = False) -> Answer:
        """Create a node."""

        def create(session: Session) -> str:
            (result,) = self._zookeeper.commit(session, [("create", path, value, ephemeral)])
            if isinstance(result, Exception):
                raise NodeExistsError
            return path

        return self._ask(create)

    def transaction(self) -> Transaction:
        """Return an empty transaction."""
        return Transaction(self)

    def commit(self, operations: list[Operation]) -> Answer:
        """Apply all changes of a transaction, or none."""
        return self._ask(lambda session: self._zookeeper.commit(session, operations))

    def _ask(self, act: Callable[[Session], Any]) -> Answer:
        session = self._session
        assert session is not None, "it was connected"
        result = Future()
        answer = self._zookeeper.request(self._process, session, lambda: act(session))
        answer.then(lambda: self._soon(lambda: self._answered(answer, result, session)))
        return Answer(result, self._process)

    def _answered(self, answer: Future, result: Future, session: Session) -> None:
        try:
            result.set(answer.result())
        except NoAnswerError:
            result.fail(ConnectionLoss())
            self._lose(session)
        except SessionExpiredError as error:
            result.fail(error)
            self._expired(session)
        except Exception as error:  # noqa: BLE001  the caller's
            result.fail(error)

    def _soon(self, action: Callable[[], None]) -> None:
        self._process.soon(action, self._incarnation)

    # ---- the connection --------------------------------------------------------------------------------

    def _ping_soon(self, delay_us: int) -> None:
        self._process.after(delay_us, self._ping)

    def _ping(self) -> None:
        """Send a ping, or reconnect."""
        if self._stopped:
            return
        session = self._session or self._zookeeper.connect(self._process)
        answer = self._zookeeper.request(self._process, session, lambda: None)
        answer.then(lambda: self._soon(lambda: self._pinged(answer, session)))

    def _pinged(self, answer: Future, session: Session) -> None:
        try:
            answer.result()
        except NoAnswerError:
            self._lose(session)
            self._ping_soon(RECONNECT_US)
        except SessionExpiredError:
            self._expired(session)
            self._ping_soon(0)
        else:
            if self._session is None:
                self._session = session
            if not self.connected and not self._stopped:
                self.connected = True
                self._tell(KazooState.CONNECTED)
            self._ping_soon(PING_US)

    def _lose(self, session: Session) -> None:
        if self.connected and session is self._session:
            self.connected = False
            self._tell(KazooState.SUSPENDED)
            self._ping_soon(RECONNECT_US)

    def _expired(self, session: Session) -> None:
        if session is self._session:
            self._session, self.connected = None, False
            self._tell(KazooState.LOST)

    def _tell(self, state: str) -> None:
        for listener in self._listeners:
            listener(state)


class Transaction:
    """Operations that are applied together, or not at all."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._operations: list[Operation] = []

    def create(self, path: str, value: bytes = b"", *, ephemeral: bool = False) -> None:
        """Add the creation of a node."""
        self._operations.append(("create", path, value, ephemeral))

    def delete(self, path: str) -> None:
        """Add the removal of a node."""
        self._operations.append(("delete", path, None, None))

    def set_data(self, path: str, value: bytes, version: int = -1) -> None:
        """Add the writing of a node."""
        self._operations.append(("set_data", path, value, version))

    def check(self, path: str, version: int) -> None:
        """Add the condition that a node has a version."""
        self._operations.append(("check", path, None, version))

    def commit_async(self) -> Answer:
        """Apply all changes, or none."""
        return self._client.commit(self._operations)


class Answer:
    """The future answer to a request, like kazoo's IAsyncResult."""

    def __init__(self, result: Future, process: Process) -> None:
        self._result = result
        self._process = process

    def get(self, timeout: float) -> Any:
        """Return the answer; wait for it up to the timeout."""
        if not self._process.host.wait_for(self._result, timeout):
            raise KazooTimeoutError
        return self._result.result()
