"""What callers see of `packets.pyx`."""

from actors.parse.native.receive_buffer import ReceiveBuffer

class PacketBuffer(ReceiveBuffer):
    """Holds the bytes that have arrived of a stream of packets.

    Args:
        sequence: number of the first packet.
    """

    def __init__(self, sequence: int = 1) -> None: ...
    def take(self) -> bytes | None:
        """Return the next packet's payload, joined from its parts; None if it has not arrived whole.

        Raises:
            ValueError: its number is out of sequence, and it holds no error.
        """
