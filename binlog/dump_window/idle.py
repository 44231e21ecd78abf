"""Idle: the moment up to which a dump server has read everything.

A source sends a heartbeat only when it has sent all it had. The moment at which a heartbeat is read proves
nothing. But one that was not there at a moment D, when the dump server's socket and buffer were empty, came
after D, and everything that the source had sent by D came before it. So everything that was committed by D is
in the window, and a reader that has been sent the whole window may be told D. It may not be told of the
heartbeat: its own socket may have been empty at a later moment, at which the dump server had not yet read
what the source had sent.
"""

from __future__ import annotations


class Idle:
    """Notes when a dump server had nothing to read; see the module's rule."""

    def __init__(self) -> None:
        self._empty_at_us: int | None = None

    def found_empty(self, moment_us: int) -> None:
        """Note that nothing had arrived at a moment, and nothing was held that is not in the window."""
        self._empty_at_us = moment_us

    def heartbeat(self) -> int | None:
        """Return the moment that a heartbeat proves, once all before it is in the window; None if none."""
        return self._empty_at_us
