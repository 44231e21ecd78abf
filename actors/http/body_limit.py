"""A limit for the bodies of requests, whatever length they announce."""

from __future__ import annotations

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from canal_group.actors.http.errors import TooLarge, answer_ours

#: bytes of a request's body
BODY_BYTES_MAX = 1 << 20


class BodyLimit:
    """Refuses a body of more than `BODY_BYTES_MAX` bytes before it is held as a whole; an ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; its body is counted as it is received."""
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > BODY_BYTES_MAX:
                raise _error()
            return message

        async def unless_refused(message: Message) -> None:
            # The framework has an answer of its own for whatever goes wrong while it reads a body.
            if taken <= BODY_BYTES_MAX:
                await send(message)

        try:
            await self._app(scope, counted, unless_refused)
        finally:
            if taken > BODY_BYTES_MAX:
                await answer_ours(Request(scope), _error())(scope, receive, send)


def _error() -> TooLarge:
    return TooLarge(f"The body has more than {BODY_BYTES_MAX:,} bytes.")
