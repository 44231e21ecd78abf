"""The interface of `accumulator.pyx`."""

import builtins

#: of a record of `canal_group.merge.values.header.HEADER`
HEADER_BYTES: int

class Accumulator:
    """Counts the content of a chunk, tracks the open transaction, and writes the headers.

    The grammar in Python and the fast path share this state. Files and GTID sources are indices into the
    chunk's names.

    Args:
        bytes_max: bytes of rows events with which the chunk is full.
        rows_max: rows with which the chunk is full.
        headers_max: headers with which the chunk is full.
    """

    bytes_max: int
    rows_max: int
    headers_max: int
    #: of rows events that are gathered
    bytes: int
    #: rows and statements that are gathered
    rows: int
    #: state of reading: 0 between transactions, 1 a GTID was read, 2 inside a transaction
    phase: int
    #: index of the file that is read; -1 if it is not among the chunk's names yet
    current_file: int
    #: number of transactions that began
    begun: int
    is_open: bool
    #: of the open transaction: its file and where it begins, its GTID's source and number, ordinals of its
    #: next row and of its first row since its last header, rows handed over before
    file: int
    begin_offset: int
    source: int
    number: int
    row: int
    row_begin: int
    skip: int

    def __init__(self, bytes_max: int, rows_max: int, headers_max: int) -> None: ...
    def __len__(self) -> int:
        """Return how many headers are gathered."""

    @property
    def full(self) -> bool:
        """Whether one of the limits is reached."""

    @property
    def has_rows(self) -> bool:
        """Whether the open transaction has rows since its last header."""

    @property
    def was_cut(self) -> bool:
        """Whether a part of the open transaction was handed over in an earlier chunk."""

    def begin(
        self, file: int, begin_offset: int, commit_us: int, source: int, number: int, skip: int
    ) -> None:
        """Open a transaction; see `ChunkBuilder.begin`."""

    def add(self, rows: int, added: int, size: int) -> None:
        """Count rows of the open transaction.

        Args:
            rows: ordinals that they take.
            added: number of them that the chunk gets.
            size: bytes that they count for; 0 is counted if none is added.
        """

    def mark_ddl(self) -> None:
        """Flag the open transaction's next header as a definition."""

    def end_header(self, end_offset: int, last: bool) -> None:
        """Write the header of the open transaction's new rows; `last` closes the transaction.

        Raises:
            MemoryError: nothing was changed.
        """

    def discard(self) -> None:
        """Close the open transaction without a header, and no longer count its rows."""

    def restart(self) -> None:
        """Begin the open transaction again, without its rows, none of which was handed over."""

    def take(self) -> builtins.bytes:
        """Return the gathered headers, records of HEADER, and restart the counts at zero."""

    def rename(self, file: int, source: int) -> None:
        """Set the indices of the open transaction's names in a new chunk."""
