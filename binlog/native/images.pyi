"""The interface of `images.pyx`."""

from collections.abc import Sequence
from typing import Self

from typing_extensions import Buffer

from canal_group.binlog.native.shapes import ColumnPlan, SideBuffers

class Layout:
    """How the images of one table are stored. Immutable, shared by all readers of its rows."""

    columns: int
    def __init__(self, columns: Sequence[ColumnPlan]) -> None:
        """Prepare the decoding of a table.

        Raises:
            ValueError: a column's plan is invalid.
        """

class Block(Buffer):
    """Read-only memory with a column's values; it is freed with the last reference."""

    def __len__(self) -> int: ...

#: bytes that one row may hold, both images together, its ENUM values as text
ROW_BYTES_MAX: int

#: number -> name of what can be wrong with an event
FAULTS: dict[int, str]

class RowBuffers:
    """The rows of one table, as columns. Not thread-safe.

    Rows may be added until the first `take_` method is called; a part that is taken is no longer held here.
    """

    #: dates in the gathered rows that do not fit their type and became null
    zero_dates: int
    layout: Layout
    #: bytes that one row may hold; ROW_BYTES_MAX unless it is set
    row_bytes_max: int
    #: bytes that the rows of the last call hold, before their text becomes UTF-8; an ENUM counts as text
    held: int
    #: where the unread rows of the event begin that was read last, a byte of its body; 0: all were read
    rest_at: int
    #: of a row that is too large: index of the column whose value has no room, and the bytes of that value
    large_column: int
    large_bytes: int

    def __new__(cls, layout: Layout, *args: object) -> Self: ...
    def __len__(self) -> int: ...
    def append(
        self,
        body: bytes,
        op: int,
        version: int,
        id_size: int,
        header: int,
        row_begin: int,
        skip: int,
        held_max: int,
        rest_at: int,
    ) -> int:
        """Read a rows event, or the beginning of one; other threads run meanwhile, unless it is small.

        The rows that are left are verified, so that no part of a damaged event is added: the calls that read
        them cannot fail.

        Args:
            body: the event without header and checksum.
            op: what happened to its rows, see `canal_group.merge.values.chunk.Op`.
            version: of the event's layout, 1 or 2; 3: of PARTIAL_UPDATE_ROWS.
            id_size: bytes of the table id that opens it.
            header: index of the transaction's header, 0 or more.
            row_begin: ordinal of its first row.
            skip: rows at its beginning that are read and dropped.
            held_max: it ends after the row that makes the added rows hold as many bytes, see `held`.
            rest_at: `rest_at` of the call before, to read on; 0: from the first row on.

        Returns:
            How many rows were read, skipped ones too.

        Raises:
            MemoryError: nothing was added.
            Exception: what `refusal` returned for the fault; nothing was added.
        """

    def refusal(self, fault: str, offset: int) -> Exception:
        """Return the error to raise: `fault` is one of FAULTS, at `offset` in the event's body."""

    def expect_as_many(self, other: RowBuffers) -> None:
        """Make room at once for as many rows as `other`, of the same table, has gathered, and some more.

        Memory that grows with the rows would be moved again and again, and would leave gaps that are too
        small to be used again.

        Raises:
            ValueError: rows were read already.
        """

    def discard(self, header: int) -> None:
        """Remove the rows of the last header, because its transaction was rolled back."""

    def take_absent(self) -> tuple[Block, Block] | None:
        """Return which columns the images before and after lack; None if every column is known.

        Rows by (columns + 7) // 8 bytes, a bit for each column, the lowest first; called once, before
        `take_heads`. A column that is known from a row's image before counts as known after it too.
        """

    def take_heads(self) -> tuple[Block, Block, Block]:
        """Return each row's header (int32), ordinal (int64) and op (uint8); call it after `take_side`."""

    def take_side(self, after: bool) -> SideBuffers | None:
        """Return the images before or after the change; None if no row has one. Call it once per side."""

def is_ascii(data: Block) -> bool:
    """Return whether all bytes are below 128."""

def is_utf8(data: Block, offsets: Block) -> bool:
    """Return whether each of a column's values is UTF-8 (RFC 3629); rows + 1 int32 offsets."""

def converted(data: Block, offsets: Block, table: bytes) -> tuple[Block, Block] | None:
    """Return a column of single-byte text as UTF-8, and its offsets; None if a byte is undefined.

    Args:
        data: the values, one after the other.
        offsets: where each begins, and where the last one ends, int32.
        table: for each byte a little-endian u32: its UTF-8, lowest byte first, and in the highest its length.

    Raises:
        OverflowError: it has more than 2 GiB.
    """

def json_text(value: bytes) -> str:
    """Return a binary JSON value as text, as MySQL itself prints it.

    Raises:
        ValueError: it cannot be read.
    """
