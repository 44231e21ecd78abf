"""A store of cursors, schema histories and decisions in one SQLite database of this machine.

cursor: {kind: sqlite, path: data/shop.db}
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator

from canal_group.actors.ports import Key, Kind, damaged
from canal_group.conf.value import AnchoredPath, Settings
from canal_group.merge.errors import CoordinatorUnavailable
from canal_group.merge.values.epoch import refuse_older

_TABLES = (
    "CREATE TABLE IF NOT EXISTS epochs (destination TEXT PRIMARY KEY, epoch INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS stored (of, kind, name, text, PRIMARY KEY (of, kind, name))",
)
_OF_KEY = "of = ? AND kind = ? AND name = ?"


class SqliteSettings(Settings):
    """Where the database is."""

    path: AnchoredPath


class SqliteStore:
    """Implements `canal_group.actors.ports.EpochStore`: a call is a transaction, which checks the epoch."""

    def __init__(self, settings: SqliteSettings, destination: str) -> None:
        self._path, self._destination = settings.path, destination
        self._lock = threading.Lock()
        self._database = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA synchronous = FULL")
        for statement in _TABLES:
            self._database.execute(statement)

    def claim(self, epoch: int) -> None:
        """Refuse every older epoch from now on."""
        with self._under(epoch, "what is stored"):
            pass

    def names(self, kind: Kind, epoch: int) -> list[str]:
        """Return the names of a kind's keys, in order."""
        query = "SELECT name FROM stored WHERE of = ? AND kind = ? ORDER BY name"
        with self._under(epoch, kind.name) as database:
            return [name for (name,) in database.execute(query, [self._destination, kind.name])]

    def get(self, key: Key, epoch: int) -> str | None:
        """Return a value; None if there is none."""
        with self._under(epoch, key) as database:
            return self._text(database, key)

    def put(self, key: Key, text: str, epoch: int, *, may_wait: bool = False) -> None:  # noqa: ARG002
        """Write a value."""
        with self._under(epoch, key) as database:
            self._write(database, key, text)

    def append(self, key: Key, text: str, epoch: int) -> None:
        """Continue a value."""
        with self._under(epoch, key) as database:
            if self._text(database, key) is None:
                raise damaged(self.where(key), key.kind, "it is missing, and was to be continued")
            database.execute(f"UPDATE stored SET text = text || ? WHERE {_OF_KEY}", [text, *self._of(key)])  # noqa: S608

    def delete(self, key: Key, epoch: int) -> None:
        """Remove a value, if there is one."""
        with self._under(epoch, key) as database:
            database.execute(f"DELETE FROM stored WHERE {_OF_KEY}", self._of(key))  # noqa: S608

    def where(self, key: Key) -> str:
        """Return the file and the key."""
        return f"{self._path}: {self._destination} {key}"

    def flush(self, epoch: int) -> None:
        """Do nothing: every call writes."""

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._database.close()

    def _of(self, key: Key) -> list[str]:
        return [self._destination, key.kind.name, key.name]

    def _text(self, database: sqlite3.Connection, key: Key) -> str | None:
        row = database.execute(f"SELECT text FROM stored WHERE {_OF_KEY}", self._of(key)).fetchone()  # noqa: S608
        return None if row is None else str(row[0])

    def _write(self, database: sqlite3.Connection, key: Key, text: str) -> None:
        database.execute("REPLACE INTO stored VALUES (?, ?, ?, ?)", [*self._of(key), text])

    @contextlib.contextmanager
    def _under(self, epoch: int, what: object) -> Iterator[sqlite3.Connection]:
        """Begin a transaction under an epoch, and commit it unless something is raised in it."""
        try:
            with self._lock:
                self._database.execute("BEGIN IMMEDIATE")
                try:
                    query = "SELECT epoch FROM epochs WHERE destination = ?"
                    row = self._database.execute(query, [self._destination]).fetchone()
                    refuse_older(epoch, 0 if row is None else row[0], str(what))
                    self._database.execute("REPLACE INTO epochs VALUES (?, ?)", [self._destination, epoch])
                    yield self._database
                except BaseException:
                    self._database.execute("ROLLBACK")
                    raise
                self._database.execute("COMMIT")
        except sqlite3.Error as error:
            raise CoordinatorUnavailable(f"{self._path} cannot be used ({error}).") from error


SETTINGS, STORE = SqliteSettings, SqliteStore
