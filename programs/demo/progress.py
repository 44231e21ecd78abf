"""Progress: what the demo is doing, on stderr, while it does it.

On a terminal a table that is redrawn; else a line every few seconds. It asks for the instance's state on a
thread of its own, so that it never holds up the consumer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from canal_group.merge.errors import CanalGroupError
from canal_group.programs.demo.reading import Reading
from canal_group.programs.demo.written import Record

_REDRAW_S: Final = 0.5
_LINE_EVERY_S: Final = 3.0


class Progress:
    """Shows a demo's phases, and while a consumer reads, its numbers. A context manager."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._began_s = time.monotonic()
        self._watch: _Watch | None = None

    def phase(self, what: str) -> None:
        """Say what begins."""
        self._console.print(f"[dim]{time.monotonic() - self._began_s:5.1f} s[/dim]  {what}")

    def watch(self, reading: Reading, records: Sequence[Record]) -> None:
        """Begin to show how a consumer reads what writers write, or wrote."""
        self._watch = _Watch(self._console, reading, records)
        self._watch.start()

    def unwatch(self) -> None:
        """Stop showing it; its last state stays on the screen."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unwatch()


class _Watch(threading.Thread):
    """Redraws the numbers of a reading until it is stopped."""

    def __init__(self, console: Console, reading: Reading, records: Sequence[Record]) -> None:
        super().__init__(name="progress", daemon=True)
        self._console, self._reading, self._records = console, reading, records
        self._over = threading.Event()
        #: the last time and count that the rate was taken from
        self._counted = time.monotonic(), 0
        self._rate = 0.0

    def stop(self) -> None:
        """Draw once more and end."""
        self._over.set()
        self.join()

    def run(self) -> None:
        if self._console.is_terminal:
            with Live(console=self._console, auto_refresh=False) as live:
                while not self._over.wait(_REDRAW_S):
                    live.update(self._drawn(self._status()), refresh=True)
                live.update(self._drawn(self._status()), refresh=True)
        else:
            while not self._over.wait(_LINE_EVERY_S):
                self._console.print(self._line(self._status()), soft_wrap=True)

    def _status(self) -> dict[str, Any]:
        """Return the instance's state, and take the rate on the way."""
        before_s, before = self._counted
        now_s, rows = time.monotonic(), self._reading.rows
        self._counted = now_s, rows
        self._rate = (rows - before) / max(now_s - before_s, 1e-3)
        try:
            return self._reading.consumer.status()
        except CanalGroupError as error:
            return {"error": str(error)}

    def _drawn(self, status: dict[str, Any]) -> Group:
        table = Table(
            "shard", "written", "read", "frontier (UTC)", "lag", "state", box=None, header_style="bold"
        )
        for shard, record in zip(_shards(status), self._records, strict=False):
            table.add_row(
                shard["shard"],
                f"{record.rows:,}",
                f"{shard.get('rows', 0):,}",
                shard["frontier"],
                shard["lag"],
                shard.get("error") or shard["state"],
            )
        return Group(Text(self._summary(status)), table)

    def _line(self, status: dict[str, Any]) -> str:
        lags = "  ".join(
            f"{shard['shard']} lag {shard['lag']} frontier {shard['frontier']}" for shard in _shards(status)
        )
        return f"{self._summary(status)}  {lags}"

    def _summary(self, status: dict[str, Any]) -> str:
        reading = self._reading
        written = sum(record.rows for record in self._records)
        held = status.get("group", {}).get("held_by")
        return (
            f"{self._rate:,.0f} rows/s  {reading.rows:,} delivered of {written:,} written"
            f"  {reading.batches} batches  {reading.rollbacks} rollbacks"
            f"  held by {held or 'nobody'}{'  ' + status['error'] if 'error' in status else ''}"
        )


def _shards(status: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the shards' states, each with its frontier and lag in words."""
    merged = {shard["shard"]: shard for shard in status.get("group", {}).get("shards", [])}
    shards = []
    for shard in status.get("shards", []):
        frontier_us = merged.get(shard["shard"], {}).get("frontier_us")
        words = {"frontier": "-", "lag": "-"}
        if frontier_us:
            lag_us = status["now_us"] + shard.get("skew_us", 0) - frontier_us
            clock = datetime.fromtimestamp(frontier_us / 1e6, UTC).strftime("%H:%M:%S.%f")[:-3]
            words = {"frontier": clock, "lag": f"{lag_us / 1e6:.1f} s"}
        shards.append(shard | words)
    return shards
