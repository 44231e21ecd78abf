"""The listener of an HTTP application: a socket and a thread of its own, and bounds on what callers cost."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
from pathlib import Path
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from canal_group.actors.admission.connection_guard import ConnectionGuard
from canal_group.conf.listeners.connection_bounds import ConnectionBounds
from canal_group.merge.errors import ConfigError

#: connections of callers that were let in; those of others are bounded by `ConnectionBounds`
CONNECTIONS_MAX = 256
#: seconds after which a silent connection is closed
KEEP_ALIVE_S = 15
#: bytes of a request line and of all headers together
HEAD_BYTES_MAX: Final = 64 << 10
#: seconds that requests may take to end when it is closed
CLOSE_S = 5.0
#: seconds that a caller has to read why its head is refused
_LINGER_S: Final = 1.0
#: Request Header Fields Too Large
_TOO_LARGE: Final = 431

_REFUSED: Final = json.dumps(
    {
        "error": "UsageError",
        "message": f"The request line and the headers have more than {HEAD_BYTES_MAX:,} bytes together.",
        "hint": "Send fewer or shorter headers.",
    }
).encode()
_REFUSED_HEADERS: Final = [
    (b"content-type", b"application/json"),
    (b"content-length", str(len(_REFUSED)).encode()),
    (b"connection", b"close"),
]


class Listener:
    """Answers requests until it is closed.

    Args:
        app: the ASGI application.
        bound: a socket that listens; the listener closes it.
        host: what the socket is bound to, as its address names it.
        cert: certificate, PEM; None: connections are not encrypted.
        key: its key.

    Raises:
        ConfigError: the certificate cannot be used.
    """

    def __init__(
        self,
        app: Any,
        bound: socket.socket,
        host: str,
        *,
        cert: Path | None = None,
        key: Path | None = None,
    ) -> None:
        self._socket = bound
        port = bound.getsockname()[1]
        self.url = f"{'http' if cert is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}"
        #: closes connections that bring no request that is let in
        self.guard = ConnectionGuard(ConnectionBounds(connections_max=CONNECTIONS_MAX))
        # Connections are the guard's: uvicorn's own limit counts silent ones, and refuses the new one.
        config = uvicorn.Config(
            _HeadLimit(app),
            http=_Protocol,
            ws="none",
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=int(CLOSE_S),
            lifespan="off",
            ssl_certfile=cert,
            ssl_keyfile=key,
        )
        try:
            config.load()
        except (OSError, ValueError) as error:
            bound.close()
            raise ConfigError(f"{cert} and its key cannot be used: {error}.") from error
        self._uvicorn = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._thread.start()
        self.guard.start(port)

    def stop(self) -> None:
        """Answer no new request; do not wait for those that are being answered."""
        self._uvicorn.should_exit = True

    def close(self) -> None:
        """Stop, and wait until requests that are being answered have ended."""
        self.stop()
        self.guard.close()
        self._thread.join(2 * CLOSE_S)
        self._socket.close()

    def _run(self) -> None:
        asyncio.run(self._uvicorn.serve(sockets=[self._socket]))


class _HeadLimit:
    """Refuses a head of more than `HEAD_BYTES_MAX` bytes that came in one piece; an ASGI application."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or _head_bytes(scope) <= HEAD_BYTES_MAX:
            await self._app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": _TOO_LARGE, "headers": _REFUSED_HEADERS})
        await send({"type": "http.response.body", "body": _REFUSED})


class _Protocol(H11Protocol):
    """HTTP/1.1 with an answer of its own to a head that is too large while parts of it arrive."""

    _refused = False

    def data_received(self, data: bytes) -> None:
        if not self._refused:
            super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        error = sys.exception()
        if not isinstance(error, h11.RemoteProtocolError) or error.error_status_hint != _TOO_LARGE:
            super().send_400_response(msg)
            return
        answer = h11.Response(status_code=_TOO_LARGE, headers=_REFUSED_HEADERS)
        for event in (answer, h11.Data(data=_REFUSED), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        # To close a connection with unread bytes would take the answer back: they are dropped for a while.
        self._refused = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_LINGER_S, self.transport.close)


def _head_bytes(scope: Any) -> int:
    """Return the bytes of a request line and of its headers, with the ends of their lines."""
    line = len(scope["method"]) + len(scope["raw_path"]) + len(scope["query_string"]) + len("  HTTP/1.1\r\n")
    return line + sum(len(name) + len(value) + len(": \r\n") for name, value in scope["headers"])


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens; raises OSError.

    Args:
        host: address of this machine.
        port: 0: a free one.
    """
    opened = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
        opened.listen()
    except OSError:
        opened.close()
        raise
    return opened
