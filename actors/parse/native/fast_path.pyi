"""What callers see of `fast_path.pyx`."""

from collections.abc import Iterable

from actors.parse.native.accumulator import Accumulator
from actors.parse.native.images import RowBuffers
from actors.parse.native.receive_buffer import ReceiveBuffer

#: types of events that a fast path may take
USUAL: tuple[int, ...]

class FastPath:
    """Takes the events of usual transactions; whatever is not plainly usual is left to the grammar.

    Usual is: a GTID, BEGIN, a table map that is the same as the last one of its number, rows, a statement's
    text, a commit. Left alone are: a table, a GTID's source or a file that the chunk does not know yet; a
    place in the file that does not fit; a checksum or rows that are wrong; an event that fills the chunk.
    Nothing was changed then. State is shared with the grammar: see `Accumulator`.

    The grammar reads such an event and tells the fast path what it learned (`learn_table`, `leave_out`,
    `gather`, `learn_source`): so the next one like it is usual.
    """

    #: whether events may be taken; the owner says so
    is_open: bool
    #: end of the last event in the file; set by the owner too. An event's log_pos is its low 32 bits.
    offset: int
    accumulator: Accumulator

    def __init__(self, accumulator: Accumulator) -> None: ...
    def describe(self, kinds: Iterable[int], checksum: bool, gaps: bool) -> None:
        """Say how the file is written.

        Args:
            kinds: types to take, of USUAL: their layouts are the ones of today.
            checksum: whether events end in a CRC32.
            gaps: whether places may jump forward, because events are left out.
        """

    def begin_file(self) -> None:
        """Forget all tables, and that the file was named."""

    def begin_chunk(self) -> None:
        """Forget where rows go, and which sources were named."""

    def learn_table(self, body: bytes) -> None:
        """Take a TABLE_MAP event's body that was read."""

    def leave_out(self, body: bytes) -> None:
        """Take that the table of a rows event's body is not selected."""

    def gather(self, body: bytes, version: bytes, rows: RowBuffers) -> None:
        """Take where rows of a table go.

        Args:
            body: of a rows event of it.
            version: its table map's bytes behind id and flags.
            rows: what gathers them in this chunk.
        """

    def learn_source(self, kind: int, body: bytes, server: int) -> None:
        """Take that the chunk has a name for the source of the GTID by which the open transaction began.

        Args:
            kind: type of the event that began it.
            body: of that event.
            server: its server's number.
        """

    def take(self, event: bytes) -> int:
        """Take an event, with header and checksum; return its type, or 0 if it is not for the fast path."""

    def run(self, arrived: ReceiveBuffer) -> None:
        """Take events up to one that is not for the fast path; other threads run meanwhile."""

    def counts(self) -> dict[int, int]:
        """Return how many events of each type `run` took."""

def checksum_of(data: bytes) -> int:
    """Return the CRC32 of bytes; the same as zlib's."""
