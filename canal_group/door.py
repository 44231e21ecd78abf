"""The consumer's end of the gateway's Flight protocol: requests, streams, errors."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from pyarrow import flight

from merge.errors import CanalGroupError, ConfigError, ServerUnavailable, error_from_dict

#: what a call may take beyond the time that the gateway was asked to wait, seconds
CALL_TIMEOUT_S = 40.0


class GatewayDoor:
    """A connection to one destination's gateway. Safe to use from several threads.

    Args:
        uri: "grpc://host:port".
        destination: what the gateway serves.
        token: shared with the gateway; None: none.
    """

    def __init__(self, uri: str, destination: str, token: str | None = None) -> None:
        try:
            self._flight = flight.FlightClient(uri)
        except pa.ArrowInvalid as error:
            raise ConfigError(f"{uri!r} is no gateway address.", hint="Expected grpc://host:port.") from error
        self._destination = destination
        self._headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]

    def ask(self, request: str, *, wait_s: float = 0.0, **body: Any) -> Any:
        """Send a request and return its answer.

        Raises:
            CanalGroupError: the gateway's refusal, or ServerUnavailable if there is no answer.
        """
        action = flight.Action(request, json.dumps({"destination": self._destination, **body}).encode())
        try:
            results = list(self._flight.do_action(action, self._options(wait_s)))
        except (flight.FlightError, pa.ArrowException) as error:
            raise _translated(error) from error
        answer = json.loads(results[0].body.to_pybytes())
        if "error" in answer:
            raise error_from_dict(answer["error"])
        return answer["value"]

    def rows(self, **ticket: Any) -> pa.Table:
        """Return the rows that a ticket names.

        Raises:
            CanalGroupError: as `ask`.
        """
        named = flight.Ticket(json.dumps({"destination": self._destination, **ticket}).encode())
        try:
            return self._flight.do_get(named, self._options(0.0)).read_all()
        except (flight.FlightError, pa.ArrowException) as error:
            raise _translated(error) from error

    def close(self) -> None:
        """Close the connection."""
        self._flight.close()

    def _options(self, wait_s: float) -> flight.FlightCallOptions:
        return flight.FlightCallOptions(timeout=CALL_TIMEOUT_S + wait_s, headers=self._headers)


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
        return ConfigError(
            "The gateway refuses us: its token is missing or wrong.", hint="Pass connect(..., token=...)."
        )
    return ServerUnavailable(f"The gateway does not answer: {sentence}.", retry_after_s=0.5)
