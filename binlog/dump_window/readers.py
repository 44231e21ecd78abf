"""Readers: how far each reader of a dump server has been sent, and what follows from that.

Rules:

1. The fastest reader sets the pace: the dump server reads on while that one has been sent all but half of the
   window. So a reader that has stopped does not stop the others.
2. A reader whose next packet was dropped is lapped. It has to read the source by itself.
3. The dump server reads on, whatever the pace, up to the place of a reader that wanted to attach ahead of it.
"""

from __future__ import annotations

from canal_group.binlog.dump_window.window import Place, Window


class Readers:
    """The attached readers of one window, by number; see the module's rules.

    Args:
        window: what they are sent.
        limit_bytes: limit of the window.
    """

    def __init__(self, window: Window, limit_bytes: int) -> None:
        self._window = window
        self._half_bytes = limit_bytes // 2
        self._places: dict[int, Place] = {}
        #: a place ahead of the window where a reader wants to attach
        self._wanted: tuple[str, int] | None = None

    def __len__(self) -> int:
        return len(self._places)

    def attach(self, reader: int, place: Place) -> None:
        """Add a reader that is sent what follows a place."""
        self._places[reader] = place

    def detach(self, reader: int) -> None:
        """Remove a reader, if it is attached."""
        self._places.pop(reader, None)

    def place(self, reader: int) -> Place:
        """Return where a reader has to be sent what follows."""
        return self._places[reader]

    def sent(self, reader: int, size: int) -> None:
        """Note that a reader was sent the next `size` bytes of the blocks from its place on."""
        place = self._places[reader]
        number, skip = place.number, place.skip + size
        for block in self._window.blocks(number):
            if skip < len(block.packets):
                break
            skip -= len(block.packets)
            number += 1
        self._places[reader] = Place(number, skip)

    def lapped(self) -> list[int]:
        """Return the readers whose next packet was dropped."""
        return [reader for reader, place in self._places.items() if place.number < self._window.first]

    def at_tip(self, reader: int) -> bool:
        """Return whether a reader has been sent everything that the dump server has read."""
        return self._places[reader].number == self._window.end

    def want(self, file: str, offset: int) -> None:
        """Note that a reader which is at a place ahead of the window wants to attach."""
        self._wanted = file, offset

    @property
    def may_read(self) -> bool:
        """Whether the dump server may read on."""
        if not self._places:
            return True
        if self._wanted is not None:
            if self._window.is_before(*self._wanted):
                return True
            self._wanted = None
        unsent = min(self._window.after(place) for place in self._places.values())
        return unsent <= self._half_bytes
