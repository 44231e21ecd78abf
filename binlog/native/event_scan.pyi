"""The interface of `event_scan.pyx`."""

from typing_extensions import Buffer

class EventScan:
    """Checks the events of one file in order, and notes where transactions end and which GTIDs they have.

    An event is taken if it is whole, ends where its header says, and has its checksum. The scan knows what
    begins and ends a transaction, and nothing else of an event: it takes types that no reader knows.

    Args:
        offset: where the first event begins, bytes from the beginning of the file.
    """

    #: end of the last event that was taken
    offset: int
    #: end of the last whole transaction, or of an event outside of one
    whole_end: int
    #: where the last transaction begins
    begun_at: int
    #: whether events end in a CRC32; set by the owner
    checksum: bool
    #: the scan stops before a transaction that begins here or after; set by the owner
    until: int
    #: how many whole transactions there were
    transactions: int
    #: commit time of the first one, and the greatest of them, microseconds since 1970; 0: there was none
    first_us: int
    latest_us: int

    def __init__(self, offset: int) -> None: ...
    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun and not ended."""

    def run(self, data: Buffer, at: int) -> int:
        """Take events, and return where the first one begins that is not taken.

        Not taken is an event that is incomplete or damaged, one that is not in the file or says where the
        stream is (ROTATE, format description, heartbeat), and one at `until`.

        Args:
            data: the events.
            at: where the first one begins.
        """

    def pass_event(self, size: int) -> None:
        """Count an event of the file that the owner has checked itself; it ends an open transaction."""

    def take_runs(self) -> list[tuple[bytes, int, int]]:
        """Return the GTIDs of whole transactions since the last call, in order.

        Returns:
            For each run of numbers without a gap: its source (16 bytes of a uuid and the tag, or 4 of a
                domain and 4 of a server id, little-endian), its first number and its last one.
        """
