"""RPC clients: of one connection, and of an actor that may restart, which reconnects by itself."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Self

from canal_group.actors.transport.rpc_wire import FRAME_BYTES_MAX, RpcAddress, pack, receive, tune
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


class RpcClient:
    """An open RPC connection, made by `open`; call its methods on one event loop only.

    Args:
        reader: of the connection, after the handshake.
        writer: of the same connection.
        whom: name of the server in error messages, as the subject of a sentence.
        frame_bytes_max: longest frame.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        whom: str,
        frame_bytes_max: int = FRAME_BYTES_MAX,
    ) -> None:
        self._reader, self._writer, self._whom = reader, writer, whom
        self._frame_bytes_max = frame_bytes_max
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._loop = asyncio.get_running_loop()
        #: ends when the connection ends
        self.listening = self._loop.create_task(self._listen())

    @classmethod
    async def open(cls, address: RpcAddress, whom: str, frame_bytes_max: int = FRAME_BYTES_MAX) -> Self:
        """Return a new connection to a server.

        Raises:
            ServerUnavailable: no server that knows the secret answers at this address.
        """
        tls = None if address.certificate is None else client_context(ca_pem=address.certificate.decode())
        try:
            async with asyncio.timeout(GREETING_TIMEOUT_S):
                reader, writer = await asyncio.open_connection(address.host, address.port, ssl=tls)
                try:
                    tune(writer)
                    handshake = ClientHandshake(address.secret)
                    writer.write(handshake.hello)
                    writer.write(handshake.response(await reader.readexactly(GREETING_BYTES)))
                except BaseException:
                    writer.close()
                    raise
        except (OSError, asyncio.IncompleteReadError) as error:
            raise _unavailable(whom, error) from error
        return cls(reader, writer, whom, frame_bytes_max)

    def ask(self, method: str, *arguments: Any, **keywords: Any) -> asyncio.Future[Any]:
        """Call a method of the server; return a future of its answer.

        The future raises what the method raised. It raises ServerUnavailable if the connection broke; then it
        is unknown whether the server received the call.

        Raises:
            ValueError: the call is longer than a frame may be.
            Exception: the arguments cannot be pickled.
        """
        answer: asyncio.Future[Any] = self._loop.create_future()
        if self.listening.done():
            answer.set_exception(_unavailable(self._whom))
            return answer
        number = next(self._numbers)
        frame = pack((number, method, arguments, keywords), self._frame_bytes_max)
        self._waiting[number] = answer
        answer.add_done_callback(lambda _: self._waiting.pop(number, None))
        self._writer.write(frame)
        return answer

    @property
    def has_ended(self) -> bool:
        """Whether the connection broke, or was closed; no call that waits has heard of it before."""
        return self._writer.is_closing()

    def close(self) -> None:
        """Close the connection; calls that wait for an answer raise ServerUnavailable."""
        self._writer.close()
        self.listening.cancel()

    async def _listen(self) -> None:
        reason: Exception | None = None
        try:
            while True:
                number, error, value = await receive(self._reader, self._frame_bytes_max)
                answer = self._waiting.get(number)
                if answer is None or answer.done():
                    continue  # The caller no longer waits.
                if error is None:
                    answer.set_result(value)
                else:
                    answer.set_exception(error)
        except (OSError, asyncio.IncompleteReadError) as error:
            reason = error
        finally:
            self._writer.close()
            for answer in list(self._waiting.values()):
                if not answer.done():
                    answer.set_exception(_unavailable(self._whom, reason))


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
                await asyncio.wait([rpc.listening])
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


def _unavailable(whom: str, error: Exception | None = None) -> ServerUnavailable:
    why = f" ({type(error).__name__})" if error is not None else ""
    return ServerUnavailable(f"{whom} is unavailable or restarting{why}.", retry_after_s=0.1)
