"""What callers see of `accumulator.pyx`."""

import builtins

#: of a record of `merge.values.header.HEADER`
HEADER_BYTES: int

class Accumulator:
    """Counts what a chunk holds, follows the open transaction, and writes the headers.

    It is the one state of two ways of reading: the grammar in Python and the fast path. Files and GTID
    sources are indices of the chunk's names.

    Args:
        bytes_max: with so many bytes of rows events the chunk is full.
        rows_max: with so many rows.
        headers_max: with so many headers.
    """

    bytes_max: int
    rows_max: int
    headers_max: int
    #: of rows events that are gathered
    bytes: int
    #: rows and statements that are gathered
    rows: int
    #: where the reading stands: 0 between transactions, 1 a GTID was read, 2 inside a transaction
    phase: int
    #: index of the file that is read; -1: the chunk has not named it yet
    current_file: int
    #: how many transactions began so far
    begun: int
    is_open: bool
    #: of the open transaction: its file, its GTID's source, ordinal of its next row, rows handed over before
    file: int
    source: int
    row: int
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
        """Whether a part of the open transaction was handed over."""

    def begin(
        self, file: int, begin_offset: int, commit_us: int, source: int, number: int, skip: int
    ) -> None:
        """Open a transaction; see `ChunkBuilder.begin`."""

    def add(self, rows: int, kept: int, size: int) -> None:
        """Count rows of the open transaction.

        Args:
            rows: ordinals that they take.
            kept: how many of them the chunk holds.
            size: bytes they count for; nothing if none is kept.
        """

    def mark_ddl(self) -> None:
        """Flag the open transaction's next header as a definition."""

    def end_header(self, end_offset: int, last: bool) -> None:
        """Write the header of the open transaction's rows so far; `last` closes the transaction.

        Raises:
            MemoryError: nothing was changed.
        """

    def discard(self) -> None:
        """Close the open transaction without a header; its rows are not counted any more."""

    def take(self) -> builtins.bytes:
        """Return the headers gathered, records of HEADER, and count from zero."""

    def rename(self, file: int, source: int) -> None:
        """Say where the open transaction's names stand among those of a new chunk."""
