"""The interface of `fast_path.pyx`."""

from collections.abc import Iterable

from canal_group.binlog.native.accumulator import Accumulator
from canal_group.binlog.native.images import RowBuffers
from canal_group.binlog.native.receive_buffer import ReceiveBuffer

#: types of events that a fast path may take
USUAL: tuple[int, ...]

class FastPath:
    """Reads the events of usual transactions, and leaves all others to the grammar.

    Usual events are: a GTID, BEGIN, a table map that equals the last one with its table id, rows, a
    statement's text, a commit. The fast path does not take an event, and changes nothing, if the chunk does
    not know its table, GTID source or file yet, its offset does not fit, its checksum or rows are wrong, or
    it would fill the chunk. State is shared with the grammar: see `Accumulator`.

    The grammar reads such an event and tells the fast path about it (`learn_table`, `leave_out`,
    `gather`, `learn_source`), so that the next event like it is usual.
    """

    #: whether events may be taken; set by the owner
    is_open: bool
    #: end of the last event in the file; also set by the owner. An event's log_pos is its low 32 bits.
    offset: int
    #: events that end after this offset are not taken; set by the owner
    until: int
    #: whether commit times are those of the servers that committed first; set by the owner before it reads
    original: bool
    accumulator: Accumulator

    def __init__(self, accumulator: Accumulator) -> None: ...
    def describe(self, kinds: Iterable[int], checksum: bool, gaps: bool) -> None:
        """Set the format of the file.

        Args:
            kinds: types of USUAL to take: the file has them in the layout that the fast path reads.
            checksum: whether events end in a CRC32.
            gaps: whether offsets may jump forward, because the server leaves events out.
        """

    def begin_file(self) -> None:
        """Forget all tables, and the file's index in the chunk's names."""

    def begin_chunk(self) -> None:
        """Forget the buffers of rows, and which sources are among the chunk's names."""

    def learn_table(self, body: bytes) -> None:
        """Learn a table from the body of a TABLE_MAP event that the grammar has read."""

    def leave_out(self, body: bytes) -> None:
        """Learn that the table of a rows event is not selected."""

    def gather(self, body: bytes, version: bytes, rows: RowBuffers) -> None:
        """Learn the buffers of a table's rows.

        Args:
            body: body of a rows event of the table.
            version: its table map's bytes after id and flags.
            rows: the buffers that gather them in this chunk.
        """

    def learn_source(self, kind: int, body: bytes, server: int) -> None:
        """Learn that the chunk has a name for the GTID source of the open transaction.

        Args:
            kind: type of the event that began the transaction.
            body: body of that event.
            server: server id in that event's header.
        """

    def take(self, event: bytes) -> int:
        """Read an event, with header and checksum; return its type, or 0 if it was not taken."""

    def run(self, arrived: ReceiveBuffer) -> None:
        """Read events up to one that the fast path does not take; other threads may run meanwhile."""

    def counts(self) -> dict[int, int]:
        """Return how many events of each type `run` took."""

def checksum_of(data: bytes) -> int:
    """Return the CRC32 of bytes; the same as zlib's."""
