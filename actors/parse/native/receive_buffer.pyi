"""What callers see of `receive_buffer.pyx`."""

from typing_extensions import Buffer

class ReceiveBuffer(Buffer):
    """Holds bytes that have arrived. As a buffer it is the room behind them: what `received` counts.

    It has room for 1 MiB, or for twice of what it holds where that is more, and for 1 GiB at most.
    """

    def __len__(self) -> int:
        """Return how many bytes are held."""

    def make_room(self) -> None:
        """Make room for more bytes.

        Raises:
            OverflowError: an event has more than 1 GiB.
            MemoryError: there is none.
        """

    def received(self, size: int) -> None:
        """Take so many bytes that were written into the room."""

    def take(self) -> bytes | None:
        """Return the next event, or packet; None: it is not whole yet."""
