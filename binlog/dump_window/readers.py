"""Readers: how far each reader of a dump server has been sent, and what follows from that.

Rules:

1. The fastest reader sets the pace: the dump server reads on while that one has been sent all but half of the
   window. So a reader that has stopped does not stop the others.
2. A reader whose next packet was dropped is lapped. It has to read the source by itself.
3. The dump server reads on, at any pace, up to the position where a reader wanted to attach ahead of it.
"""

from __future__ import annotations

from canal_group.binlog.dump_window.window import Window, WindowPosition


class Readers:
    """The attached readers of one window, by number; see the module's rules.

    Args:
        window: what they are sent.
        limit_bytes: limit of the window.
    """

    def __init__(self, window: Window, limit_bytes: int) -> None:
        self._window = window
        self._half_bytes = limit_bytes // 2
        self._positions: dict[int, WindowPosition] = {}
        #: a position ahead of the window where a reader wants to attach
        self._wanted: tuple[str, int] | None = None

    def __len__(self) -> int:
        return len(self._positions)

    def attach(self, reader: int, position: WindowPosition) -> None:
        """Add a reader that is sent what follows a position."""
        self._positions[reader] = position

    def detach(self, reader: int) -> None:
        """Remove a reader, if it is attached."""
        self._positions.pop(reader, None)

    def position(self, reader: int) -> WindowPosition:
        """Return where a reader has to be sent what follows."""
        return self._positions[reader]

    def sent(self, reader: int, size: int) -> None:
        """Note that a reader was sent the next `size` bytes of the blocks from its position on."""
        position = self._positions[reader]
        number, skip = position.number, position.skip + size
        for block in self._window.blocks(number):
            if skip < len(block.packets):
                break
            skip -= len(block.packets)
            number += 1
        self._positions[reader] = WindowPosition(number, skip)

    def lapped(self) -> list[int]:
        """Return the readers whose next packet was dropped."""
        return [
            reader for reader, position in self._positions.items() if position.number < self._window.first
        ]

    def at_tip(self, reader: int) -> bool:
        """Return whether a reader has been sent everything that the dump server has read."""
        return self._positions[reader].number == self._window.end

    def want(self, file: str, offset: int) -> None:
        """Note that a reader which is at a position ahead of the window wants to attach."""
        self._wanted = file, offset

    @property
    def may_read(self) -> bool:
        """Whether the dump server may read on."""
        if not self._positions:
            return True
        if self._wanted is not None:
            if self._window.is_before(*self._wanted):
                return True
            self._wanted = None
        unsent = min(self._window.after(position) for position in self._positions.values())
        return unsent <= self._half_bytes
