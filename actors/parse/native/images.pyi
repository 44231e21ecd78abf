"""What callers see of `images.pyx`."""

from collections.abc import Sequence
from typing import Self

from typing_extensions import Buffer

from actors.parse.native.shapes import ColumnPlan, SideBuffers

class Layout:
    """How the images of one table are stored. Immutable, shared by all that read its rows."""

    columns: int
    def __init__(self, columns: Sequence[ColumnPlan]) -> None:
        """Prepare the decoding of a table.

        Raises:
            ValueError: no column is stored so.
        """

class Block(Buffer):
    """Memory that a column's values stand in: bytes to read, freed with the last who holds them."""

    def __len__(self) -> int: ...

#: number -> name of what can be wrong with an event
FAULTS: dict[int, str]

class RowBuffers:
    """The rows of one table, as columns. Not thread-safe.

    Rows may be added until something is taken: what is taken is gone from here.
    """

    #: dates that had no place in their type in the rows gathered; they are null
    zero_dates: int
    layout: Layout

    def __new__(cls, layout: Layout, *args: object) -> Self: ...
    def __len__(self) -> int: ...
    def append(
        self, body: bytes, op: int, version: int, id_size: int, header: int, row_begin: int, skip: int
    ) -> int:
        """Read a rows event; other threads run meanwhile, unless it is small.

        Args:
            body: the event without header and checksum.
            op: what happened to its rows, see `merge.values.chunk.Op`.
            version: of the event's layout, 1 or 2; 3: of PARTIAL_UPDATE_ROWS.
            id_size: bytes of the table id that opens it.
            header: index of the transaction's header, 0 or more.
            row_begin: ordinal of its first row.
            skip: rows at its beginning that are read and not kept.

        Returns:
            How many rows the event holds, skipped ones too.

        Raises:
            MemoryError: nothing was added.
            Exception: what `refusal` returned for the fault; nothing was added.
        """

    def refusal(self, fault: str, offset: int) -> Exception:
        """Return what to raise: `fault` is one of FAULTS, found at `offset` in the event's body."""

    def expect_as_many(self, other: RowBuffers) -> None:
        """Make room at once for as many rows as another one of the same table gathered, and some more.

        Memory that grows with the rows is moved again and again, and leaves gaps behind that are too small
        for it the next time.

        Raises:
            ValueError: rows were read already.
        """

    def discard(self, header: int) -> None:
        """Take back the rows of a header that turned out not to have happened; it must be the last one."""

    def take_absent(self) -> tuple[Block, Block] | None:
        """Return which columns the images before and after do not have; None if every column is known.

        Rows by (columns + 7) // 8 bytes, a bit for each column, the lowest first; called once, before
        `take_heads`. A column that is known from a row's image before counts as known after it too.
        """

    def take_heads(self) -> tuple[Block, Block, Block]:
        """Return per row its header (int32), ordinal (int64) and op (uint8); called after `take_side`."""

    def take_side(self, after: bool) -> SideBuffers | None:
        """Return the images before or after the change; None if no row has one. Each side once."""

def is_ascii(data: Block) -> bool:
    """Return whether all bytes are below 128."""

def is_utf8(data: Block, offsets: Block) -> bool:
    """Return whether each of a column's values is UTF-8 (RFC 3629); rows + 1 int32 offsets."""

def converted(data: Block, offsets: Block, table: bytes) -> tuple[Block, Block] | None:
    """Return a column of single-byte text as UTF-8, and its offsets; None if a byte is undefined.

    Args:
        data: the values, one behind the other.
        offsets: where they begin and the last one ends, int32.
        table: per byte a little-endian u32: its UTF-8, lowest byte first, and in the highest its length.

    Raises:
        OverflowError: it has more than 2 GiB.
    """

def json_text(value: bytes) -> str:
    """Return a binary JSON value as text, as MySQL itself prints it.

    Raises:
        ValueError: it cannot be read.
    """
