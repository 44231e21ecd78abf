"""An output that puts messages into a SQLite database, with the position in the same transaction.

output: {kind: sqlite, path: changes.db}
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from typing import ClassVar, Literal

from canal_group.conf.value import AnchoredPath, Settings
from canal_group.merge.errors import FencedError, SinkUnavailable
from canal_group.merge.values.position import GroupPosition
from canal_group.programs.output.messages import Messages

_TABLES = (
    "CREATE TABLE IF NOT EXISTS messages (topic TEXT, part INTEGER, value, headers TEXT)",
    "CREATE TABLE IF NOT EXISTS publishers (name TEXT PRIMARY KEY, epoch INTEGER, position TEXT)",
)
_BEGIN = "INSERT INTO publishers VALUES (?, 1, NULL) ON CONFLICT (name) DO UPDATE SET epoch = epoch + 1"


class SqliteSettings(Settings):
    """Where the database is."""

    kind: Literal["sqlite"] = "sqlite"
    path: AnchoredPath


class SqliteSink:
    """Keeps a batch in memory until it is confirmed, and writes it with its position."""

    keeps_position: ClassVar[bool] = True

    def __init__(self, settings: SqliteSettings, name: str) -> None:
        self._path, self._name = settings.path, name
        self._database: sqlite3.Connection | None = None
        self._epoch = 0
        self._batch: list[tuple[object, ...]] = []

    def open(self) -> GroupPosition | None:
        """Take the next epoch of this publisher: whoever has an older one is fenced."""
        with self._available():
            database = sqlite3.connect(self._path, isolation_level=None)
            self._database = database
            for statement in _TABLES:
                database.execute(statement)
            database.execute(_BEGIN, [self._name])
            self._epoch, position = self._kept(database)
        return None if position is None else GroupPosition.from_json(position)

    def write(self, messages: Messages) -> None:
        """Keep messages."""
        headers = [dict(zip(messages.headers, row, strict=True)) for row in _rows(messages)]
        self._batch += [
            (
                messages.topics[topic],
                part,
                value,
                json.dumps({k: v for k, v in held.items() if v is not None}),
            )
            for topic, part, value, held in zip(
                messages.topic.tolist(),
                messages.partition.tolist(),
                messages.value.to_pylist(),
                headers,
                strict=True,
            )
        ]

    def flush(self) -> None:
        """Do nothing: `confirm` writes."""

    def confirm(self, position: GroupPosition) -> None:
        """Write the batch and the position in one transaction."""
        database = self._database
        assert database is not None, "it is open"
        with self._available():
            database.execute("BEGIN IMMEDIATE")
            try:
                self._check_epoch(database)
                database.executemany("INSERT INTO messages VALUES (?, ?, ?, ?)", self._batch)
                database.execute(
                    "UPDATE publishers SET position = ? WHERE name = ?", [position.to_json(), self._name]
                )
                database.execute("COMMIT")
            except BaseException:
                database.execute("ROLLBACK")
                raise
        self._batch = []

    def close(self) -> None:
        """Close the database, and drop what was not confirmed."""
        self._batch = []
        if self._database is not None:
            self._database.close()
            self._database = None

    def _check_epoch(self, database: sqlite3.Connection) -> None:
        if self._kept(database)[0] != self._epoch:
            raise FencedError(f"Another relay of {self._name} writes to {self._path}.")

    def _kept(self, database: sqlite3.Connection) -> tuple[int, str | None]:
        row: tuple[int, str | None] = database.execute(
            "SELECT epoch, position FROM publishers WHERE name = ?", [self._name]
        ).fetchone()
        return row

    @contextlib.contextmanager
    def _available(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise SinkUnavailable(f"{self._path} cannot be written ({error}).") from error


def _rows(messages: Messages) -> Iterator[tuple[str | None, ...]]:
    return zip(*(texts.to_pylist() for texts in messages.headers.values()), strict=True)


SETTINGS, SINK = SqliteSettings, SqliteSink
