"""Errors of this project, carried through Flight as JSON in the `extra_info` of a Flight error."""

from __future__ import annotations

import json

from pyarrow import flight

from canal_group.actors.process.stranger_log import stranger_log
from canal_group.merge.errors import CanalGroupError, UsageError, error_from_json

_log = stranger_log(__name__)

#: errors that decoding a malformed request raises
MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
#: how much of such an error's text a refusal repeats, characters
_SHOWN_MAX = 200


def flight_error(error: CanalGroupError) -> flight.FlightServerError:
    """Return the Flight error that carries an error of this project."""
    return flight.FlightServerError(str(error), extra_info=json.dumps(error.to_dict()).encode())


def our_error(error: Exception) -> CanalGroupError | None:
    """Return the project's own error inside a Flight error, or None."""
    try:
        return error_from_json(getattr(error, "extra_info", b""))
    except ValueError:
        return None


def refusal(error: Exception, what: str) -> CanalGroupError:
    """Return the error to send to a client; an unexpected error is logged, and only its type is sent.

    Args:
        error: that the request raised.
        what: name of the request in messages, as the subject of a sentence.
    """
    if isinstance(error, CanalGroupError):
        return error
    if isinstance(error, MALFORMED):
        return UsageError(f"{what} is malformed: {type(error).__name__} {str(error)[:_SHOWN_MAX]}.")
    _log.error("%s failed", what, exc_info=error)
    return CanalGroupError(
        f"{what} failed with an internal error ({type(error).__name__}).", hint="See the server's log."
    )
