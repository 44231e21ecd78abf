"""Progress: the phases of a demo, a sample of its stream, and how far it is.

On a terminal the last line says how far it is, and is redrawn. Elsewhere such a line is printed every few
seconds. A demo whose result is one JSON line shows no rows, and the rest on stderr.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.live import Live
from rich.text import Text

from canal_group.merge.printable import escaped

#: columns of an envelope that a line is made of
SHOWN: Final = ("seq", "key_us", "shard", "schema", "table", "op", "key", "before", "after", "sql")
HEADING: Final = "time, UTC     shard   table        change"
#: characters of a value that are shown
_VALUE_MAX: Final = 16
#: the column in which writers keep the time of sending: it changes with each row and tells people nothing
_UNSHOWN: Final = "written_us"
_STYLES: Final = {"INSERT": "green", "READ": "green", "UPDATE": "yellow", "DELETE": "red"}


def change_line(row: dict[str, Any], width: int) -> Text:
    """Return the line of a row, cut to a terminal's width.

    Args:
        row: values of the columns `SHOWN`; a map is a list of pairs.
        width: in a terminal's cells.
    """
    clock = datetime.fromtimestamp(row["key_us"] / 1e6, UTC).strftime("%H:%M:%S.%f")[:-3]
    op = row["op"]
    line = Text.assemble(
        (clock, "dim"),
        f"  {escaped(row['shard']):<6}  {escaped(row['schema'])}.{escaped(row['table']):<6}  ",
        (op, _STYLES.get(op, "cyan")),
        f" {escaped(_change(row))}",
    )
    line.truncate(width, overflow="ellipsis")
    return line


def _change(row: dict[str, Any]) -> str:
    """Return a new row's values, an UPDATE's key and what it changed, a DELETE's key, a statement's text."""
    match row["op"]:
        case "INSERT" | "READ":
            return _cells(row["after"])
        case "UPDATE":
            before = dict(row["before"])
            changed = [
                f"{name}={_short(before.get(name))}->{_short(value)}"
                for name, value in row["after"]
                if name != _UNSHOWN and before.get(name) != value
            ]
            return " ".join([_cells(row["key"]), *changed])
        case "DELETE":
            return _cells(row["key"])
        case _:
            statement: str = row["sql"]
            # The statement's first word is already shown as its kind.
            return statement.partition(" ")[2] or statement


def _cells(image: list[tuple[str, str | None]]) -> str:
    return " ".join(f"{name}={_short(value)}" for name, value in image if name != _UNSHOWN)


def _short(value: str | None) -> str:
    if value is None:
        return "NULL"
    return value if len(value) <= _VALUE_MAX else f"{value[: _VALUE_MAX - 1]}…"


#: rows at the beginning, and rows in a second after them
FIRST_ROWS: Final = 20
ROWS_PER_S: Final = 4.0


class Sample:
    """Chooses rows of the batches that it is shown: spread over a batch, in its order.

    Args:
        clock: returns the time, seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        #: rows that may be shown now, at the time of the last look
        self._allowed, self._looked_s = float(FIRST_ROWS), clock()
        #: the last row that was chosen from a batch: what comes again after a rollback is not shown again
        self._last_seq = -1

    def of(self, envelope: pa.Table) -> list[dict[str, Any]]:
        """Return the rows of a batch to show, columns `SHOWN`.

        Args:
            envelope: the batch, see `canal_group.merge.rows.envelope.ENVELOPE`.
        """
        now_s = self._clock()
        # A pause saves up a second's rows at most, so that what follows does not rush past.
        saved = max(self._allowed, ROWS_PER_S)
        self._allowed = min(self._allowed + (now_s - self._looked_s) * ROWS_PER_S, saved)
        self._looked_s = now_s
        seq = envelope.column("seq").to_numpy()
        new = np.flatnonzero(seq > self._last_seq)
        count = min(int(self._allowed), len(new))
        if not count:
            return []
        self._allowed -= count
        chosen = new[np.linspace(0, len(new) - 1, count).astype(np.int64)]
        self._last_seq = int(seq[new[-1]])
        rows: list[dict[str, Any]] = envelope.select(SHOWN).take(pa.array(chosen)).to_pylist()
        return rows


_REDRAW_S: Final = 0.5
_LINE_EVERY_S: Final = 3.0


class Progress:
    """Shows what a demo does. A context manager.

    Args:
        as_json: whether stdout is for the result alone.
    """

    def __init__(self, *, as_json: bool) -> None:
        self._console = Console(stderr=as_json, highlight=False, emoji=False)
        self._shows_rows = not as_json
        self._began_s = time.monotonic()
        self._sample = Sample(time.monotonic)
        self._watch: _Watch | None = None

    def phase(self, what: str) -> None:
        """Say what begins."""
        self._print(Text.assemble((self._elapsed(), "dim"), f"  {what}"))

    def rows(self, envelope: pa.Table) -> None:
        """Show a sample of a batch."""
        if not self._shows_rows:
            return
        for row in self._sample.of(envelope):
            self._print(change_line(row, self._console.width))

    def watch(self, state: Callable[[], str]) -> None:
        """Begin to show how far it is, until `unwatch`; `state` returns it in words."""
        if self._shows_rows:
            self._print(Text(HEADING, style="dim"))
        self._watch = _Watch(self._console, lambda: f"{self._elapsed()}  {state()}")
        self._watch.start()

    def unwatch(self) -> None:
        """Say how far it is once more, and stop showing it."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unwatch()

    def _print(self, line: Text) -> None:
        self._console.print(line, soft_wrap=True)

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._began_s:5.1f} s"


class _Watch(threading.Thread):
    def __init__(self, console: Console, line: Callable[[], str]) -> None:
        super().__init__(name="progress", daemon=True)
        self._console, self._line = console, line
        self._over = threading.Event()

    def stop(self) -> None:
        """Show the line once more and end."""
        self._over.set()
        self.join()

    def run(self) -> None:
        if self._console.is_terminal:
            with Live(console=self._console, auto_refresh=False) as live:
                while not self._over.wait(_REDRAW_S):
                    live.update(self._drawn(), refresh=True)
                live.update(self._drawn(), refresh=True)
            return
        while not self._over.wait(_LINE_EVERY_S):
            self._console.print(self._line(), soft_wrap=True)
        self._console.print(self._line(), soft_wrap=True)

    def _drawn(self) -> Text:
        return Text(self._line(), style="bold", no_wrap=True, overflow="crop")
