"""Authentication: check the tokens of a Flight server's callers before anything else of a call.

Flight makes a caller's certificate available later than its headers. So a caller's grant is known only when
the call's own method begins, and every method asks for it first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyarrow import flight

from canal_group.actors.admission.access import Grant, Grants, token_digest
from canal_group.actors.admission.calls import Calls

_NAME = "token"


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller: the credential of a call, and the grant for that credential."""

    token: str = field(repr=False)
    #: the certificate's first alternative name, or its subject's common name if it has none. Empty, unless an
    #: authority of `client_ca` signed it and the caller has its key
    certificate: str
    grant: Grant

    @property
    def owner(self) -> str:
        """Whose calls and connections these are: two clients may have one name, at two destinations."""
        shown = {"token": token_digest(self.token).hex(), "certificate": self.certificate}
        return f"{self.grant.name} {shown.get(self.grant.shows, '')}"


class _Call(flight.ServerMiddleware):  # type: ignore[misc]  # pyarrow is untyped
    def __init__(self, grants: Grants, token: str, calls: Calls) -> None:
        super().__init__()
        self._grants, self._token, self._calls = grants, token, calls
        #: the owner that the call is counted under; None: it is not counted
        self._counted: str | None = None

    def caller(self, certificate: str) -> Caller:
        """Return who calls; the call is counted from now on."""
        grant = self._grants.find(self._token, certificate)
        if grant is None:
            raise _unknown()
        caller = Caller(self._token, certificate, grant)
        if self._counted is None:
            if not self._calls.begin(caller.owner):
                raise flight.FlightUnavailableError(f"Too many calls of {grant.name} are in progress.")
            self._counted = caller.owner
        return caller

    def call_completed(self, exception: Any) -> None:  # noqa: ARG002  Flight's signature
        """Count it no more."""
        if self._counted is not None:
            self._calls.end(self._counted)


class TokenMiddleware(flight.ServerMiddlewareFactory):  # type: ignore[misc]  # pyarrow is untyped
    """Admits callers with a known token, whatever they request, and stores what the token allows.

    Args:
        grants: returns those of tokens and certificates; they may change.
        calls_max: how many calls of one owner are answered at once; each holds a thread.
    """

    def __init__(self, grants: Callable[[], Grants], calls_max: int) -> None:
        super().__init__()
        self._grants = grants
        self._calls = Calls(calls_max)

    @property
    def middleware(self) -> dict[str, TokenMiddleware]:
        """The `middleware` argument of a Flight server."""
        return {_NAME: self}

    def start_call(self, info: Any, headers: Mapping[str, Sequence[str]]) -> _Call:  # noqa: ARG002  Flight's signature
        """Refuse a call without a token that is known, if no certificate can be enough."""
        shown = next(iter(headers.get("authorization", [])), "").removeprefix("Bearer ")
        grants = self._grants()
        if not grants.may_come_in(shown):
            raise _unknown()
        return _Call(grants, shown, self._calls)


def caller_of(context: Any) -> Caller:
    """Return who makes a Flight call. It counts as the caller's until it is answered.

    Raises:
        FlightUnauthenticatedError: nobody who is known.
        FlightUnavailableError: too many calls of the caller are being answered.
    """
    certificate = context.peer_identity().decode("utf-8", "replace")
    caller: Caller = context.get_middleware(_NAME).caller(certificate)
    return caller


def _unknown() -> flight.FlightUnauthenticatedError:
    return flight.FlightUnauthenticatedError("The gateway's token is missing or wrong.")
