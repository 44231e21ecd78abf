"""What callers see of `packets.pyx`."""

from actors.parse.native.receive_buffer import ReceiveBuffer

class PacketBuffer(ReceiveBuffer):
    """Holds the bytes that have arrived of a stream of packets.

    With `semi_sync`, two more bytes stand before each event: a mark, and whether the source waits for a
    reply. They are left out of what is taken. After a packet for which it waits, the source counts from 1
    again.

    Args:
        sequence: number of the first packet.
        semi_sync: whether the source treats this connection as a semi-synchronous replica.
    """

    #: whether the source waits for a reply to an event that was taken; the caller resets it
    reply_awaited: bool

    def __init__(self, sequence: int = 1, semi_sync: bool = False) -> None: ...
    def take(self) -> bytes | None:
        """Return the next packet's payload, joined from its parts; None if it has not arrived whole.

        Raises:
            ValueError: its number is out of sequence, and it holds no error.
            LookupError: it lacks the bytes that `semi_sync` requires; the argument is what it has, in hex.
        """
