"""A shard's process: the real shard actor over a simulated source, its pages on the real disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from support.defaults import address_of, ring_of, shard_wiring

from canal_group.actors.shard.intake import Intake
from canal_group.actors.shard.report import ShardReport
from canal_group.actors.shard.shard import Shard as RealShard
from canal_group.binlog.archive.options import ArchiveOptions
from canal_group.conf.stream_settings import FilterSettings, SnapshotSettings
from canal_group.merge.errors import ServerUnavailable
from canal_group.merge.values.chunk import Chunk
from canal_group.merge.values.header import Flag
from canal_group.merge.values.position import Position
from simulation.consumption import ViolationError
from simulation.loop import Future, Loop
from simulation.shard import ShardProcess
from simulation.snapshots.reader import StreamReader
from simulation.snapshots.source import Source

DESTINATION = "shop"
#: how long a group may be silent before a shard disconnects from its source, seconds
SILENCE_MAX_S = 5.0


@dataclass(slots=True)
class Trouble:
    """What goes wrong when pages are read: probabilities, and what happens then."""

    failing: float = 0.0
    slow: float = 0.0
    #: that a connection is to the replica
    replica: float = 0.0
    #: that so many threads run that nothing is read
    busy: float = 0.0
    #: called with shard and table when a page was selected, before it has entered the stream
    in_flight: Callable[[Shard, str], None] = lambda *_: None


@dataclass(slots=True)
class Told:
    """How often things happened."""

    #: pages that were selected, rows of them that came, and marks
    pages: int = 0
    reads: int = 0
    marks: int = 0
    rows: int = 0
    batches: int = 0
    #: offset ranges that were read again, and that could not be had any more
    again: int = 0
    refused: int = 0


class Fetched(NamedTuple):
    """A header in a ring, with what belongs to it."""

    #: (table, op, before, after), without what the images do not say
    rows: list[tuple[str, int, dict[str, int] | None, dict[str, int] | None]]
    #: (op, table, sql)
    statements: list[tuple[str, str, str]]
    #: the cursor of the snapshot from it on; None: as before
    text: str | None = None
    #: of the server that it is from
    server: str = ""


class Shard(ShardProcess):
    """One shard's actor.

    Args:
        loop: its time.
        source: what it reads.
        folder: where its archive would be.
        sizes: headers that a ring holds, a power of two; and readers of pages.
        trouble: what goes wrong.
        told: counts.
    """

    def __init__(
        self, loop: Loop, source: Source, folder: Path, sizes: tuple[int, int], trouble: Trouble, told: Told
    ) -> None:
        super().__init__(loop, f"s{source.index}")
        self.source, self.trouble, self.told = source, trouble, told
        self._folder, self._reachable = folder, True
        options = ArchiveOptions(str(folder), 1.0, 1 << 30, None, 0.9, 0.8, None, None)
        address = address_of(self.name, "simulated", destination=DESTINATION, archive=options)
        self._wiring = shard_wiring(
            address,
            destination=DESTINATION,
            filter=FilterSettings(),
            store=ring_of("items", sizes[0]),
            silence_max_s=SILENCE_MAX_S,
            snapshot=SnapshotSettings(workers=sizes[1]),
        )

    def begin(self) -> None:
        """Forget everything: the state died with the previous incarnation."""
        self._seen: dict[int, tuple[Chunk, list[Fetched]]] = {}
        self.shard = RealShard(self._wiring, self.host, self._reader)

    def lose_pages(self) -> None:
        """Be on another machine from now on."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def cut_off(self) -> None:
        """Be out of reach from now on, and go on."""
        self.note("is cut off")
        self._reachable, unanswered = False, list(self._unanswered)
        for call in unanswered:
            self.answered(call, error=_gone(self.name))

    def answer(self, call: Future, method: str, arguments: tuple[Any, ...]) -> None:
        """Run a called method, unless it is out of reach."""
        if self._reachable:
            super().answer(call, method, arguments)
        else:
            call.fail(_gone(self.name))

    def _reader(self, intake: Intake) -> StreamReader:
        return StreamReader(self, self.source, intake)

    # ---- calls, each on a thread -----------------------------------------------------------------------

    def poll(self, *arguments: Any) -> ShardReport:
        """Return new headers or a new low watermark."""
        report = super().poll(*arguments)
        # What a shard reports that is out of reach arrives nowhere; its successor may have dropped the page.
        if report.run is not None and self._reachable:
            headers = report.run.headers
            for header in headers[headers["flags"] & Flag.PAGE != 0]:
                file, at = (
                    report.run.names[header["file"]],
                    (int(header["begin_offset"]), int(header["row_begin"])),
                )
                if not self._has_page(file, at):
                    raise ViolationError(
                        f"{self.name}: the page at {file}, {at} is delivered and not durable"
                    )
        return report

    def _has_page(self, file: str, at: tuple[int, int]) -> bool:
        """Return whether a file on its disk is of pages from one at or before `at` to one at or after it."""
        for path in self._folder.rglob(f"{file}-*.page"):
            *_, offset, row, last_offset, last_row = path.stem.split("-")
            if (int(offset), int(row)) <= at <= (int(last_offset), int(last_row)):
                return True
        return False

    def open(
        self, epoch: int, generation: int, position: Position | None, read_to: tuple[Position, ...]
    ) -> Position:
        """Open the stream after `position`."""
        self.note("is to read from {} for {}", position, (epoch, generation))
        if position is not None:
            self.note("its snapshot: {}", position.snapshot)
        return self.shard.open(epoch, generation, position, None, (), read_to)

    def fetch(self, epoch: int, generation: int, begin: int, end: int) -> list[Fetched]:
        """Return the rows and statements of the headers with sequences `begin <= sequence < end`."""
        intake = self.shard._lane(epoch, generation).current(epoch, generation).intake
        found: list[Fetched] = []
        for stored in intake.ring.fetch(begin, end):
            known = self._seen.get(id(stored.chunk))
            if known is None or known[0] is not stored.chunk:
                known = self._seen[id(stored.chunk)] = (stored.chunk, _fetched(stored.chunk))
            found += known[1][stored.header_begin : stored.header_end]
        texts = intake.ring._snapshots
        found = [
            each._replace(text=texts.get(begin + index), server=intake.server)
            for index, each in enumerate(found)
        ]
        # A header before them may have been passed by a cursor.
        before = max((each for each in texts if each <= begin), default=None)
        text = intake.ring._first_snapshot if before is None else texts[before]
        return [found[0]._replace(text=text), *found[1:]]


def _gone(name: str) -> ServerUnavailable:
    return ServerUnavailable(f"{name} is not there", retry_after_s=0.1)


def _fetched(chunk: Chunk) -> list[Fetched]:
    found = [Fetched([], []) for _ in chunk.headers]
    placed: list[tuple[int, int, Any]] = []
    for table in chunk.tables:
        names = [field.name for field in table.rows.schema.field("after").type]
        for row in table.rows.to_pylist():
            before, after = (_said(row, side, names) for side in ("before", "after"))
            placed.append((row["_header"], row["_row"], (table.name.table, row["_op"], before, after)))
    for header, _, change in sorted(placed, key=lambda each: each[:2]):
        found[header].rows.append(change)
    if chunk.statements is not None:
        for each in chunk.statements.to_pylist():
            found[each["_header"]].statements.append((each["op"], each["table"], each["sql"]))
    return found


def _said(row: dict[str, Any], side: str, names: list[str]) -> dict[str, int] | None:
    image = row[side]
    if image is None:
        return None
    lacks = row.get(f"_{side}_absent", b"\0")[0]
    return {name: image[name] for at, name in enumerate(names) if not lacks >> at & 1}
