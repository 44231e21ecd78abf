"""The end of a line that calls: one line, and one that is kept open to an actor that may come and go."""

from __future__ import annotations

import asyncio
import itertools
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Self

from actors.transport.rpc_wire import GREETING_TIMEOUT_S, RpcAddress, handshake_as_client, pack, receive, tune
from merge.errors import CanalGroupError, ServerUnavailable

_log = logging.getLogger(__name__)

#: pause before a line is opened again, seconds
REOPEN_S = 0.1
#: the same after something that should not be, which is logged
DEFECT_PAUSE_S = 1.0
#: how long a call waits for a line that is being opened, seconds
CLIENT_WAIT_S = 1.0


class RpcClient:
    """An open line; its methods run on one loop. See `open`.

    Args:
        reader: of its connection, after the greeting.
        writer: the same.
        whom: it leads to, as a sentence names it.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, whom: str) -> None:
        self._reader, self._writer, self._whom = reader, writer, whom
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._loop = asyncio.get_running_loop()
        #: ends with the line
        self.listening = self._loop.create_task(self._listen())

    @classmethod
    async def open(cls, address: RpcAddress, whom: str) -> Self:
        """Open a line.

        Raises:
            ServerUnavailable: nobody of ours answers there.
        """
        tls = None if address.certificate is None else _context(address.certificate)
        try:
            async with asyncio.timeout(GREETING_TIMEOUT_S):
                reader, writer = await asyncio.open_connection(address.host, address.port, ssl=tls)
                try:
                    tune(writer)
                    await handshake_as_client(reader, writer, address.secret)
                except BaseException:
                    writer.close()
                    raise
        except (OSError, asyncio.IncompleteReadError) as error:
            raise _away(whom, error) from error
        return cls(reader, writer, whom)

    def ask(self, method: str, *arguments: Any, **named: Any) -> asyncio.Future[Any]:
        """Call a method at the other end; return what its answer will be.

        The answer raises what the method raised, or ServerUnavailable: the line broke, and it is unknown
        whether the call was heard.
        """
        answer: asyncio.Future[Any] = self._loop.create_future()
        if self.listening.done():
            answer.set_exception(_away(self._whom))
            return answer
        number = next(self._numbers)
        frame = pack((number, method, arguments, named))
        self._waiting[number] = answer
        answer.add_done_callback(lambda _: self._waiting.pop(number, None))
        self._writer.write(frame)
        return answer

    def close(self) -> None:
        """Close the line; who waits is told that it broke."""
        self._writer.close()
        self.listening.cancel()

    async def _listen(self) -> None:
        reason: Exception | None = None
        try:
            while True:
                number, error, value = await receive(self._reader)
                answer = self._waiting.get(number)
                if answer is None or answer.done():
                    continue  # Nobody waits any more.
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
                    answer.set_exception(_away(self._whom, reason))


class KeptRpcClient:
    """A line to an actor that may be restarted: opened again whenever it broke.

    Args:
        whom: it leads to, as a sentence names it.
        find: asks where the line can be opened; any error: not now.
    """

    def __init__(self, whom: str, find: Callable[[], Awaitable[RpcAddress]]) -> None:
        self._whom, self._find = whom, find
        self._rpc: RpcClient | None = None
        self._opened = asyncio.Event()

    async def keep(self) -> None:
        """Keep the line open until cancelled."""
        while True:
            try:
                self._rpc = rpc = await RpcClient.open(await self._find(), self._whom)
            except CanalGroupError as error:
                _log.debug("%s", error)
                await asyncio.sleep(REOPEN_S)
                continue
            except Exception:  # noqa: BLE001  without its line the process is good for nothing: it goes on trying
                _log.exception("%s has no line", self._whom)
                await asyncio.sleep(DEFECT_PAUSE_S)
                continue
            self._opened.set()
            try:
                await asyncio.wait([rpc.listening])
            finally:
                self._opened.clear()
                rpc.close()

    async def ask(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method and return its answer, waiting `CLIENT_WAIT_S` for the line.

        A call is never made twice: one whose line broke may have been heard.

        Raises:
            ServerUnavailable: there is no line, or it broke.
            Exception: what the method raised.
        """
        try:
            await asyncio.wait_for(self._opened.wait(), CLIENT_WAIT_S)
        except TimeoutError:
            raise _away(self._whom) from None
        assert self._rpc is not None, "it is set before it is said to be"
        return await self._rpc.ask(method, *arguments, **named)


def _away(whom: str, error: Exception | None = None) -> ServerUnavailable:
    why = f" ({type(error).__name__})" if error is not None else ""
    return ServerUnavailable(f"{whom} is away or restarting{why}.", retry_after_s=0.3)


def _context(certificate: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=certificate.decode())
    return context
