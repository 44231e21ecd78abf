"""A bar on a terminal: how far the snapshot of a consumer is, below the rows that are printed."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, Self

from rich.cells import set_cell_size
from rich.console import Console

from canal_group.merge.errors import CanalGroupError, RetryableError
from canal_group.merge.printable import escaped

_EVERY_S: Final = 1.0
_CELLS: Final = 20
#: how long a look at the state may delay the end, seconds
_END_WAIT_S: Final = 1.0
_CLEARED: Final = "\r\x1b[2K"


class SnapshotBar:
    """Draws on stderr while a snapshot lasts, if that is a terminal. A context manager.

    Args:
        client_id: whose snapshot it is.
        status: returns the state of its instance, from any thread.
        has_snapshot: whether it may have one.
    """

    def __init__(self, client_id: str, status: Callable[[], dict[str, Any]], *, has_snapshot: bool) -> None:
        self._client_id, self._status = client_id, status
        self._console = Console(stderr=True)
        self._draws = has_snapshot and self._console.is_terminal
        self._lock, self._over = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="snapshot-bar", daemon=True)
        #: what is drawn; empty: nothing
        self._line = ""

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """Take the bar away while something is printed."""
        if not self._draws:
            yield
            return
        with self._lock:
            self._write(_CLEARED if self._line else "")
            yield
            sys.stdout.flush()
            self._write(self._line)

    def __enter__(self) -> Self:
        if self._draws:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._draws:
            self._thread.join(_END_WAIT_S)
            with self._lock:
                self._write(_CLEARED if self._line else "")

    def _run(self) -> None:
        while not self._over.wait(_EVERY_S):
            try:
                clients = self._status()["group"].get("clients", ())
            except RetryableError:
                continue
            except CanalGroupError:
                # Whoever gets rows is told of it.
                return
            own = (each["snapshot"] for each in clients if each["client_id"] == self._client_id)
            snapshot = next(own, None)
            with self._lock:
                if self._over.is_set():
                    return
                before = self._line
                self._line = "" if snapshot is None else bar_line(snapshot, self._console.width - 1)
                self._write((_CLEARED if before else "") + self._line)

    def _write(self, text: str) -> None:
        if text:
            sys.stderr.write(text)
            sys.stderr.flush()


def bar_line(snapshot: dict[str, Any], width: int) -> str:
    """Return a bar, and the state of a snapshot in words, as far as they fit.

    Args:
        snapshot: as `status` tells it of a client.
        width: cells of the line.
    """
    estimate = snapshot["rows_estimated"]
    bar = ""
    if estimate:
        part = min(snapshot["rows"] / estimate, 1.0)
        bar = f"[{'#' * int(part * _CELLS):<{_CELLS}}] {part:4.0%}  "
    return set_cell_size(bar + escaped(snapshot["words"]), width).rstrip()
