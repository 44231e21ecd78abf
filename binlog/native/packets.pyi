"""The interface of `packets.pyx`."""

from canal_group.binlog.native.receive_buffer import ReceiveBuffer

class PacketBuffer(ReceiveBuffer):
    """Holds the bytes that have arrived of a stream of packets.

    With `semi_sync`, two more bytes stand before each event: a mark, and whether the source waits for a
    reply. They are left out of the packets that are taken. After a packet for which it waits, the source
    counts from 1 again.

    Args:
        sequence: number of the first packet.
        semi_sync: whether the source treats this connection as a semi-synchronous replica.
        numbered: whether packets are numbered; a dump server's all have number 0.
    """

    #: whether the source waits for a reply to an event that was taken; the caller resets it
    reply_awaited: bool

    def __init__(self, sequence: int = 1, semi_sync: bool = False, numbered: bool = True) -> None: ...
    def copy(self) -> PacketBuffer:
        """Return a buffer that holds the same bytes, and expects the same packet."""

    def take(self) -> bytes | None:
        """Return the next packet's payload, joined from its parts; None if it has not arrived whole.

        Raises:
            ValueError: its number is out of sequence, and it holds no error.
            LookupError: it lacks the bytes that `semi_sync` requires; the argument has its bytes, in hex.
        """

    def take_run(self, offset: int) -> tuple[bytes, int]:
        """Return the next packets with usual events, numbered 0, and the end of the last event.

        The run ends before an event that has not arrived whole or comes in several packets, a ROTATE, a
        format description, a heartbeat, an event that is not in the file or ends before `offset`, and a
        packet that is not an event.

        Args:
            offset: the end of the event before, bytes from the beginning of the file.

        Returns:
            The packets, perhaps none, without the bytes of semi-synchronous replication, and the offset after
            them.
        """

def events_of(run: bytes) -> bytes:
    """Return the events of a run, see `PacketBuffer.take_run`, without the heads of their packets.

    Raises:
        ValueError: it is not a run.
    """
