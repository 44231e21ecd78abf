"""The interface of `result_rows.pyx`."""

from canal_group.binlog.native.images import RowBuffers
from canal_group.binlog.native.packets import PacketBuffer

def read_rows(buffer: PacketBuffer, rows: RowBuffers, bytes_max: int) -> tuple[int, bytes]:
    """Read rows of a result set that have arrived whole; other threads run meanwhile.

    It ends before a packet that has not arrived whole, comes in several parts, or is not a row.

    Args:
        buffer: numbers its packets, and expects the next one of the result set.
        rows: what images after a change go to, as reads of header 0. Nothing else was put there. A BIT, an
            ENUM and a SET arrive as BIGINT UNSIGNED.
        bytes_max: it ends after the row that makes these rows hold as many bytes.

    Returns:
        Bytes that these rows hold, and the last row as `read_row` takes it; 0 and nothing if there is none.

    Raises:
        MemoryError: nothing of the row was added.
        Exception: what `rows.refusal` returned for the fault, at a byte of the row; nothing of it was added.
    """

def read_row(row: bytes, rows: RowBuffers) -> int:
    """Read one row, and return the bytes that it holds; see `read_rows`.

    Args:
        row: the payload of its packets, which begins with 0.
        rows: as for `read_rows`.
    """
