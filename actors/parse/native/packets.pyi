"""What callers see of `packets.pyx`."""

from actors.parse.native.receive_buffer import ReceiveBuffer

class PacketBuffer(ReceiveBuffer):
    """Holds what arrived of a stream of packets.

    Args:
        sequence: number of the first packet.
    """

    def __init__(self, sequence: int = 1) -> None: ...
    def take(self) -> bytes | None:
        """Return the next packet's payload, put together from its parts; None: it is not whole yet.

        Raises:
            ValueError: its number is not the one that follows, and it holds no error.
        """
