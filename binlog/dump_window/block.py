"""Block: packets of a binlog dump as a dump server retains them, and where an event begins in them.

A packet is three bytes of length, one byte of number (always 0 here), a zero byte, and an event. An event of
16 MiB or more takes several packets, all but the last of the full length.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_FULL = 0xFFFFFF
_HEAD = 4
#: size and end of an event, after its timestamp (4), type (1) and server id (4)
_EVENT = struct.Struct("<9xII")
_WRAP = 1 << 32
#: bytes of a block's Python objects, which count in addition to its packets
BLOCK_OVERHEAD_BYTES = 256


@dataclass(frozen=True, slots=True)
class Block:
    """Whole packets that follow each other in one binlog file."""

    file: str
    #: where the first event begins and the last one ends, bytes from the beginning of the file
    begin: int
    end: int
    packets: bytes
    #: packets of the format description that a reader needs which begins at the block or in it; empty: the
    #: next thing that it is sent is the description
    description: bytes = b""
    #: likewise for a reader that begins after the block
    next_description: bytes = b""

    @property
    def cost(self) -> int:
        """How many bytes it counts for."""
        return len(self.packets) + BLOCK_OVERHEAD_BYTES


def split_at(block: Block, offset: int) -> int | None:
    """Return where in a block's packets the first event begins that ends after `offset`.

    Returns:
        Bytes from the beginning of the packets; their number if no event ends after `offset`; None if
        `offset` is inside of an event.
    """
    if offset >= block.end:
        return len(block.packets)
    if offset <= block.begin:
        return 0
    packets, at, end = block.packets, 0, block.begin
    while at < len(packets):
        size, log_pos = _EVENT.unpack_from(packets, at + _HEAD + 1)
        # Offsets have 32 bits in an event, and grow; a server may leave events out.
        begin = end + (log_pos - end - size) % _WRAP if log_pos else end
        end = begin + size if log_pos else end
        if end > offset:
            return at if begin >= offset else None
        length = _FULL
        while length == _FULL:
            length = int.from_bytes(packets[at : at + 3], "little")
            at += _HEAD + length
    return at
