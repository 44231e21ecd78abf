"""The interface of `receive_buffer.pyx`."""

from typing_extensions import Buffer

class ReceiveBuffer(Buffer):
    """Holds bytes that have arrived. Its buffer interface is the free space after them, to be written to.

    It has space for 1 MiB, or for twice what it holds if that is more, and for 1 GiB at most.
    """

    def __len__(self) -> int:
        """Return how many bytes are held."""

    def make_room(self) -> None:
        """Make free space for more bytes.

        Raises:
            OverflowError: an event is larger than 1 GiB.
            MemoryError: there is no memory.
        """

    def received(self, size: int) -> None:
        """Count `size` bytes that were written into the free space as held."""

    def take(self) -> bytes | None:
        """Return the next event or packet; None if it has not arrived whole."""
