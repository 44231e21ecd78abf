"""What callers see of `packets.pyx`."""

from typing_extensions import Buffer

class PacketBuffer(Buffer):
    """Holds what arrived of a stream of packets. As a buffer it is its room: what `received` counts.

    It has room for 1 MiB, or for twice of what it holds where that is more, and for 1 GiB at most.

    Args:
        sequence: number of the first packet.
    """

    def __init__(self, sequence: int = 1) -> None: ...
    def __len__(self) -> int:
        """Return how many bytes are held."""

    def make_room(self) -> None:
        """Make room for more bytes.

        Raises:
            OverflowError: a payload has more than 1 GiB.
            MemoryError: there is none.
        """

    def received(self, size: int) -> None:
        """Take so many bytes that were written into the room."""

    def take(self) -> bytes | None:
        """Return the next packet's payload, put together from its parts; None: it is not whole yet.

        Raises:
            ValueError: its number is not the one that follows, and it holds no error.
        """
