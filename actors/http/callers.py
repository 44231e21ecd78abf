"""Callers of the HTTP service: which token they show, and what an instance lets them do.

Tokens and grants are the gateway's. A certificate identifies nobody here: who has only a certificate uses the
gateway.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from canal_group.actors.admission.access import READER, Grant
from canal_group.actors.http.errors import NotFound, Unauthenticated, answer_ours
from canal_group.actors.http.served import Served
from canal_group.merge.errors import AccessDenied, CanalGroupError

#: paths that name no instance, and show what the package has: everybody may ask for them
_OPEN: Final = re.compile(r"/|/live|/ready|/openapi\.json|/page(/.*)?", re.DOTALL)
_DESTINATION: Final = re.compile(r"/api/instances/([^/]+)")


class Callers:
    """Checks who calls. Safe to use from several threads.

    Args:
        served: returns the instances, by destination.
        admitted: told of each call whose caller is known: (host, port, name of the grant).
        anybody: whether instances whose settings name no clients may be read without a token, as through
            their gateways: only on loopback.
    """

    def __init__(
        self,
        served: Callable[[], Mapping[str, Served]],
        admitted: Callable[[str, int, str], None],
        *,
        anybody: bool,
    ) -> None:
        self._served = served
        self._admitted = admitted
        self._anybody = anybody

    def readable(self, request: Request) -> list[tuple[Served, Grant]]:
        """Return the instances that a caller may read.

        Raises:
            Unauthenticated: there are instances, and the caller may read none of them.
        """
        instances = self._served().values()
        found = []
        for one in instances:
            try:
                found.append((one, self._grant(one, request)))
            except AccessDenied:
                continue
        if instances and not found:
            raise _unauthenticated(request)
        return found

    def reader(self, request: Request, destination: str) -> tuple[Served, Grant]:
        """Return an instance, and the grant of a caller who may read it.

        Raises:
            NotFound: this server has no such instance.
            AccessDenied: its caller may not.
        """
        one = self._served().get(destination)
        if one is None:
            # A stranger does not learn which instances there are.
            self.readable(request)
            raise NotFound(
                f"This server has no instance {destination}.", hint="GET /api/instances lists them."
            )
        return one, self._grant(one, request)

    def operator(self, request: Request, destination: str, operation: str) -> tuple[Served, Grant]:
        """Return an instance, and the grant of a caller who may change it; raises as `reader`.

        Args:
            request: the caller's.
            destination: the instance.
            operation: what is to be changed, for the refusal.
        """
        one, grant = self.reader(request, destination)
        grant.check(destination, operation=operation)
        return one, grant

    def check(self, request: Request) -> None:
        """Return if a caller may read the instance that a path names, or any; raises as `reader`."""
        destination = _DESTINATION.match(request.scope["path"])
        if destination is None:
            self.readable(request)
        else:
            self.reader(request, destination[1])

    def _grant(self, one: Served, request: Request) -> Grant:
        token = token_of(request)
        grant = one.grants.find(token)
        if grant is None or (grant is READER and not self._anybody) or (token and self._is_unknown(token)):
            raise _unauthenticated(request)
        grant.check(one.destination)
        if request.client is not None:
            self._admitted(request.client.host, request.client.port, grant.name)
        return grant

    def _is_unknown(self, token: str) -> bool:
        """Return whether no instance knows a token: its caller is told, also where none is needed."""
        return not any(one.grants.knows(token) for one in self._served().values())


class CallersOnly:
    """Refuses strangers before a body is read, whatever the path and method; an ASGI middleware.

    Args:
        app: answers the callers that are known.
        callers: checks them.
    """

    def __init__(self, app: ASGIApp, callers: Callers) -> None:
        self._app, self._callers = app, callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, if the caller may read the instance of the path."""
        if scope["type"] == "http" and not _OPEN.fullmatch(scope["path"]):
            request = Request(scope)
            try:
                await run_in_threadpool(self._callers.check, request)
            except CanalGroupError as error:
                await answer_ours(request, error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def token_of(request: Request) -> str:
    """Return the token that a request shows; empty: none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _unauthenticated(request: Request) -> Unauthenticated:
    shown = "unknown" if token_of(request) else "missing"
    return Unauthenticated(
        f"The token is {shown}.",
        hint="Send one of gateway.clients as `Authorization: Bearer TOKEN`. Without clients, the user that"
        " runs the server finds the operator's in ~/.cache/canal-group.",
    )
