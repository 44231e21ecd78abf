"""The gateway's client of the shards' row servers."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Callable

import pyarrow as pa
from pyarrow import flight

from canal_group.actors.store.rows import opened, read_message
from canal_group.actors.transport.flight_errors import our_error
from canal_group.actors.transport.row_server import RowAddress
from canal_group.actors.transport.row_ticket import RowTicket
from canal_group.merge.errors import ShardUnavailable
from canal_group.merge.rows.assemble import ShardRows
from canal_group.merge.values.chunk import TableName
from canal_group.shared_memory.client import SharedMemoryClient

_log = logging.getLogger(__name__)

#: how long a shard may take to send its part of a batch, seconds
FETCH_TIMEOUT_S = 30.0


class RowClient:
    """Fetches rows of one shard; safe to use from several threads.

    A restarted shard has another row server. If the old one does not answer, the client asks for the new
    address and tries once more. Fetching changes nothing, so it may be repeated.

    Args:
        name: of the shard.
        ask: returns the address of the shard's current row server.
    """

    def __init__(self, name: str, ask: Callable[[], RowAddress]) -> None:
        self._name = name
        self._ask = ask
        self._lock = threading.Lock()
        self._connection: _Connection | None = None

    def fetch(self, ticket: RowTicket) -> ShardRows:
        """Return the rows that a ticket names.

        Raises:
            RetryableError: the shard is unavailable, or not open under that generation.
            UsageError: some of the rows are acknowledged already.
        """
        connection = self._reach()
        try:
            return connection.fetch(ticket)
        except _Unreachable:
            self._drop(connection)
        connection = self._reach()
        try:
            return connection.fetch(ticket)
        except _Unreachable as error:
            self._drop(connection)
            raise ShardUnavailable(
                f"The rows of shard {self._name} cannot be fetched: {error}.", retry_after_s=0.3
            ) from error

    def _reach(self) -> _Connection:
        with self._lock:
            if self._connection is None:
                self._connection = _Connection(self._ask())
            return self._connection

    def _drop(self, connection: _Connection) -> None:
        with self._lock:
            if self._connection is connection:
                self._connection = None
        connection.close()


class _Unreachable(Exception):  # noqa: N818  it never leaves this module
    """No answer of the row server: it is gone, or the connection failed or was not trusted."""


class _Connection:
    """The connection to one incarnation of a shard: by shared memory on this machine, else by Flight."""

    def __init__(self, address: RowAddress) -> None:
        self._secret = address.secret
        self._flight = flight.FlightClient(
            address.location,
            tls_root_certs=address.certificate,
            # Otherwise a restarted shard that got the port of its predecessor would inherit the predecessor's
            # reconnect pause.
            generic_options=[("grpc.use_local_subchannel_pool", 1)],
        )
        self._shared_memory: SharedMemoryClient | None = None
        if address.shared_memory is not None:
            try:
                self._shared_memory = SharedMemoryClient(address.shared_memory, FETCH_TIMEOUT_S)
            except OSError as error:
                _log.info(
                    "rows of %s are fetched by Flight, not by shared memory: %s", address.location, error
                )

    def fetch(self, ticket: RowTicket) -> ShardRows:
        """Return the rows that a ticket names.

        Raises:
            _Unreachable: there is no answer of the row server.
            CanalGroupError: the shard refuses.
        """
        if self._shared_memory is not None:
            try:
                lent = self._shared_memory.borrow(ticket.to_dict())
            except OSError as error:
                raise _Unreachable(f"{type(error).__name__} {error}") from error
            return opened((None if name is None else TableName(*name), rows) for name, rows in lent)
        flight_ticket = flight.Ticket(json.dumps(ticket.to_dict()).encode())
        shown = [(b"authorization", f"Bearer {self._secret}".encode())]
        options = flight.FlightCallOptions(timeout=FETCH_TIMEOUT_S, headers=shown)
        try:
            sent = self._flight.do_get(flight_ticket, options).read_all()
        except (flight.FlightError, pa.ArrowException) as error:
            ours = our_error(error)
            if ours is not None:
                raise ours from error
            raise _Unreachable(str(error).splitlines()[0] if str(error) else type(error).__name__) from error
        return opened(map(read_message, sent.to_batches()))

    def close(self) -> None:
        """Close the connection."""
        if self._shared_memory is not None:
            self._shared_memory.close()
        with contextlib.suppress(flight.FlightError, pa.ArrowException):
            self._flight.close()
