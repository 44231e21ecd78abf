"""The end of a line that is called: it listens, and answers who knows its secret."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pickle
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from actors.door_ground import DoorCertificate
from actors.line import (
    GREETING_TIMEOUT_S,
    LOOPBACK,
    LineAddress,
    pack,
    prove_as_door,
    receive,
    tune,
)
from canal_group.proof import new_secret
from merge.errors import CanalGroupError

_log = logging.getLogger(__name__)

#: connections that are held at once, proved or not; one more is closed at once
CONNECTIONS_MAX = 64


class LineDoor:
    """Answers calls that come by lines; its methods run on one loop.

    Calls of one line begin in the order they came, and are answered in the order they end. A call whose line
    breaks runs to its end, as one does whose caller died under Ray.

    Args:
        calls: what can be called, by name.
    """

    def __init__(self, calls: Mapping[str, Callable[..., Awaitable[Any]]]) -> None:
        self._calls = dict(calls)
        self._secret = new_secret()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._running: set[asyncio.Task[None]] = set()
        #: lines that are open: whose callers have proved who they are
        self.lines = 0

    async def open(self, host: str = LOOPBACK, proof: DoorCertificate | None = None) -> LineAddress:
        """Listen on a free port of `host`; return how to call.

        Args:
            host: where to listen.
            proof: for lines with TLS; None: without.
        """
        tls = None if proof is None else _context(proof)
        self._server = await asyncio.start_server(self._serve, host, 0, ssl=tls)
        port = self._server.sockets[0].getsockname()[1]
        return LineAddress(host, port, self._secret, None if proof is None else proof.certificate)

    def close(self) -> None:
        """Listen no more, and close the lines."""
        if self._server is not None:
            self._server.close()
        for writer in self._connections:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= CONNECTIONS_MAX:
            writer.close()
            return
        self._connections.add(writer)
        # A caller that leaves, in whatever way, has said all there is to say.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            try:
                tune(writer)
                async with asyncio.timeout(GREETING_TIMEOUT_S):
                    await prove_as_door(reader, writer, self._secret)
                await self._answer_all(reader, writer)
            finally:
                self._connections.discard(writer)
                writer.close()

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.lines += 1
        try:
            while True:
                call = await receive(reader)
                task = asyncio.create_task(self._answer(writer, *call))
                self._running.add(task)
                task.add_done_callback(self._running.discard)
        finally:
            self.lines -= 1

    async def _answer(
        self,
        writer: asyncio.StreamWriter,
        number: int,
        method: str,
        arguments: tuple[Any, ...],
        named: dict[str, Any],
    ) -> None:
        try:
            frame = pack((number, None, await self._calls[method](*arguments, **named)))
        except Exception as error:  # noqa: BLE001  whatever it is, the caller has to hear of it
            if not isinstance(error, CanalGroupError):
                _log.exception("call of %s broke", method)
            frame = _packed_error(number, error)
        if not writer.is_closing():
            # Not waited for until it is sent: a caller that was paused has few calls outstanding, each of
            # which is answered once.
            writer.write(frame)


def _packed_error(number: int, error: Exception) -> bytes:
    try:
        # Many a library's error can be pickled, but not read again.
        return pack((number, pickle.loads(pickle.dumps(error)), None))  # noqa: S301  our own bytes
    except Exception:  # noqa: BLE001  whatever it is, it cannot travel
        return pack((number, RuntimeError(f"{type(error).__name__}: {error}"), None))


def _context(proof: DoorCertificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # The library reads files only, and the key is on no disk.
    with os.fdopen(os.memfd_create("line"), "wb") as file:
        file.write(proof.certificate + proof.key)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context
