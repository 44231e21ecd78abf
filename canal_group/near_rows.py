"""A gateway's rows, borrowed in shared memory where the gateway is on our machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from canal_group.near import NearAddress
from canal_group.near_client import NearClient
from merge.errors import CanalGroupError, ServerUnavailable

#: batches that are borrowed side by side, each over a connection of its own
CONNECTIONS_MAX = 4


class NearRows:
    """Borrows rows of one gateway; safe to use from several threads.

    Args:
        ask: asks the gateway where its near door is, as `NearAddress.to_dict` says it.
        timeout_s: how long an answer may take.
    """

    def __init__(self, ask: Callable[[], Mapping[str, str]], timeout_s: float) -> None:
        self._ask = ask
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._address: NearAddress | None = None
        self._idle: list[NearClient] = []
        #: connections that there are
        self._count = 0
        #: whether the door cannot be reached from here
        self._elsewhere = False

    def borrow(self, ticket: Mapping[str, Any]) -> pa.Table | None:
        """Return the rows that a ticket names; None: they have to come another way.

        Raises:
            CanalGroupError: what the gateway refuses with; ServerUnavailable if it does not answer in time.
        """
        client = self._taken()
        if client is None:
            return None
        usable = False
        try:
            lent = client.borrow(ticket)
            usable = True
        except CanalGroupError:
            usable = True
            raise
        except TimeoutError as error:
            raise ServerUnavailable(
                f"The gateway did not lend its rows within {self._timeout_s:g} s.", retry_after_s=0.5
            ) from error
        except OSError:
            return None
        finally:
            self._give_back(client, usable=usable)
        ((_, stream),) = lent
        return pa.ipc.open_stream(stream).read_all()

    def close(self) -> None:
        """Let go of the gateway; what is borrowed stays as it is."""
        with self._lock:
            self._elsewhere = True
            idle, self._idle = self._idle, []
        for client in idle:
            client.close()

    def _taken(self) -> NearClient | None:
        """Return a connection that nobody uses; None: there is none, and can be none."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
            if self._elsewhere or self._count >= CONNECTIONS_MAX:
                return None
            self._count += 1
        try:
            if self._address is None:
                self._address = NearAddress.from_dict(self._ask())
            return NearClient(self._address, self._timeout_s)
        except (CanalGroupError, OSError, AttributeError, KeyError, TypeError, ValueError):
            with self._lock:
                self._count -= 1
                self._elsewhere = True
            return None

    def _give_back(self, client: NearClient, *, usable: bool) -> None:
        with self._lock:
            if usable and not self._elsewhere:
                self._idle.append(client)
                return
            self._count -= 1
        client.close()
