"""The consumer's end of the gateways' Flight protocol: requests, streams, errors, and whom to ask."""

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
from canal_group.gateway.token_text import is_header_text
from canal_group.shared_memory.near_rows import NearRows
from merge.errors import (
    AccessDenied,
    CanalGroupError,
    ConfigError,
    RetryableError,
    ServerUnavailable,
    UsageError,
    error_from_dict,
    error_from_json,
)

#: what a call may take beyond the time that the gateway was asked to wait, seconds; the gateway itself waits
#: for 10 at most, so that a longer silence is a gateway that was paused or cut off
CALL_TIMEOUT_S = 15.0
#: what reading a batch's rows may take, seconds
ROWS_TIMEOUT_S = 60.0
#: gRPC would wait up to two minutes between two attempts to connect to a gateway that is back
_RECONNECT_MAX_MS = 1_000
#: what Flight and Arrow raise of what they receive; a stream that is cut off is an OSError
_FAILED = (flight.FlightError, pa.ArrowException, OSError)
#: what reading an answer raises that is not what we expect
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
    """Return an answer's value, which is a JSON object.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(value, dict):
        raise TypeError(f"expected a JSON object, not a {type(value).__name__}")
    return value


class GatewayClient:
    """A connection to one destination's active gateway. Safe to use from several threads, and to pickle.

    A call is made once. Where it meets no active server, the door turns to the next gateway, and the next
    call goes there.

    Args:
        uri: "grpc://host:port" or "grpc+tls://host:port", several parted by commas, or what returns them (the
            active one first).
        destination: what the gateways serve.
        token: that they know us by, or what returns it for an address; None: none.
        tls: whom we trust, and who we are.
        shared_memory: whether rows of a gateway on this machine may be read in memory that it lends us.

    Raises:
        ConfigError: an address cannot be, or a file cannot be read.
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
        #: gateways that have answered: theirs is no mistake in the settings
        self._answered: set[str] = set()
        fixed = split_uris(uri) if isinstance(uri, str) else []
        self._find: Callable[[], Sequence[str]] = (lambda: fixed) if isinstance(uri, str) else uri
        self._lock = threading.Lock()
        self._clients: dict[str, flight.FlightClient] = {}
        self._near: dict[str, NearRows] = {}
        self._uri = fixed[0] if fixed else ""
        for known in fixed:
            self._client(known)
        self._destination = destination
        if isinstance(token, str) and not is_header_text(token):
            raise ConfigError(
                "The token cannot be sent: it has characters other than printable ASCII, or space around it.",
                hint="Remove them. The token may end in the line end of the file that it was read from.",
            )
        self._token = token

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what a copy in another process is made of: it connects there, to the gateways known now."""
        known = ",".join([self._where(), *(uri for uri in self._find() if uri != self._uri)])
        gateway_client = partial(GatewayClient, shared_memory=self._shared_memory)
        return gateway_client, (known, self._destination, self._token, self._tls)

    def ask(self, request: str, *, wait_s: float = 0.0, **body: Any) -> Any:
        """Send a request and return its answer as it came; see `ask_for`."""
        return self.ask_for(request, _as_it_is, wait_s=wait_s, **body)

    def ask_for(self, request: str, read: Callable[[Any], T], /, *, wait_s: float = 0.0, **body: Any) -> T:
        """Send a request and return what is read from its answer.

        Args:
            request: its name.
            read: makes of the answer's value what is returned. What it raises because the value is not what
                it expects is a gateway that is not understood: the next call goes to the next one.
            wait_s: how long the gateway may take beyond the usual.
            body: the request's fields.

        Raises:
            CanalGroupError: the gateway's refusal, or ServerUnavailable if there is no answer, or none that
                is understood: then it is unknown whether the request was heard.
        """
        return self._ask(self._where(), request, read, wait_s, body)

    def _ask(
        self, uri: str, request: str, read: Callable[[Any], T], wait_s: float, body: Mapping[str, Any]
    ) -> T:
        action = flight.Action(request, json.dumps({"destination": self._destination, **body}).encode())
        try:
            results = list(self._client(uri).do_action(action, self._options(uri, CALL_TIMEOUT_S + wait_s)))
        except _FAILED as error:
            raise self._failed(uri, self._mistaken(uri) or _translated(error)) from error
        self._answered.add(uri)
        try:
            answer = json.loads(results[0].body.to_pybytes())
            if "error" not in answer:
                return read(answer["value"])
            refusal = error_from_dict(answer["error"])
        except _ODD as error:
            raise self._failed(uri, _not_understood(uri, error)) from error
        raise self._failed(uri, refusal)

    def rows(self, **ticket: Any) -> pa.Table:
        """Return the rows that a ticket names.

        Raises:
            CanalGroupError: as `ask`.
        """
        named = flight.Ticket(json.dumps({"destination": self._destination, **ticket}).encode())
        uri = self._where()
        try:
            lent = self._lent(uri, {"destination": self._destination, **ticket})
            if lent is not None:
                return lent
        except CanalGroupError as error:
            raise self._failed(uri, error) from error
        try:
            return self._client(uri).do_get(named, self._options(uri, ROWS_TIMEOUT_S)).read_all()
        except _FAILED as error:
            raise self._failed(uri, _translated(error)) from error

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            for client in (*self._clients.values(), *self._near.values()):
                client.close()
            self._clients.clear()
            self._near.clear()

    # ---- inside

    def _where(self) -> str:
        """Return the gateway to ask."""
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
        """Turn to the next gateway if it was the server that failed; return the error."""
        if isinstance(error, ServerUnavailable):
            with self._lock:
                near = self._near.pop(uri, None)
            if near is not None:
                near.close()
            # Is ZooKeeper away, too, the same gateway is asked again.
            with contextlib.suppress(RetryableError):
                self._move_on(uri)
        return error

    def _mistaken(self, uri: str) -> ConfigError | None:
        """Return what is wrong with our settings, where a gateway that never answered says so."""
        return None if uri in self._answered else self._tls.refusal(self._tls.uri(uri))

    def _move_on(self, away_from: str) -> None:
        """Choose the next gateway after one that failed, unless another thread has done so."""
        known = list(self._find())
        with self._lock:
            if self._uri == away_from and known:
                after = known.index(away_from) + 1 if away_from in known else 0
                self._uri = known[after % len(known)]

    def _client(self, uri: str) -> flight.FlightClient:
        with self._lock:
            client = self._clients.get(uri)
            if client is None:
                client = self._clients[uri] = flight.FlightClient(
                    self._tls.uri(uri),
                    generic_options=[("grpc.max_reconnect_backoff_ms", _RECONNECT_MAX_MS)],
                    **self._tls_options,
                )
            return client

    def _lent(self, uri: str, ticket: Mapping[str, Any]) -> pa.Table | None:
        return self._near_rows(uri).borrow(ticket) if self._shared_memory else None

    def _near_rows(self, uri: str) -> NearRows:
        with self._lock:
            if uri not in self._near:
                self._near[uri] = NearRows(lambda: self._ask(uri, "near", _as_it_is, 0.0, {}), ROWS_TIMEOUT_S)
            return self._near[uri]

    def _options(self, uri: str, timeout_s: float) -> flight.FlightCallOptions:
        token = self._token(self._tls.uri(uri)) if callable(self._token) else self._token
        headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        return flight.FlightCallOptions(timeout=timeout_s, headers=headers)


def _as_it_is(value: Any) -> Any:
    return value


def _not_understood(uri: str, error: Exception) -> ServerUnavailable:
    return ServerUnavailable(
        f"The answer from {uri} cannot be read ({type(error).__name__}).",
        hint="Check that a gateway listens there, and its version.",
        retry_after_s=0.5,
    )


def _translated(error: Exception) -> CanalGroupError:
    """Return our error for Flight's."""
    with contextlib.suppress(ValueError):
        return error_from_json(getattr(error, "extra_info", b""))
    sentence = str(error).splitlines()[0] if str(error) else type(error).__name__
    if isinstance(error, flight.FlightUnauthenticatedError):
        return AccessDenied(
            "The gateway refuses access: the token is missing or wrong.", hint="Pass connect(..., token=...)."
        )
    return ServerUnavailable(f"The gateway does not answer: {sentence}.", retry_after_s=0.5)
