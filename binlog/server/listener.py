"""Listener: who takes what a reader of any kind reads, and the reader as its shard sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from canal_group.binlog.columns.read_counts import ReadCounts
from canal_group.binlog.grammar.reading import Reading
from canal_group.binlog.server.binlog_stream import resume_after
from canal_group.merge.errors import RetryableError
from canal_group.merge.values.chunk import Chunk
from canal_group.merge.values.header import Flag
from canal_group.merge.values.position import Position
from canal_group.merge.values.progress import gtids_after
from canal_group.merge.values.resets.last_transaction import LastTransaction


class Listener(Protocol):
    """Receives what a reader reads; called from the thread that runs the reader, one call at a time."""

    def opened(self, position: Position) -> None:
        """Note where the stream begins; called once, before every other method."""

    def chunk_read(self, chunk: Chunk) -> None:
        """Take a chunk. May block while there is no room; the source waits meanwhile."""

    def reached(self, position: Position) -> None:
        """Note where a server's stream is, after a chunk or where nothing was handed over; not of files."""

    def caught_up(self, frontier_us: int) -> None:
        """Take a low watermark: no later transaction of the source will have a smaller commit time."""

    def connected(self, skew_us: int, server_version: str) -> None:
        """Note that a stream is open; `skew_us` is the source's clock minus ours."""

    def disconnected(self, error: RetryableError, retry_after_s: float) -> None:
        """Note that the stream ended, or could not be opened; the reader retries after `retry_after_s`."""


class Reader(Protocol):
    """Reads a source of any kind and passes what it reads to a listener."""

    @property
    def server(self) -> str:
        """Identity of the server whose binlog is read; empty if it is not known. It is set once."""

    @property
    def shares_dump(self) -> bool:
        """Whether a dump server sends what is read, and not the source itself."""

    @property
    def archive_state(self) -> Mapping[str, Any] | None:
        """State of the source's archive, as a JSON object; None: no archive, or its state is not known."""

    @property
    def position(self) -> Position | None:
        """Where to continue: after what the listener took. None if it is not known yet."""

    @property
    def created(self) -> Mapping[str, int]:
        """Creation times of the files that the chunks so far came from, seconds since 1970, by name."""

    @property
    def counts(self) -> ReadCounts:
        """What was read so far; may be called from any thread."""

    @property
    def reading(self) -> Reading | None:
        """Which event is being read, and since when; None: not known. May be asked in any thread."""

    def source_now_us(self) -> int | None:
        """Return the time of the clock that stamps commits, microseconds since 1970 UTC; None if unknown."""

    def run(self, start: Position | None) -> None:
        """Read from `start` until `stop` is called; see `SourceReader.run`."""

    def stop(self) -> None:
        """End the run soon; see `SourceReader.stop`."""


def position_after(before: Position, chunk: Chunk, server: str, created: Mapping[str, int]) -> Position:
    """Return the position after a chunk that began at `before`, with the GTIDs of everything up to there.

    Args:
        before: where the chunk begins.
        chunk: what was read.
        server: identity of the server; empty if it is not known.
        created: creation times of the files, by name.
    """
    ends = np.flatnonzero(chunk.headers["flags"] & Flag.END)
    gtids = gtids_after(before.gtid_set, chunk.headers, ends, chunk.names)
    after = resume_after(chunk)
    return replace(
        after,
        gtid_set=gtids,
        server=server,
        created_s=created.get(after.file, 0),
        last=LastTransaction.of(chunk.headers[ends[-1]], chunk.names, server) if len(ends) else before.last,
    )
