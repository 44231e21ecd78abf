"""A shard's removal by an operator, as a server took it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Removal:
    """A shard's removal, as a server took it."""

    epoch: int
    #: the world's time of the request, microseconds
    at_us: int
    #: headers that its source had then
    there: int
    #: whether what is not acknowledged is dropped
    now: bool
