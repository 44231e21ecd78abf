"""Skips: the events of one binlog that are left out, by their places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from merge.values.skips.skipped_event import SkippedEvent

#: the events to leave out at one place: by which event of a compressed transaction, 0: the one at the place
Parts: TypeAlias = Mapping[int, SkippedEvent]

_NOWHERE: Final = (1 << 63) - 1
_NONE: Final[Parts] = {}


class Skips:
    """Finds them.

    Args:
        events: of one server's binlog.
    """

    def __init__(self, events: Iterable[SkippedEvent] = ()) -> None:
        self._files: dict[str, dict[int, list[SkippedEvent]]] = {}
        for event in events:
            self._files.setdefault(event.file, {}).setdefault(event.offset, []).append(event)

    @classmethod
    def of_server(cls, events: Iterable[SkippedEvent], server: str) -> Skips:
        """Return those of a server's binlog; empty: of files."""
        return cls(event for event in events if event.server == server)

    def at(self, file: str, created_s: int, offset: int) -> Parts:
        """Return what is left out at a place of a file that was created at a time; 0: not known."""
        offsets = self._files.get(file)
        if not offsets or offset not in offsets:
            return _NONE
        return {event.part: event for event in offsets[offset] if event.is_of(created_s)}

    def next(self, file: str, offset: int) -> int:
        """Return the first place at or after an offset where something is left out; a huge one: nowhere."""
        offsets = self._files.get(file)
        return min((each for each in offsets or () if each >= offset), default=_NOWHERE)


#: returns what is left out of the binlog of a server, by its identity; empty: of files
SkipsOf: TypeAlias = Callable[[str], Skips]


def no_skips(_server: str) -> Skips:
    """Return that nothing is left out."""
    return Skips()
