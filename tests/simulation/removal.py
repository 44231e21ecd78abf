"""An operator's removal of a shard, as a server accepted it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Removal:
    """A shard's removal, as a server accepted it."""

    epoch: int
    #: the world's time of the request, microseconds
    at_us: int
    #: number of headers that its source had then
    there: int
    #: whether what is not acknowledged is dropped
    now: bool
