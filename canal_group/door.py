"""The consumer's end of the gateways' Flight protocol: requests, streams, errors, and whom to ask."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import flight

from canal_group.near_rows import NearRows
from canal_group.tls import UNSAID, Tls
from merge.access import is_header_text
from merge.errors import (
    AccessDenied,
    CanalGroupError,
    ConfigError,
    RetryableError,
    ServerUnavailable,
    error_from_dict,
)

#: what a call may take beyond the time that the gateway was asked to wait, seconds; the gateway itself waits
#: for 10 at most, so that a longer silence is a gateway that was paused or cut off
CALL_TIMEOUT_S = 15.0
#: what reading a batch's rows may take, seconds
ROWS_TIMEOUT_S = 60.0
#: gRPC would wait up to two minutes between two attempts to connect to a gateway that is back
_RECONNECT_MAX_MS = 1_000


class GatewayDoor:
    """A connection to one destination's active gateway. Safe to use from several threads, and to pickle.

    A call is made once. Where it meets no active server, the door turns to the next gateway, and the next
    call goes there.

    Args:
        uri: "grpc://host:port" or "grpc+tls://host:port", several parted by commas, or what returns them (the
            active one first).
        destination: what the gateways serve.
        token: that they know us by; None: none.
        tls: whom we trust, and who we are.

    Raises:
        ConfigError: an address cannot be, or a file cannot be read.
    """

    def __init__(
        self,
        uri: str | Callable[[], Sequence[str]],
        destination: str,
        token: str | None = None,
        tls: Tls = UNSAID,
    ) -> None:
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
        if token is not None and not is_header_text(token):
            raise ConfigError(
                "The token cannot be sent: it has characters other than printable ASCII, or space around it.",
                hint="A line end of its file, perhaps.",
            )
        self._token = token
        self._headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what a copy in another process is made of: it connects there, to the gateways known now."""
        known = ",".join([self._where(), *(uri for uri in self._find() if uri != self._uri)])
        return GatewayDoor, (known, self._destination, self._token, self._tls)

    def ask(self, request: str, *, wait_s: float = 0.0, **body: Any) -> Any:
        """Send a request and return its answer.

        Raises:
            CanalGroupError: the gateway's refusal, or ServerUnavailable if there is no answer: then it is
                unknown whether the request was heard.
        """
        return self._ask(self._where(), request, wait_s, body)

    def _ask(self, uri: str, request: str, wait_s: float, body: Mapping[str, Any]) -> Any:
        action = flight.Action(request, json.dumps({"destination": self._destination, **body}).encode())
        try:
            results = list(self._client(uri).do_action(action, self._options(CALL_TIMEOUT_S + wait_s)))
        except (flight.FlightError, pa.ArrowException) as error:
            raise self._failed(uri, self._mistaken(uri) or _translated(error)) from error
        self._answered.add(uri)
        answer = json.loads(results[0].body.to_pybytes())
        if "error" in answer:
            raise self._failed(uri, error_from_dict(answer["error"]))
        return answer["value"]

    def rows(self, **ticket: Any) -> pa.Table:
        """Return the rows that a ticket names.

        Raises:
            CanalGroupError: as `ask`.
        """
        named = flight.Ticket(json.dumps({"destination": self._destination, **ticket}).encode())
        uri = self._where()
        try:
            lent = self._near_rows(uri).borrow({"destination": self._destination, **ticket})
            if lent is not None:
                return lent
        except CanalGroupError as error:
            raise self._failed(uri, error) from error
        try:
            return self._client(uri).do_get(named, self._options(ROWS_TIMEOUT_S)).read_all()
        except (flight.FlightError, pa.ArrowException) as error:
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
            self._turn(self._uri)
        if not self._uri:
            raise ServerUnavailable(
                f"No server of {self._destination} is known to ZooKeeper.",
                hint="Start one, or check the destination's name.",
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
                self._turn(uri)
        return error

    def _mistaken(self, uri: str) -> ConfigError | None:
        """Return what is wrong with our settings, where a gateway that never answered says so."""
        return None if uri in self._answered else self._tls.refusal(self._tls.uri(uri))

    def _turn(self, away_from: str) -> None:
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
                try:
                    client = flight.FlightClient(
                        self._tls.uri(uri),
                        generic_options=[("grpc.max_reconnect_backoff_ms", _RECONNECT_MAX_MS)],
                        **self._tls_options,
                    )
                except pa.ArrowInvalid as error:
                    raise _no_address(uri) from error
                self._clients[uri] = client
            return client

    def _near_rows(self, uri: str) -> NearRows:
        with self._lock:
            if uri not in self._near:
                self._near[uri] = NearRows(lambda: self._ask(uri, "near", 0.0, {}), ROWS_TIMEOUT_S)
            return self._near[uri]

    def _options(self, timeout_s: float) -> flight.FlightCallOptions:
        return flight.FlightCallOptions(timeout=timeout_s, headers=self._headers)


def split_uris(text: str) -> list[str]:
    """Return the addresses of "grpc://a:1,b:2": one scheme for all, or each with its own.

    Raises:
        ConfigError: there is none.
    """
    scheme, separator, _ = text.partition("://")
    if not separator:
        raise _no_address(text)
    parts = [part.strip() for part in text.split(",")]
    uris = [part if "://" in part else f"{scheme}://{part}" for part in parts if part]
    if not all(uri.partition("://")[2] for uri in uris):
        raise _no_address(text)
    return uris


def _no_address(uri: str) -> ConfigError:
    return ConfigError(f"{uri!r} is no gateway address.", hint="Expected grpc://host:port, or grpc+tls://.")


def _translated(error: Exception) -> CanalGroupError:
    """Return our error for Flight's."""
    extra = getattr(error, "extra_info", b"")
    if extra:
        try:
            return error_from_dict(json.loads(extra))
        except (ValueError, KeyError, TypeError):
            pass
    sentence = str(error).splitlines()[0] if str(error) else type(error).__name__
    if isinstance(error, flight.FlightUnauthenticatedError):
        return AccessDenied(
            "The gateway refuses us: its token is missing or wrong.", hint="Pass connect(..., token=...)."
        )
    return ServerUnavailable(f"The gateway does not answer: {sentence}.", retry_after_s=0.5)
