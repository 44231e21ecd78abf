"""The client of the gateways' Flight protocol: requests, streams, errors, and the choice of the gateway."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import flight

from canal_group.gateway.gateway_uri import split_uris
from canal_group.gateway.tls import UNSAID, Tls
from canal_group.merge.calls.body import body_of
from canal_group.merge.calls.call import Call
from canal_group.merge.calls.consumers import AckAndGet, Get, OpenSharedMemory
from canal_group.merge.errors import (
    AccessDenied,
    CanalGroupError,
    ConfigError,
    RetryableError,
    ServerUnavailable,
    UsageError,
    error_from_dict,
    error_from_json,
)
from canal_group.merge.printable import is_header_text
from canal_group.shared_memory.rows import SharedMemoryRows

#: timeout of a call beyond the time that the gateway was asked to wait, seconds. The gateway itself waits 10
#: at most: after a longer silence it was paused or cut off
CALL_TIMEOUT_S = 15.0
#: timeout of reading a batch's rows, seconds
ROWS_TIMEOUT_S = 60.0
#: pauses between two attempts to reconnect to a gateway: the first, and the longest. By default gRPC waits a
#: second, and up to two minutes
_RECONNECT_FIRST_MS, _RECONNECT_MAX_MS = 100, 1_000
#: shortest pause of a consumer after a call that no gateway answered, seconds; the pauses grow
_CALL_AGAIN_S = 0.1
#: errors that Flight and Arrow raise for a failed call; a stream that is cut off is an OSError
_FAILED = (flight.FlightError, pa.ArrowException, OSError)
#: errors that reading an unexpected answer raises
_ODD = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    UsageError,
    pa.ArrowException,
)

T = TypeVar("T")


def fields(value: Any) -> dict[str, Any]:
    """Return an answer's value, which must be a JSON object.

    Raises:
        TypeError: it is not a JSON object.
    """
    if not isinstance(value, dict):
        raise TypeError(f"expected a JSON object, not a {type(value).__name__}")
    return value


class GatewayClient:
    """A connection to the active gateway of one destination. Thread-safe and picklable.

    A call is made once. If it reaches no active server, the client switches to the next gateway for the next
    call.

    Args:
        uri: "grpc://host:port" or "grpc+tls://host:port", several separated by commas, or a function that
            returns them (the active one first).
        destination: the destination that the gateways serve.
        token: authenticates us, or a function that returns the token for an address; None: no token.
        tls: the authorities that we trust, and our certificate.
        shared_memory: whether rows of a gateway on this machine may be read by shared memory.

    Raises:
        ConfigError: an address is invalid, or a file cannot be read.
    """

    def __init__(
        self,
        uri: str | Callable[[], Sequence[str]],
        destination: str,
        token: str | Callable[[str], str | None] | None = None,
        tls: Tls = UNSAID,
        *,
        shared_memory: bool = True,
    ) -> None:
        self._shared_memory = shared_memory
        self._tls, self._tls_options = tls, tls.client_options()
        #: gateways that have answered: their failures are not caused by our settings
        self._answered: set[str] = set()
        fixed = split_uris(uri) if isinstance(uri, str) else []
        self._find: Callable[[], Sequence[str]] = (lambda: fixed) if isinstance(uri, str) else uri
        self._lock = threading.Lock()
        self._clients: dict[str, flight.FlightClient] = {}
        self._lenders: dict[str, SharedMemoryRows] = {}
        self._uri = fixed[0] if fixed else ""
        for each in fixed:
            self._client(each)
        self._destination = destination
        if isinstance(token, str) and not is_header_text(token):
            raise ConfigError(
                "The token cannot be sent: it has characters other than printable ASCII, or space around it.",
                hint="Remove them. The token may end in the line end of the file that it was read from.",
            )
        self._token = token

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to make a copy in another process, which connects to the gateways that are known now."""
        uris = ",".join([self._where(), *(uri for uri in self._find() if uri != self._uri)])
        gateway_client = partial(GatewayClient, shared_memory=self._shared_memory)
        return gateway_client, (uris, self._destination, self._token, self._tls)

    def ask(self, call: Call[Any]) -> Any:
        """Make a call and return its answer unchanged; see `ask_for`."""
        return self.ask_for(call, _as_it_is)

    def ask_for(self, call: Call[Any], read: Callable[[Any], T]) -> T:
        """Make a call and return its answer as `read` converts it.

        Args:
            call: of a consumer or an operator.
            read: converts the answer's value. If it fails because the value is not as expected, the gateway
                counts as unavailable, and the next call goes to the next one.

        Raises:
            CanalGroupError: the gateway's error, or ServerUnavailable if there is no answer, or no readable
                one: then it is unknown whether the gateway processed the call.
        """
        return self._ask(self._where(), call, lambda value, _: read(value))

    def get(self, call: Get | AckAndGet, read: Callable[[Any, pa.Table | None], T]) -> T:
        """Get a batch; `read` also gets the rows that came with it, None if none did. See `ask_for`."""
        return self._ask(self._where(), call, lambda value, streams: read(value, _rows_in(streams)))

    def _ask(self, uri: str, call: Call[Any], read: Callable[[Any, Sequence[pa.Buffer]], T]) -> T:
        body = {"destination": self._destination, **body_of(call)}
        action = flight.Action(call.declared.name, json.dumps(body).encode())
        try:
            options = self._options(uri, CALL_TIMEOUT_S + call.wait_s)
            results = list(self._client(uri).do_action(action, options))
        except _FAILED as error:
            raise self._failed(uri, self._mistaken(uri) or _translated(error)) from error
        self._answered.add(uri)
        try:
            answer = json.loads(results[0].body.to_pybytes())
            if "error" not in answer:
                return read(answer["value"], [result.body for result in results[1:]])
            refusal = error_from_dict(answer["error"])
        except _ODD as error:
            raise self._failed(uri, _not_understood(uri, error)) from error
        raise self._failed(uri, refusal)

    def rows(self, **ticket: Any) -> pa.Table:
        """Return the rows of a ticket.

        Raises:
            CanalGroupError: as `ask`.
        """
        flight_ticket = flight.Ticket(json.dumps({"destination": self._destination, **ticket}).encode())
        uri = self._where()
        try:
            lent = self._lent(uri, {"destination": self._destination, **ticket})
            if lent is not None:
                return lent
        except CanalGroupError as error:
            raise self._failed(uri, error) from error
        try:
            return self._client(uri).do_get(flight_ticket, self._options(uri, ROWS_TIMEOUT_S)).read_all()
        except _FAILED as error:
            raise self._failed(uri, _translated(error)) from error

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            for client in (*self._clients.values(), *self._lenders.values()):
                client.close()
            self._clients.clear()
            self._lenders.clear()

    # ---- inside

    def _where(self) -> str:
        if not self._uri:
            self._move_on(self._uri)
        if not self._uri:
            raise ServerUnavailable(
                f"No server of {self._destination} is registered in ZooKeeper.",
                hint="Start a server, or check the destination's name.",
                retry_after_s=0.5,
            )
        return self._uri

    def _failed(self, uri: str, error: CanalGroupError) -> CanalGroupError:
        """Switch to the next gateway if the server failed; return the error."""
        if isinstance(error, ServerUnavailable):
            with self._lock:
                lender = self._lenders.pop(uri, None)
            if lender is not None:
                lender.close()
            # If ZooKeeper is unavailable too, the same gateway is called again.
            with contextlib.suppress(RetryableError):
                self._move_on(uri)
        return error

    def _mistaken(self, uri: str) -> ConfigError | None:
        """Return the error in our TLS settings, if a gateway has never answered; else None."""
        return None if uri in self._answered else self._tls.refusal(self._tls.uri(uri))

    def _move_on(self, away_from: str) -> None:
        """Switch to the gateway after the one that failed, unless another thread has done so."""
        uris = list(self._find())
        with self._lock:
            if self._uri == away_from and uris:
                after = uris.index(away_from) + 1 if away_from in uris else 0
                self._uri = uris[after % len(uris)]

    def _client(self, uri: str) -> flight.FlightClient:
        with self._lock:
            client = self._clients.get(uri)
            if client is None:
                client = self._clients[uri] = flight.FlightClient(
                    self._tls.uri(uri),
                    generic_options=[
                        ("grpc.initial_reconnect_backoff_ms", _RECONNECT_FIRST_MS),
                        ("grpc.max_reconnect_backoff_ms", _RECONNECT_MAX_MS),
                    ],
                    **self._tls_options,
                )
            return client

    def _lent(self, uri: str, ticket: Mapping[str, Any]) -> pa.Table | None:
        return self._shared_memory_rows(uri).borrow(ticket) if self._shared_memory else None

    def _shared_memory_rows(self, uri: str) -> SharedMemoryRows:
        with self._lock:
            if uri not in self._lenders:
                self._lenders[uri] = SharedMemoryRows(
                    lambda: self._ask(uri, OpenSharedMemory(), lambda value, _: value), ROWS_TIMEOUT_S
                )
            return self._lenders[uri]

    def _options(self, uri: str, timeout_s: float) -> flight.FlightCallOptions:
        token = self._token(self._tls.uri(uri)) if callable(self._token) else self._token
        headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        return flight.FlightCallOptions(timeout=timeout_s, headers=headers)


def _as_it_is(value: Any) -> Any:
    return value


def _rows_in(streams: Sequence[pa.Buffer]) -> pa.Table | None:
    """Return the rows that came with an answer; None if none did.

    Raises:
        ValueError, pa.ArrowException: what came is not one Arrow stream.
    """
    if not streams:
        return None
    (stream,) = streams
    with pa.ipc.open_stream(stream) as reader:
        return reader.read_all()


def _not_understood(uri: str, error: Exception) -> ServerUnavailable:
    return ServerUnavailable(
        f"The answer from {uri} cannot be read ({type(error).__name__}).",
        hint="Check that a gateway listens there, and its version.",
        retry_after_s=0.5,
    )


def _translated(error: Exception) -> CanalGroupError:
    with contextlib.suppress(ValueError):
        return error_from_json(getattr(error, "extra_info", b""))
    sentence = str(error).splitlines()[0] if str(error) else type(error).__name__
    if isinstance(error, flight.FlightUnauthenticatedError):
        return AccessDenied(
            "The gateway refuses access: the token is missing or wrong.", hint="Pass connect(..., token=...)."
        )
    return ServerUnavailable(f"The gateway does not answer: {sentence}.", retry_after_s=_CALL_AGAIN_S)
