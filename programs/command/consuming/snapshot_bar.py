"""A snapshot of a consumer on a terminal: a bar below the rows that are printed, and tables that failed."""

from __future__ import annotations

import contextlib
import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.cells import set_cell_size
from rich.console import Console

from canal_group.merge.errors import CanalGroupError, RetryableError
from canal_group.merge.printable import escaped
from canal_group.merge.values.marks.mark import BEGIN as MARK_BEGIN
from canal_group.merge.values.marks.snapshot_mark import SnapshotMark
from canal_group.merge.values.position import GroupPosition
from canal_group.programs.command.options.exit_code import ExitCode
from canal_group.programs.command.output import note

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


class UnreadTables:
    """Names on stderr the tables that the marks of a client id's snapshot report as failed.

    Args:
        destination: the destination of the client id.
        client_id: the client id whose marks count.
    """

    def __init__(self, destination: str, client_id: str) -> None:
        self._destination, self._client_id = destination, client_id
        #: shard and name in the source of each failed table that was named
        self._tables: set[tuple[str, str]] = set()
        #: tables that no shard has, by the marks so far; None before the first mark
        self._absent: set[str] | None = None

    def note_begun(self, snapshot: str | None, cursor: GroupPosition) -> None:
        """Print why an option has no effect: a client id that has begun without a snapshot gets none.

        Args:
            snapshot: the value of `--snapshot`.
            cursor: where the consumer begins.
        """
        if snapshot in ("initial", "only") and not cursor.snapshots:
            note(
                f"Client {self._client_id} has begun, and no snapshot of it is going on: --snapshot"
                f" {snapshot} reads nothing. To read a table anew, run: {self._command('SCHEMA.TABLE')}."
                " A new --client id begins with a snapshot."
            )

    def check(self) -> None:
        """Return if no table has failed; print the names of tables that no shard has.

        Raises:
            typer.Exit: at least one table has failed; the command ends with `ExitCode.FAILED`.
        """
        for name in sorted(self._absent or ()):
            note(f"No shard has {name}: the snapshot has no rows of it.")
        if self._tables or self._absent:
            raise typer.Exit(ExitCode.FAILED)

    def _command(self, table: str) -> str:
        words = ["canal-group", "snapshot", "again", "-d", self._destination, self._client_id, table]
        return shlex.join(words)

    def note_marks(self, rows: pa.Table) -> None:
        """Print a line for each failed table of the marks in an envelope table. Name a table once."""
        statements = rows["sql"].drop_null()
        for sql in statements.filter(pc.starts_with(statements, MARK_BEGIN)).to_pylist():
            mark = SnapshotMark.of_sql(sql)
            if mark is not None and mark.client_id == self._client_id:
                self._note(mark)

    def _note(self, mark: SnapshotMark) -> None:
        self._absent = {*mark.absent} if self._absent is None else self._absent.intersection(mark.absent)
        new = [name for name in mark.failed if (mark.shard, name) not in self._tables]
        self._tables.update((mark.shard, name) for name in new)
        for name in new:
            note(
                f"Shard {mark.shard}: the snapshot has not read {name}: {mark.failed[name]}"
                f" Then run: {self._command(name)}"
            )
        if new and mark.failed_count > len(mark.failed):
            note(
                f"Shard {mark.shard}: {mark.failed_count - len(mark.failed):,} more tables were not read;"
                " correct the cause, then run the same command for each of them."
            )
