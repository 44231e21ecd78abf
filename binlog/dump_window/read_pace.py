"""Read pace: when a dump server reads its source again.

To wake up for each commit costs more than to send it on, and readers gather for longer. So a source that
sends little is read at intervals. What comes after a pause is read at once, and so is a source that sends
much: it must not wait for room in a socket.
"""

from __future__ import annotations

#: shortest time between two reads of a source that sends little, seconds
INTERVAL_S = 0.005
#: what arrives in that time at least if it is not little, bytes
MUCH_BYTES = 1 << 17


class ReadPace:
    """The pace of one source. Times are seconds of any clock that never steps back."""

    def __init__(self) -> None:
        #: when the interval ends that the last read has begun, or that it is in
        self._ends_s = 0.0
        #: bytes read in the interval, without the bytes of its first read: these had arrived before the
        #: interval
        self._arrived = 0
        self._little = self._emptied = True

    def pause_s(self, now_s: float) -> float:
        """Return how long what has arrived has to wait."""
        return max(0.0, self._ends_s - now_s) if self._little and self._emptied else 0.0

    def read(self, size: int, now_s: float, *, emptied: bool) -> None:
        """Note how many bytes were read, and whether that was all: TLS gives them in small parts."""
        self._arrived, self._emptied = self._arrived + size, emptied
        if now_s >= self._ends_s:
            self._little = self._arrived < MUCH_BYTES
            self._ends_s, self._arrived = now_s + INTERVAL_S, 0
