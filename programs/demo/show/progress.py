"""Progress: the phases of a demo, a sample of its stream, and how far it is.

On a terminal the last line says how far it is, and is redrawn. Elsewhere such a line is printed every few
seconds. A demo whose result is one JSON line shows no rows, and the rest on stderr.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import pyarrow as pa
from rich.console import Console
from rich.live import Live
from rich.text import Text

from canal_group.programs.demo.show.change_line import HEADING, change_line
from canal_group.programs.demo.show.sample import Sample

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
    """Shows a line until it is stopped."""

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
