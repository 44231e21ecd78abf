"""Our errors on their way through Flight: as JSON in a Flight error's `extra_info`."""

from __future__ import annotations

import json

from pyarrow import flight

from merge.errors import CanalGroupError, error_from_dict


def flight_error(error: CanalGroupError) -> flight.FlightServerError:
    """Return what a Flight server raises for an error of ours."""
    return flight.FlightServerError(str(error), extra_info=json.dumps(error.to_dict()).encode())


def our_error(error: Exception) -> CanalGroupError | None:
    """Return the error of ours that a Flight client was told of; None: it is Flight's own."""
    extra = getattr(error, "extra_info", b"")
    return error_from_dict(json.loads(extra)) if extra else None
