"""The gateway's end of the shards' row doors."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import pyarrow as pa
from pyarrow import flight

from actors.flight_errors import our_error
from actors.row_door import RowAddress, RowTicket
from actors.store.rows import scattered
from merge.assemble import ShardRows
from merge.errors import CanalGroupError, ShardUnavailable

#: how long a shard may take to send its part of a batch, seconds
FETCH_TIMEOUT_S = 30.0


class RowClient:
    """Fetches rows of one shard; safe to use from several threads.

    A shard that came back has another door: whoever finds the old one shut asks for the new one with the next
    fetch.

    Args:
        name: of the shard.
        ask: asks the shard where its door is.
    """

    def __init__(self, name: str, ask: Callable[[], RowAddress]) -> None:
        self._name = name
        self._ask = ask
        self._lock = threading.Lock()
        self._door: tuple[flight.FlightClient, RowAddress] | None = None

    def fetch(self, ticket: RowTicket) -> ShardRows:
        """Return the rows that a ticket names.

        Raises:
            RetryableError: the shard is away, or not open under that generation.
            UsageError: a part of them is acknowledged already.
        """
        door = self._reach()
        client, address = door
        named = flight.Ticket(ticket.to_bytes(address.secret))
        try:
            streams = client.do_get(named, flight.FlightCallOptions(timeout=FETCH_TIMEOUT_S)).read_all()
        except (flight.FlightError, pa.ArrowException) as error:
            raise self._translated(error, door) from error
        return scattered(streams.to_batches())

    def _reach(self) -> tuple[flight.FlightClient, RowAddress]:
        with self._lock:
            if self._door is None:
                address = self._ask()
                self._door = flight.FlightClient(address.location), address
            return self._door

    def _translated(self, error: Exception, door: tuple[flight.FlightClient, RowAddress]) -> CanalGroupError:
        told = our_error(error)
        if told is not None:
            return told
        with self._lock:
            if self._door is door:
                self._door = None
        with contextlib.suppress(flight.FlightError, pa.ArrowException):
            door[0].close()
        sentence = str(error).splitlines()[0] if str(error) else type(error).__name__
        return ShardUnavailable(f"Shard {self._name} hands out no rows: {sentence}.", retry_after_s=0.3)
