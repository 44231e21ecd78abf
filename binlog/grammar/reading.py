"""Reading: which event a decoder is busy with, and since when; other threads read this."""

from __future__ import annotations

import time
from typing import NamedTuple


class Reading(NamedTuple):
    """Where a decoder is."""

    file: str
    offset: int
    #: type of the event that is being read; empty: no event is, and everything before the offset was read
    event: str = ""
    #: when that began, `time.monotonic`
    since_s: float = 0.0

    @property
    def for_s(self) -> float:
        """How long the event has been read, seconds; 0: none is being read."""
        return time.monotonic() - self.since_s if self.event else 0.0

    def __str__(self) -> str:
        if not self.event:
            return f"read up to {self.file}:{self.offset}"
        return f"reading {self.event} at {self.file}:{self.offset} for {self.for_s:.1f} s"
