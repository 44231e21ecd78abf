"""Who calls: the tokens of a Flight server's callers, looked at before anything else of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyarrow import flight

from merge.access import Grant, Grants

_NAME = "token"


class _Caller(flight.ServerMiddleware):  # type: ignore[misc]  # pyarrow is untyped
    def __init__(self, grant: Grant) -> None:
        super().__init__()
        self.grant = grant


class TokenDoor(flight.ServerMiddlewareFactory):  # type: ignore[misc]  # pyarrow is untyped
    """Lets in who shows a known token, whatever is asked for, and remembers what it allows.

    Args:
        grants: of the tokens; without any, everybody comes in.
    """

    def __init__(self, grants: Grants) -> None:
        super().__init__()
        self._grants = grants

    @property
    def middleware(self) -> dict[str, TokenDoor]:
        """What a Flight server is told of it."""
        return {_NAME: self}

    def start_call(self, info: Any, headers: Mapping[str, Sequence[str]]) -> _Caller:  # noqa: ARG002  Flight's signature
        """Refuse a call without a token that is known."""
        shown = next(iter(headers.get("authorization", [])), "").removeprefix("Bearer ")
        grant = self._grants.find(shown)
        if grant is None:
            raise flight.FlightUnauthenticatedError("The gateway's token is missing or wrong.")
        return _Caller(grant)


def grant_of(context: Any) -> Grant:
    """Return what the caller of a Flight call may do."""
    grant: Grant = context.get_middleware(_NAME).grant
    return grant
