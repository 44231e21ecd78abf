"""A gateway's rows, borrowed in shared memory where the gateway is on our machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from canal_group.shared_memory.client import SharedMemoryClient
from canal_group.shared_memory.wire import SharedMemoryAddress
from merge.errors import CanalGroupError, ServerUnavailable


class SharedMemoryRows:
    """Borrows rows of one gateway; safe to use from several threads, one after the other.

    There is one connection: several at once would have the gateway make as many batches at once, and hold
    the memory for them.

    Args:
        ask: asks the gateway where its shared-memory server is, as `SharedMemoryAddress.to_dict` says it.
        timeout_s: how long an answer may take.
    """

    def __init__(self, ask: Callable[[], Mapping[str, str]], timeout_s: float) -> None:
        self._ask = ask
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._client: SharedMemoryClient | None = None
        #: whether the door cannot be reached from here
        self._elsewhere = False

    def borrow(self, ticket: Mapping[str, Any]) -> pa.Table | None:
        """Return the rows that a ticket names; None: they have to come another way.

        Raises:
            CanalGroupError: what the gateway refuses with; ServerUnavailable if it does not answer in time.
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
        """Let go of the gateway; what is borrowed stays as it is, who waits for more has to go elsewhere."""
        # Without the lock, which whoever waits holds.
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
    """Return the rows of the only stream that is lent.

    Raises:
        OSError: there are several, or none, or it is no stream.
    """
    try:
        ((_, stream),) = lent
        return pa.ipc.open_stream(stream).read_all()
    except (ValueError, pa.ArrowException) as error:
        raise OSError("what is lent are no rows") from error
