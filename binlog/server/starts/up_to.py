"""Up to: the chunks of a search's stream, as far as its source had written when it was asked.

A source sends what it has written once that is on its disk. So that it has sent all it had says only how far
that was, and a search goes on until it has seen what was asked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from canal_group.binlog.server.binlog_stream import BinlogStream
from canal_group.binlog.server.dump.archived import is_before
from canal_group.binlog.server.low_watermarks import CaughtUp
from canal_group.binlog.server.source import SourceAddress
from canal_group.merge.errors import SourceUnavailable
from canal_group.merge.values.chunk import Chunk
from canal_group.merge.values.position import Position

#: longest wait for a source to send what it has written, seconds
_SYNC_S: Final = 10.0


def up_to(
    address: SourceAddress, stream: BinlogStream, end: Position | None, file: str | None = None
) -> Iterator[Chunk]:
    """Yield the chunks of a stream up to a position, or up to the end of a file; the last may go beyond.

    Args:
        address: the source.
        stream: what is read.
        end: a position that the source has written; None: not known, and all that it sends is yielded.
        file: the file.

    Raises:
        SourceUnavailable: the source does not send what it has written.
        DataError: see `BinlogStream`.
    """
    begun_s = time.monotonic()
    for item in stream:
        reached = stream.file_offset
        if isinstance(item, CaughtUp):
            if end is None:
                return
        else:
            begun_s = time.monotonic()
            yield item
            last = item.headers[-1]
            reached = item.names[last["file"]], int(last["end_offset"])
        if reached is not None and file is not None and reached[0] != file:
            return
        if reached is not None and end is not None and not is_before(reached, (end.file, end.offset)):
            return
        if time.monotonic() - begun_s > _SYNC_S:
            raise SourceUnavailable(
                f"{address.title} has written its binlog up to {end}, and does not send all of it: its disk "
                "does not answer, or its logs were reset.",
                shard=address.name,
            )
