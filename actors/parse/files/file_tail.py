"""File tail: the bytes at the end of a binlog file that are no whole event.

The server that writes a file marks it as in use. What comes after its last whole event is then an event that
is being written, or that a crash left incomplete; it did not happen, or not yet. A damaged length looks the
same: the event seems to reach beyond the end of the file, and all that follows would be dropped silently. The
header tells the two apart. It says how long the event is and, in `log_pos`, where it ends, and a server
writes both before anything else of the event. Where they contradict each other, the file is damaged.

`log_pos` says nothing of a relay log, whose events have the places of the source's binlog, and nothing where
it is 0. Layout: an event's header, see `actors.parse.formats.events`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from actors.parse.formats.event_types import type_name
from actors.parse.formats.events import HEADER_SIZE, EventHeader, header_of
from merge.errors import CorruptEvent

_WRAP = 1 << 32


@dataclass(frozen=True, slots=True)
class FileTail:
    """What a file that is in use ends in, if not between two transactions."""

    file: str
    #: end of the last whole event
    offset: int
    #: bytes after that
    size: int
    #: of the event that they begin; None: too few to say
    header: EventHeader | None
    #: whether a transaction has begun before and not ended
    in_transaction: bool

    def __str__(self) -> str:
        """Return a sentence: where the file ends, and why that is no damage."""
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


def file_tail(file: int, name: str, offset: int, *, relay_log: bool, in_transaction: bool) -> FileTail | None:
    """Return the tail of a file that is in use; None if it ends between two transactions.

    Args:
        file: descriptor of the open file.
        name: its name.
        offset: end of its last whole event, bytes.
        relay_log: whether it is a relay log.
        in_transaction: whether a transaction has begun and not ended.

    Raises:
        CorruptEvent: the tail is no event that is being written: its header contradicts itself.
    """
    size = max(0, os.fstat(file).st_size - offset)
    if not size and not in_transaction:
        return None
    data = os.pread(file, HEADER_SIZE, offset)
    header = header_of(data) if len(data) == HEADER_SIZE else None
    if header is not None and header.log_pos and not relay_log:
        end = offset + header.size
        if (end - header.log_pos) % _WRAP:
            raise CorruptEvent(
                f"The event says that it has {header.size} bytes, to {end}, and that it ends at "
                f"{header.log_pos} (modulo 2^32).",
                hint="The file is damaged here. Copy it from its server again; what follows was not read.",
            )
    return FileTail(name, offset, size, header, in_transaction)
