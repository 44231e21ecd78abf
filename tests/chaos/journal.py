"""Journals: the steps that consumer processes recorded, and how to read them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

#: files in a consumer's folder
JOURNAL, ROWS = "journal", "rows"


def now_us() -> int:
    """Return microseconds since 1970 on the clock that all processes of this machine share."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a consumer."""

    #: subscribed, delivered, acking, acked, refused, anew, fenced, error; of offset ranges: read, done, acked
    what: str
    batch_id: int = 0
    consumer_epoch: int = 0
    #: range of bytes of `ROWS` that holds a delivery
    rows: tuple[int, int] = (0, 0)
    #: subscribed, anew: where it is; delivered: what it becomes when this is acknowledged; acked: what the
    #: server answered; read, done: the end
    cursor: str = ""
    #: read: where the offset range begins
    start: str = ""
    error: str = ""
    at_us: int = field(default_factory=now_us)

    def line(self) -> bytes:
        """Return it as a line of a journal, without empty fields."""
        said = {name: value for name, value in asdict(self).items() if value}
        return json.dumps(said).encode() + b"\n"

    @classmethod
    def parsed(cls, line: str) -> Self:
        """Return the step that a line holds."""
        fields: dict[str, Any] = json.loads(line)
        return cls(**{**fields, "rows": tuple(fields.get("rows", (0, 0)))})


def steps_of(folder: Path) -> list[Step]:
    """Return the steps of a consumer, without one that it is writing; none if it has not begun to."""
    try:
        text = (folder / JOURNAL).read_text()
    except FileNotFoundError:
        return []
    return [Step.parsed(line) for line in text.split("\n")[:-1]]


def rows_of(folder: Path, step: Step) -> pa.Table:
    """Return the rows that a step of a consumer keeps, see `canal_group.merge.rows.envelope.ENVELOPE`."""
    begin, end = step.rows
    with (folder / ROWS).open("rb") as file:
        file.seek(begin)
        return pa.ipc.open_stream(file.read(end - begin)).read_all()


@dataclass(slots=True)
class Delivery:
    """A batch as one consumer got it, and its outcome."""

    #: the consumer's folder
    folder: Path
    step: Step
    #: when the step before was recorded
    since_us: int
    #: consumer, and number of its run: of what it read since it subscribed or began anew
    run: tuple[str, int]
    #: when the first acknowledgement was sent; 0: none was
    asked_us: int = 0
    #: when it was answered; 0: it was not answered, or was refused
    acked_us: int = 0
    refused: bool = False
    #: the cursor in that answer; it also holds shards that joined after the delivery
    answer: str = ""

    @property
    def cursor(self) -> str:
        """The cursor after its acknowledgement, as far as it is known."""
        return self.answer or self.step.cursor

    @property
    def batch_id(self) -> int:
        """The batch id; the server's epoch is above its lower 32 bits."""
        return self.step.batch_id

    @property
    def server_epoch(self) -> int:
        """The epoch of the server that delivered it."""
        return self.step.batch_id >> 32

    @property
    def in_doubt(self) -> bool:
        """Whether an acknowledgement was sent, and no answer came."""
        return bool(self.asked_us and not self.acked_us and not self.refused)

    def rows(self) -> pa.Table:
        """Return its rows, see `canal_group.merge.rows.envelope.ENVELOPE`."""
        return rows_of(self.folder, self.step)


def begun_at(folders: Sequence[Path]) -> str:
    """Return the cursor at which a client id was when its consumers asked first for an acknowledgement.

    It is that of the last subscription before: a cursor of which nothing was acknowledged need not be kept.

    Args:
        folders: of its consumers, in the order of their start.
    """
    cursor = ""
    for step in sorted((step for folder in folders for step in steps_of(folder)), key=attrgetter("at_us")):
        if step.what == "acking":
            break
        if step.what in {"subscribed", "anew"}:
            cursor = step.cursor
    return cursor


def deliveries_of(folder: Path) -> Iterator[Delivery]:
    """Yield the deliveries of one consumer in order."""
    found: list[Delivery] = []
    outstanding: dict[int, Delivery] = {}
    run = before_us = 0
    for step in steps_of(folder):
        match step.what:
            case "subscribed" | "anew":
                run += 1
                outstanding.clear()
            case "delivered":
                outstanding[step.batch_id] = Delivery(folder, step, before_us, (folder.name, run))
                found.append(outstanding[step.batch_id])
            case "acking":
                asked = outstanding[step.batch_id]
                asked.asked_us = asked.asked_us or step.at_us
            case "acked":
                outstanding[step.batch_id].acked_us = step.at_us
                outstanding[step.batch_id].answer = step.cursor
            case "refused":
                outstanding[step.batch_id].refused = True
        before_us = step.at_us
    yield from found
