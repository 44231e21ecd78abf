"""What callers see of `lane.pyx`."""

from actors.parse.native.images import RowBuffers

class RowsLane:
    """Takes the events of an open transaction that only add rows to the table that the last event was about.

    A server logs such runs: a statement's rows in events of some KiB, and many statements in one transaction
    repeat the table map before theirs. Whatever is not plainly such an event is left to whoever reads events
    with all their cases: another table, another version of it, a place in the file that does not fit, a
    checksum or rows that are wrong, and an event with which a chunk would be full. Nothing was changed then.

    1. A rows event is read the long way; `prepare` says where its rows went.
    2. `enter` opens the lane.
    3. `take` is offered each event that follows.
    4. `leave` shuts it, before anything else looks at what was gathered.
    """

    @property
    def offset(self) -> int:
        """End of the last event in the file; set by the owner too. An event's log_pos is its low 32 bits."""
    @offset.setter
    def offset(self, value: int) -> None: ...
    #: whether `take` may take anything
    @property
    def is_open(self) -> bool: ...
    def prepare(
        self,
        body: bytes,
        version: bytes,
        rows: RowBuffers,
        header: int,
        row: int,
        rows_left: int,
        bytes_left: int,
    ) -> None:
        """Note where rows of a table go.

        Args:
            body: of a rows event of it, with a table id of 6 bytes.
            version: its table map's bytes behind id and flags.
            rows: what gathers its rows.
            header: index of the open transaction's header.
            row: ordinal of its next row.
            rows_left: with this many rows more the chunk is full.
            bytes_left: with this many bytes of rows events more the chunk is full.
        """

    def enter(self, checksum: bool) -> None:
        """Open the lane, if it is prepared.

        Args:
            checksum: whether events end in a CRC32.
        """

    def leave(self) -> tuple[int, int]:
        """Shut the lane; return how many rows it took since it was opened, and the bytes of their events."""

    def take(self, event: bytes) -> int:
        """Take an event, header and checksum included; return its type, or 0 if it is not for the lane."""

def checksum_of(data: bytes) -> int:
    """Return the CRC32 of bytes; the same as zlib's."""
