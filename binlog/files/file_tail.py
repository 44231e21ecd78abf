"""File tail: the bytes at the end of a binlog file that are not a whole event.

The server that writes a file marks it as in use. After its last whole event comes an event that is being
written, or that a crash left incomplete; it did not happen, or not yet. A damaged length looks the same: the
event seems to reach beyond the end of the file, and everything after it would be dropped silently. The header
tells the two cases apart. It holds the event's length and, in `log_pos`, its end; a server writes both before
the rest of the event. If they contradict each other, the file is damaged.

`log_pos` is not checked in a relay log, whose events carry offsets of the source's binlog, nor where it is 0.
Layout: an event's header, see `canal_group.binlog.formats.events`.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import SEEK_END, RawIOBase

from canal_group.binlog.formats.event_types import type_name
from canal_group.binlog.formats.events import HEADER_SIZE, EventHeader, header_of
from canal_group.merge.errors import CorruptEvent

_WRAP = 1 << 32


@dataclass(frozen=True, slots=True)
class FileTail:
    """The incomplete end of a file that is in use."""

    file: str
    #: end of the last whole event
    offset: int
    #: bytes after that
    size: int
    #: header of the incomplete event; None if there are too few bytes for one
    header: EventHeader | None
    #: whether a transaction before the end has begun and not ended
    in_transaction: bool

    def __str__(self) -> str:
        """Return where the file ends, and why that is not damage, as sentences."""
        where = f"{self.file} is marked in use and ends at {self.offset + self.size}"
        if not self.size:
            what = f"{where} inside a transaction"
        elif self.header is None:
            what = f"{where} inside an event's header: {self.size} bytes at {self.offset}"
        else:
            what = (
                f"{where} inside an event: {self.size} of the {self.header.size} bytes of "
                f"{type_name(self.header.event_type)} at {self.offset}"
            )
        return f"{what}. Its server is still writing it, or crashed. What is incomplete is left out."


def file_tail(
    file: RawIOBase, name: str, offset: int, *, relay_log: bool, in_transaction: bool
) -> FileTail | None:
    """Return the tail of a file that is in use; None if it ends between two transactions.

    Args:
        file: the open file.
        name: its name.
        offset: end of its last whole event, bytes.
        relay_log: whether it is a relay log.
        in_transaction: whether a transaction has begun and not ended.

    Raises:
        CorruptEvent: the header of the incomplete event contradicts itself, so the file is damaged.
    """
    size = max(0, file.seek(0, SEEK_END) - offset)
    if not size and not in_transaction:
        return None
    file.seek(offset)
    data = file.read(HEADER_SIZE) or b""
    header = header_of(data) if len(data) == HEADER_SIZE else None
    if header is not None and header.log_pos and not relay_log:
        end = offset + header.size
        if (end - header.log_pos) % _WRAP:
            raise CorruptEvent(
                f"The event's length of {header.size} bytes makes it end at {end}, but its header says "
                f"that it ends at {header.log_pos} (modulo 2^32).",
                hint="The file is damaged here. Copy it from its server again; what follows was not read.",
            )
    return FileTail(name, offset, size, header, in_transaction)
