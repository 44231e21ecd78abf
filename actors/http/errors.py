"""Errors as HTTP answers: a status code, and the sentence and hint that the command line prints."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from canal_group.actors.http.ascii_json import AsciiJson
from canal_group.actors.process.stranger_log import stranger_log
from canal_group.merge.errors import (
    AccessDenied,
    CanalGroupError,
    ConfigError,
    ConsumerActive,
    DataError,
    FencedError,
    RetryableError,
    UsageError,
)

_log = stranger_log(__name__)


class Unauthenticated(AccessDenied):
    """The token is missing or unknown."""


class NotFound(UsageError):
    """There is no such instance, shard, client or file."""


class Malformed(UsageError):
    """A word of the request is not what it should be."""


class TooLarge(UsageError):
    """The request's body is larger than the service reads."""


#: the first class that an error is of decides
_STATUSES: tuple[tuple[type[CanalGroupError], int], ...] = (
    (Unauthenticated, 401),
    (AccessDenied, 403),
    (NotFound, 404),
    (Malformed, 400),
    (TooLarge, 413),
    (ConfigError, 422),
    (ConsumerActive, 409),
    (FencedError, 409),
    (UsageError, 409),
    (RetryableError, 503),
    (DataError, 502),
)


def answer_ours(_: Request, error: Exception) -> AsciiJson:
    """Return the answer for an error of this project."""
    assert isinstance(error, CanalGroupError), "registered for these"
    status = next((code for kind, code in _STATUSES if isinstance(error, kind)), 500)
    headers = {}
    if status == 401:  # noqa: PLR2004  as in the table
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, RetryableError):
        headers["Retry-After"] = str(max(1, round(float(error.details.get("retry_after_s", 1) or 1))))
    return AsciiJson(_body(type(error).__name__, error.message, error.hint), status, headers)


def answer_malformed(_: Request, error: Exception) -> AsciiJson:
    """Return the answer for a request whose parameters or body are not as they should be."""
    assert isinstance(error, RequestValidationError), "registered for these"
    first: dict[str, Any] = dict(error.errors()[0])
    where = ".".join(str(part) for part in first["loc"] if part != "body") or "The body"
    if first["type"] == "json_invalid":
        return AsciiJson(_body("UsageError", "The body is not JSON.", "Send one JSON object."), 400)
    return AsciiJson(_body("UsageError", f"{where}: {first['msg']}.", "See /openapi.json."), 400)


def answer_plain(_: Request, error: Exception) -> AsciiJson:
    """Return the answer for what the framework refuses: an unknown path, a method that a path lacks."""
    assert isinstance(error, HTTPException), "registered for these"
    body = _body("UsageError", f"{error.detail}.", "See /openapi.json.")
    return AsciiJson(body, error.status_code, error.headers)


def answer_defect(request: Request, error: Exception) -> AsciiJson:
    """Return the answer for an error that nobody expected; the log has it, the caller only its type."""
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    what = f"The request failed with an internal error ({type(error).__name__})."
    return AsciiJson(_body("CanalGroupError", what, "See the server's log."), 500)


def _body(name: str, message: str, hint: str) -> dict[str, str]:
    return {"error": name, "message": message, "hint": hint}
