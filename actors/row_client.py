"""The gateway's end of the shards' row doors."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa
from pyarrow import flight

from actors.flight_errors import our_error
from actors.row_door import RowAddress, RowTicket
from actors.store.rows import scattered
from merge.assemble import ShardRows
from merge.errors import ShardUnavailable

_Door: TypeAlias = tuple[flight.FlightClient, RowAddress]

#: how long a shard may take to send its part of a batch, seconds
FETCH_TIMEOUT_S = 30.0


class RowClient:
    """Fetches rows of one shard; safe to use from several threads.

    A shard that came back has another door: whoever finds the old one shut asks for the new one, and tries
    there once. Fetching changes nothing, so that it may be repeated.

    Args:
        name: of the shard.
        ask: asks the shard where its door is.
    """

    def __init__(self, name: str, ask: Callable[[], RowAddress]) -> None:
        self._name = name
        self._ask = ask
        self._lock = threading.Lock()
        self._door: _Door | None = None

    def fetch(self, ticket: RowTicket) -> ShardRows:
        """Return the rows that a ticket names.

        Raises:
            RetryableError: the shard is away, or not open under that generation.
            UsageError: a part of them is acknowledged already.
        """
        door = self._reach()
        try:
            return _fetched(door, ticket)
        except _Shut:
            self._leave(door)
        door = self._reach()
        try:
            return _fetched(door, ticket)
        except _Shut as error:
            self._leave(door)
            raise ShardUnavailable(
                f"Shard {self._name} hands out no rows: {error}.", retry_after_s=0.3
            ) from error

    def _reach(self) -> _Door:
        with self._lock:
            if self._door is None:
                address = self._ask()
                client = flight.FlightClient(address.location, tls_root_certs=address.certificate)
                self._door = client, address
            return self._door

    def _leave(self, door: _Door) -> None:
        with self._lock:
            if self._door is door:
                self._door = None
        with contextlib.suppress(flight.FlightError, pa.ArrowException):
            door[0].close()


class _Shut(Exception):  # noqa: N818  a door is no error
    """Nobody of ours answers there."""


def _fetched(door: _Door, ticket: RowTicket) -> ShardRows:
    client, address = door
    named = flight.Ticket(ticket.to_bytes(address.secret))
    try:
        streams = client.do_get(named, flight.FlightCallOptions(timeout=FETCH_TIMEOUT_S)).read_all()
    except (flight.FlightError, pa.ArrowException) as error:
        told = our_error(error)
        if told is not None:
            raise told from error
        raise _Shut(str(error).splitlines()[0] if str(error) else type(error).__name__) from error
    return scattered(streams.to_batches())
