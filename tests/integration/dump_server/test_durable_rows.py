"""The store `file`: rows leave a shard only when the archive has them on its disk."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Any

import pytest
from support.deadline import await_true
from support.defaults import chunk_limits, ring_of, source_reader
from support.soak import first_quick
from support.sources.archived_source import Archived, server_of
from support.sources.dumped_source import only

from canal_group.actors.shard.intake import Intake
from canal_group.actors.store.ring import RingStore
from canal_group.merge.values.position import Position


class Held:
    """A shard's intake into a ring that holds back, and what it hands out."""

    def __init__(self, archived: Archived, position: Position) -> None:
        self.archived, self.rows = archived, 0
        self.ring = RingStore(ring_of("items", 1_024), gated=True)
        self.intake = Intake("s0", self.ring, self._reader, position)

    def _reader(self, intake: Intake) -> Any:
        return source_reader(self.archived.reader(), only("a"), chunk_limits(), intake, ring=self.ring)

    def take(self, rows: int) -> None:
        """Take until there were so many rows; each must be durable in the archive when it comes."""
        while self.rows < rows:
            await_true(lambda: self.ring.has_news, f"rows: {self.intake.held_back}")
            run = self.ring.get_within(0.0)
            self.rows += int(run.headers["rows"].sum())
            last = run.headers[-1]
            file, end = run.names[last["file"]], int(last["end_offset"])
            assert self.archived_bytes(file) >= end
            self.ring.ack(int(last["sequence"]))

    def archived_bytes(self, file: str) -> int:
        """Return how many bytes of a file all histories have."""
        sizes = [0]
        for history in self.archived.archive.histories():
            if history.manifest.entry(file) is not None:
                with contextlib.closing(history.open(file)) as source:
                    sizes.append(source.size)
        return max(sizes)


@pytest.mark.parametrize("archived", first_quick(1, ["mariadb", "mysql"]), indirect=True)
def test_rows_wait_for_the_archive(archived: Archived) -> None:
    """1. Another process writes the archive: rows are read, held, and it is said why. 2. It ends: they come.

    3. They go on coming, soon, over ends of files. 4. The dump server is killed: they come with the next one.
    """
    archived.create("a")
    begin = Position(archived.files[0].name, 4)
    with archived.archive.lock(server_of(archived)):
        held = Held(archived, begin)
        try:
            archived.insert("a", range(10))
            await_true(lambda: held.intake.rows >= 10, "they are read")
            await_true(
                lambda: "writes to the archive already" in (held.intake.held_back or ""), "it is said why"
            )
            assert not held.ring.has_news
            assert len(held.ring.get_within(0.0)) == 0
            assert held.intake.low_watermark_us() is None
        except BaseException:
            held.intake.close()
            raise
    try:
        held.take(10)
        for step in range(1, 4):
            archived.server.execute("FLUSH BINARY LOGS")
            archived.insert("a", range(step * 10, step * 10 + 10), "x" * 1_000)
            held.take(step * 10 + 10)
        os.kill(archived.dump_server(), signal.SIGKILL)
        archived.insert("a", range(40, 50))
        held.take(50)
        await_true(lambda: held.intake.low_watermark_us() is not None, "a low watermark")
        assert held.intake.held_back is None
    finally:
        held.intake.close()
