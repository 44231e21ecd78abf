"""Borrow a gateway's rows in shared memory, if the gateway is on this machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from canal_group.merge.errors import CanalGroupError, ServerUnavailable
from canal_group.shared_memory.client import SharedMemoryClient
from canal_group.shared_memory.wire import SharedMemoryAddress


class SharedMemoryRows:
    """Borrow rows of one gateway; safe to use from several threads, which are served one after the other.

    There is one connection. With several, the gateway would build as many batches at the same time, and hold
    the memory for them.

    Args:
        ask: returns the address of the gateway's shared-memory server, as `SharedMemoryAddress.to_dict` does.
        timeout_s: how long an answer may take, seconds.
    """

    def __init__(self, ask: Callable[[], Mapping[str, str]], timeout_s: float) -> None:
        self._ask = ask
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._client: SharedMemoryClient | None = None
        #: whether shared memory is no longer tried: the server cannot be reached from here, or we are closed
        self._elsewhere = False

    def borrow(self, ticket: Mapping[str, Any]) -> pa.Table | None:
        """Return the rows that a ticket names; None: fetch them by Flight.

        Raises:
            CanalGroupError: the gateway refuses; ServerUnavailable if it does not answer in time.
        """
        with self._lock:
            client = self._reached()
            if client is None:
                return None
            try:
                return _rows(client.borrow(ticket))
            except TimeoutError as error:
                self._leave()
                raise ServerUnavailable(
                    f"The gateway did not lend its rows within {self._timeout_s:g} s.", retry_after_s=0.5
                ) from error
            except OSError:
                self._leave()
                return None

    def close(self) -> None:
        """Close the connection; borrowed rows stay valid, and a waiting `borrow` returns None."""
        # Without the lock, which a thread that waits for an answer holds.
        self._elsewhere = True
        client = self._client
        if client is not None:
            client.close()

    def _reached(self) -> SharedMemoryClient | None:
        if self._client is None and not self._elsewhere:
            try:
                self._client = SharedMemoryClient(SharedMemoryAddress.from_dict(self._ask()), self._timeout_s)
            except (CanalGroupError, OSError, AttributeError, KeyError, TypeError, ValueError):
                self._elsewhere = True
        return self._client

    def _leave(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _rows(lent: Sequence[tuple[object, pa.Buffer]]) -> pa.Table:
    """Return the rows of an answer, which must have exactly one stream.

    Raises:
        OSError: there is not exactly one, or it is not an Arrow stream.
    """
    try:
        ((_, stream),) = lent
        return pa.ipc.open_stream(stream).read_all()
    except (ValueError, pa.ArrowException) as error:
        raise OSError("the gateway's answer is not one Arrow stream") from error
