"""RPC clients: of one connection, and of an actor, with reconnects after its restart."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from functools import partial
from typing import Any, Self, TypeAlias

from canal_group.actors.transport.rpc_connection import RpcConnection
from canal_group.actors.transport.rpc_wire import FRAME_BYTES_MAX, RpcAddress, pack
from canal_group.merge.errors import CanalGroupError, ServerUnavailable
from canal_group.merge.tls import client_context
from canal_group.shared_memory.handshake import GREETING_BYTES, GREETING_TIMEOUT_S, ClientHandshake

_log = logging.getLogger(__name__)

#: pause before a connection is opened again, seconds
REOPEN_S = 0.1
#: the same after an unexpected error, which is logged
DEFECT_PAUSE_S = 1.0
#: how long a call waits for a connection that is being opened, seconds
CLIENT_WAIT_S = 1.0

#: the future of a call's answer: of the connection's loop, or of another thread
Answer: TypeAlias = "asyncio.Future[Any] | Future[Any]"


class RpcClient:
    """An open RPC connection, made by `open`; call its methods on one event loop only.

    Args:
        connection: after the handshake.
        whom: name of the server in error messages, as the subject of a sentence.
        frame_bytes_max: longest frame.
    """

    def __init__(self, connection: RpcConnection, whom: str, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._connection, self._whom = connection, whom
        self._frame_bytes_max = frame_bytes_max
        self._numbers = itertools.count()
        self._waiting: dict[int, Answer] = {}
        self._loop = asyncio.get_running_loop()
        #: done when the connection has ended
        self.ended = connection.ended
        self.ended.add_done_callback(self._over)
        connection.listen(self._take)

    @classmethod
    async def open(cls, address: RpcAddress, whom: str, frame_bytes_max: int = FRAME_BYTES_MAX) -> Self:
        """Return a new connection to a server.

        Raises:
            ServerUnavailable: no server that knows the secret answers at this address.
        """
        tls = None if address.certificate is None else client_context(ca_pem=address.certificate.decode())
        try:
            async with asyncio.timeout(GREETING_TIMEOUT_S):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: RpcConnection(frame_bytes_max), address.host, address.port, ssl=tls
                )
                try:
                    handshake = ClientHandshake(address.secret)
                    connection.send(handshake.hello)
                    connection.send(handshake.response(await connection.exactly(GREETING_BYTES)))
                except BaseException:
                    connection.close()
                    raise
        except OSError as error:
            raise _unavailable(whom, error) from error
        return cls(connection, whom, frame_bytes_max)

    def ask(self, method: str, *arguments: Any, **keywords: Any) -> asyncio.Future[Any]:
        """Call a method of the server; return a future of its answer.

        The future raises what the method raised. It raises ServerUnavailable if the connection broke; then it
        is unknown whether the server received the call.

        Raises:
            ValueError: the call is longer than a frame may be.
            Exception: the arguments cannot be pickled.
        """
        answer: asyncio.Future[Any] = self._loop.create_future()
        self.ask_for(answer, method, *arguments, **keywords)
        return answer

    def ask_for(self, answer: Answer, method: str, *arguments: Any, **keywords: Any) -> None:
        """Call a method of the server as `ask` does, and set a future, which may be of another thread."""
        if self.ended.done():
            _set(answer, _unavailable(self._whom), None)
            return
        number = next(self._numbers)
        frame = pack((number, method, arguments, keywords), self._frame_bytes_max)
        self._waiting[number] = answer
        answer.add_done_callback(lambda _: self._waiting.pop(number, None))
        self._connection.send(frame)

    @property
    def has_ended(self) -> bool:
        """Whether the connection broke, or was closed; no call that waits has heard of it before."""
        return self._connection.has_ended

    def close(self) -> None:
        """Close the connection; calls that wait for an answer raise ServerUnavailable."""
        self._connection.close()

    def _take(self, message: tuple[int, Exception | None, Any]) -> None:
        number, error, value = message
        answer = self._waiting.get(number)
        if answer is not None:  # Otherwise its caller no longer waits.
            _set(answer, error, value)

    def _over(self, ended: asyncio.Future[Exception | None]) -> None:
        self._connection.close()
        for answer in list(self._waiting.values()):
            _set(answer, _unavailable(self._whom, ended.result()), None)


class KeptRpcClient:
    """A client of an actor that may restart: it opens a new connection when the last one broke.

    Args:
        whom: name of the actor in error messages, as the subject of a sentence.
        find: returns the actor's current address; after any error it is called again.
        wait_s: how long a call waits for a connection that is being opened, seconds.
        defect_pause_s: pause before a connection is opened again after an unexpected error, seconds.
    """

    def __init__(
        self,
        whom: str,
        find: Callable[[], Awaitable[RpcAddress]],
        *,
        wait_s: float = CLIENT_WAIT_S,
        defect_pause_s: float = DEFECT_PAUSE_S,
    ) -> None:
        self._whom, self._find = whom, find
        self._wait_s, self._defect_pause_s = wait_s, defect_pause_s
        self._rpc: RpcClient | None = None
        #: set when a connection was opened; whoever waits for one clears it
        self._opened = asyncio.Event()
        #: calls of other threads that wait for a connection
        self._later: set[asyncio.Task[Any]] = set()

    async def keep(self) -> None:
        """Keep a connection open until cancelled."""
        while True:
            try:
                self._rpc = rpc = await RpcClient.open(await self._find(), self._whom)
            except CanalGroupError as error:
                _log.debug("%s", error)
                await asyncio.sleep(REOPEN_S)
                continue
            except Exception:  # noqa: BLE001  the process cannot work without the connection: try again
                _log.exception("%s: no RPC connection could be opened; trying again", self._whom)
                await asyncio.sleep(self._defect_pause_s)
                continue
            self._opened.set()
            try:
                await asyncio.wait([rpc.ended])
            finally:
                rpc.close()

    async def ask(self, method: str, *arguments: Any, **keywords: Any) -> Any:
        """Call a method and return its answer; wait up to `wait_s` for a connection.

        A call is never repeated: if the connection broke, the server may have received the call.

        Raises:
            ServerUnavailable: there is no connection, or it broke.
            Exception: what the method raised.
        """
        try:
            async with asyncio.timeout(self._wait_s):
                while self._rpc is None or self._rpc.has_ended:
                    self._opened.clear()
                    await self._opened.wait()
        except TimeoutError:
            raise _unavailable(self._whom) from None
        return await self._rpc.ask(method, *arguments, **keywords)

    def ask_for(self, answer: Future[Any], method: str, *arguments: Any) -> None:
        """Call a method as `ask` does, and set a future of another thread."""
        if self._rpc is not None and not self._rpc.has_ended:
            try:
                self._rpc.ask_for(answer, method, *arguments)
            except Exception as error:  # noqa: BLE001  it is reported to the caller
                _set(answer, error, None)
            return
        later = asyncio.ensure_future(self.ask(method, *arguments))
        self._later.add(later)
        later.add_done_callback(partial(self._answered, answer))

    def _answered(self, answer: Future[Any], later: asyncio.Task[Any]) -> None:
        self._later.discard(later)
        if later.cancelled():
            _set(answer, _unavailable(self._whom), None)
        else:
            error = later.exception()
            _set(answer, error, None if error is not None else later.result())


def _set(answer: Answer, error: BaseException | None, value: Any) -> None:
    """Set an answer, unless its caller no longer waits."""
    with contextlib.suppress(asyncio.InvalidStateError, InvalidStateError):
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(value)


def _unavailable(whom: str, error: Exception | None = None) -> ServerUnavailable:
    why = f" ({type(error).__name__})" if error is not None else ""
    return ServerUnavailable(f"{whom} is unavailable or restarting{why}.", retry_after_s=0.1)
