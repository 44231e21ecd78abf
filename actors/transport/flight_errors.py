"""Our errors on their way through Flight: as JSON in a Flight error's `extra_info`."""

from __future__ import annotations

import json
import logging

from pyarrow import flight

from merge.errors import CanalGroupError, UsageError, error_from_json

_log = logging.getLogger(__name__)

#: what is raised where a request holds something else than it should
MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
#: what a refusal repeats of such an error, characters
_SHOWN_MAX = 200


def flight_error(error: CanalGroupError) -> flight.FlightServerError:
    """Return what a Flight server raises for an error of ours."""
    return flight.FlightServerError(str(error), extra_info=json.dumps(error.to_dict()).encode())


def our_error(error: Exception) -> CanalGroupError | None:
    """Return the error of ours that a Flight client was told of; None: it is Flight's own, or anybody's."""
    try:
        return error_from_json(getattr(error, "extra_info", b""))
    except ValueError:
        return None


def refusal(error: Exception, what: str) -> CanalGroupError:
    """Return what a caller is told of any error; one that nobody foresaw is logged, and shows nothing of us.

    Args:
        error: that its request met.
        what: the request, as a sentence names it.
    """
    if isinstance(error, CanalGroupError):
        return error
    if isinstance(error, MALFORMED):
        return UsageError(f"{what} is malformed: {type(error).__name__} {str(error)[:_SHOWN_MAX]}.")
    _log.error("%s failed", what, exc_info=error)
    return CanalGroupError(
        f"{what} failed with an internal error ({type(error).__name__}).", hint="See the server's log."
    )
