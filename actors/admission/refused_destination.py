"""The refusal of a destination that a gateway does not serve."""

from __future__ import annotations

from collections.abc import Iterable

from canal_group.merge.errors import CanalGroupError, ServerUnavailable, UsageError

#: when to ask again for a destination that is absent, seconds
RETRY_AFTER_S = 0.5
#: destinations that a refusal names
_NAMES_MAX = 20
#: characters of a name that a refusal repeats
_CHARS_MAX = 100


def not_served(name: object, served: Iterable[str], *, is_absent: bool) -> CanalGroupError:
    """Return the refusal of a destination.

    Args:
        name: as the request has it, which may be no text.
        served: the destinations that the caller may read.
        is_absent: whether the server starts, restarts or has stopped it: another server may serve it.
    """
    shown, names = repr(name)[:_CHARS_MAX], sorted(served)
    more = [f"and {len(names) - _NAMES_MAX} more"] if len(names) > _NAMES_MAX else []
    there = ", ".join([*names[:_NAMES_MAX], *more]) or "none"
    if is_absent:
        return ServerUnavailable(
            f"Destination {shown} is not served here now; served: {there}.", retry_after_s=RETRY_AFTER_S
        )
    return UsageError(
        f"Destination {shown} is not served here; served: {there}.",
        hint="Check the destination's name.",
    )
