"""Skips: the events of one binlog that are left out, by their offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from canal_group.merge.values.skips.skipped_event import SkippedEvent

#: the events to leave out at one offset, by number in a compressed transaction, from 1; 0: the event itself
Parts: TypeAlias = Mapping[int, SkippedEvent]

_NOWHERE: Final = (1 << 63) - 1
_NONE: Final[Parts] = {}


class Skips:
    """Finds the events to leave out.

    Args:
        events: of one server's binlog.
    """

    def __init__(self, events: Iterable[SkippedEvent] = ()) -> None:
        self._files: dict[str, dict[int, list[SkippedEvent]]] = {}
        for event in events:
            self._files.setdefault(event.file, {}).setdefault(event.offset, []).append(event)

    @classmethod
    def of_server(cls, events: Iterable[SkippedEvent], server: str) -> Skips:
        """Return the skips of a server's binlog; an empty server: of files."""
        return cls(event for event in events if event.server == server)

    def at(self, file: str, created_s: int, offset: int) -> Parts:
        """Return the events to leave out at an offset of a file that was created at a time; 0: unknown."""
        offsets = self._files.get(file)
        if not offsets or offset not in offsets:
            return _NONE
        return {event.part: event for event in offsets[offset] if event.is_of(created_s)}

    def next(self, file: str, offset: int) -> int:
        """Return the first offset, from a given one on, where an event is left out; a huge one if none is."""
        offsets = self._files.get(file)
        return min((each for each in offsets or () if each >= offset), default=_NOWHERE)


#: returns the skips of the binlog of a server, by its identity; empty: of files
SkipsOf: TypeAlias = Callable[[str], Skips]


def no_skips(_server: str) -> Skips:
    """Return skips that leave out no event."""
    return Skips()
