"""The gateway's end of the shards' row doors."""

from __future__ import annotations

import contextlib
import threading

import pyarrow as pa
import ray
from pyarrow import flight
from ray.actor import ActorHandle

from actors.flight_errors import our_error
from actors.ray_errors import translated
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
        shard: its actor.
    """

    def __init__(self, name: str, shard: ActorHandle) -> None:
        self._name = name
        self._shard = shard
        self._lock = threading.Lock()
        self._door: tuple[flight.FlightClient, RowAddress] | None = None

    def fetch(self, ticket: RowTicket) -> ShardRows:
        """Return the rows that a ticket names.

        Raises:
            ShardUnavailable: the shard is away, or not open under that generation.
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
                with translated(f"Shard {self._name}"):
                    ask = self._shard.rows_at.options(concurrency_group="status")
                    address: RowAddress = ray.get(ask.remote(), timeout=FETCH_TIMEOUT_S)
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
