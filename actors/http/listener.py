"""The listener of an HTTP application: a socket and a thread of its own, and bounds on what callers cost."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any

import uvicorn

from canal_group.actors.admission.connection_guard import ConnectionGuard
from canal_group.conf.listeners.connection_bounds import ConnectionBounds
from canal_group.merge.errors import ConfigError

#: connections of callers that were let in; those of others are bounded by `ConnectionBounds`
CONNECTIONS_MAX = 256
#: seconds after which a silent connection is closed
KEEP_ALIVE_S = 15
#: seconds that requests may take to end when it is closed
CLOSE_S = 5.0


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
            app,
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
