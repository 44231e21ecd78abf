"""Histories: the schema histories of a source, one for each server that it was read from.

Journal: histories as text that grows with what is new. Each line is a JSON object.

    {"version": 2}                                      the text is whole: nothing before it counts
    {"of": server}                                      what follows is of this server's history
    {"begin": [file, offset], "schemas": {...}}         the history begins anew
    {"first": {...}}                                    a table, a view or a free name where it begins
    {"fact": {...}}                                     a statement, or what the source showed of a table
    {"read_to": {...}}                                  up to where the binlog was read

A text that is not whole continues the one before it. A last line without its end was not written whole: it
was never answered, and is left out.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from canal_group.binlog.history.facts import Change, Fact, Learned, LogPosition, fact_from_json
from canal_group.binlog.history.history import SchemaHistory
from canal_group.binlog.schema.catalog import Catalog
from canal_group.binlog.schema.catalog_entry import CatalogEntry, entry_from_json
from canal_group.merge.errors import DataError, UsageError
from canal_group.merge.values.history_text import HistoryText
from canal_group.merge.values.position import Position

#: the version of the text; a later one has to be another number
_VERSION = 2
#: the first line of a text that is whole
WHOLE = '{"version":2}\n'


def whole_text(histories: Iterable[SchemaHistory]) -> str:
    """Return histories as a whole text; equal histories have equal text."""
    return WHOLE + "".join(map(_line, (each for history in histories for each in _whole(history))))


def added_text(histories: Iterable[SchemaHistory], *, read_to: bool) -> str:
    """Return the text of what was added to histories since they were stored.

    Args:
        histories: none of them is rewritten.
        read_to: whether it includes up to where they were read.
    """
    return "".join(map(_line, (each for history in histories for each in _added(history, read_to=read_to))))


def read_text(text: str, make: Callable[[], Catalog]) -> list[SchemaHistory]:
    """Return the histories of a text that is whole, and of the texts that continue it.

    Raises:
        ValueError, KeyError, TypeError, AttributeError, UsageError: it is not valid.
    """
    readings: dict[str, _Reading] = {}
    reading: _Reading | None = None
    *lines, _ = text.split("\n")
    if text and not lines:
        raise ValueError("its beginning is missing")
    for number, line in enumerate(lines):
        data = json.loads(line)
        if "version" in data:
            if data["version"] != _VERSION:
                raise ValueError(f"its version is {data['version']!r:.20}, which is unknown")
            readings = {}
        elif number == 0:
            raise ValueError("its beginning is missing")
        elif "of" in data:
            reading = readings.setdefault(str(data["of"]), _Reading(str(data["of"]), make))
        elif reading is None:
            raise ValueError("a line belongs to no server")
        else:
            reading.take(data)
    return [each.history() for each in readings.values()]


class _Reading:
    def __init__(self, server: str, make: Callable[[], Catalog]) -> None:
        self._server, self._make = server, make
        self._begin = LogPosition(server, "", 0)
        self._first, self._facts = make(), list[Fact]()
        self._read_to: Position | None = None

    def take(self, data: dict[str, Any]) -> None:
        if "first" in data:
            self._first.set(entry_from_json(data["first"]))
        elif "fact" in data:
            self._facts.append(fact_from_json(self._server, data["fact"]))
        elif "read_to" in data:
            self._read_to = Position.from_dict(data["read_to"])
        else:
            file, offset = data["begin"]
            self._begin = LogPosition(self._server, str(file), int(offset))
            self._first, self._facts, self._read_to = self._make(), [], None
            self._first.load_schemas(data["schemas"])

    def history(self) -> SchemaHistory:
        history = SchemaHistory(self._make)
        history.read_to = self._read_to
        history.set(self._begin, self._first, self._facts)
        history.rewritten = False
        return history


def _whole(history: SchemaHistory) -> Iterator[dict[str, Any]]:
    begin = history.beginning
    yield {"of": begin.server}
    yield {"begin": [begin.file, begin.offset], "schemas": history.first.schemas_to_json()}
    yield from map(_addition, history.first.held())
    yield from map(_addition, history.facts)
    if history.read_to is not None:
        yield {"read_to": history.read_to.to_dict()}


def _added(history: SchemaHistory, *, read_to: bool) -> Iterator[dict[str, Any]]:
    adds_read_to = read_to and history.read_to is not None
    if history.added or adds_read_to:
        yield {"of": history.beginning.server}
    yield from map(_addition, history.added)
    if adds_read_to and history.read_to is not None:
        yield {"read_to": history.read_to.to_dict()}


def _addition(each: CatalogEntry | Fact) -> dict[str, Any]:
    return {"fact" if isinstance(each, Change | Learned) else "first": each.to_json()}


def _line(data: dict[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"), sort_keys=True) + "\n"


#: servers whose histories are kept: positions of clients may be of the one before the last failover
SERVERS_MAX = 4
#: characters of the histories as text; some 100,000 tables of usual size
TEXT_MAX = 128 << 20
#: characters that are added to a text before it is written as a whole again, at least
ADDED_MIN = 1 << 20


class Histories:
    """The histories of one source, the latest last.

    Args:
        text_max: limit of the characters of their text.
        added_min: characters that are added to a text before it is written as a whole again, at least.
    """

    def __init__(self, *, text_max: int = TEXT_MAX, added_min: int = ADDED_MIN) -> None:
        self._text_max, self._added_min = text_max, added_min
        self._histories: list[SchemaHistory] = []
        #: whether the text has to be written as a whole, its characters when it was, and those added since
        self._rewritten = True
        self._whole_chars = self._added_chars = 0

    def __iter__(self) -> Iterator[SchemaHistory]:
        return iter(self._histories)

    def __len__(self) -> int:
        return len(self._histories)

    def of(self, server: str) -> SchemaHistory | None:
        """Return the history of a server; None: the server has no history."""
        return next((each for each in self._histories if each.beginning.server == server), None)

    def keep(self, history: SchemaHistory) -> None:
        """Keep a history that has begun, instead of an earlier one of its server."""
        self.drop(history.beginning.server)
        self._histories = [*self._histories, history][-SERVERS_MAX:]

    def drop(self, server: str) -> None:
        """Forget a server's history."""
        self._histories = [each for each in self._histories if each.beginning.server != server]
        self._rewritten = True

    def clear(self) -> None:
        """Forget everything."""
        self._histories = []
        self._rewritten = True

    def rewrite(self) -> None:
        """Let the next text be whole: it does not continue the stored one."""
        self._rewritten = True

    def covering(self, position: LogPosition) -> SchemaHistory | None:
        """Return the history of a position's server if the history covers the position, else None."""
        history = self.of(position.server)
        return history if history is not None and history.covers(position) else None

    def take_text(self, *, read_to: bool = True) -> HistoryText:
        """Return the text that has to be stored; after that it counts as stored.

        Args:
            read_to: whether the end of the part of the binlog that was read has changed.

        Raises:
            DataError: it is too long.
        """
        with contextlib.ExitStack() as locks:
            for each in self._histories:
                locks.enter_context(each.lock)
            return self._taken(read_to=read_to)

    def _taken(self, *, read_to: bool) -> HistoryText:
        whole = self._rewritten or any(each.rewritten for each in self._histories)
        if not whole:
            text = added_text(self._histories, read_to=read_to)
            self._added_chars += len(text)
            whole = self._added_chars > max(self._added_min, self._whole_chars)
        if whole:
            text = whole_text(self._histories)
            self._whole_chars, self._added_chars, self._rewritten = len(text), 0, False
        if self._whole_chars > self._text_max:
            raise DataError(
                f"The schema history has {self._whole_chars:,} characters, of at most {self._text_max:,}.",
                hint="Spread the tables over more servers. On MySQL, binlog_row_metadata = FULL"
                " makes a history unnecessary.",
            )
        for each in self._histories:
            each.added, each.rewritten = [], False
        return HistoryText(text, whole)

    def load(self, text: str, make: Callable[[], Catalog]) -> None:
        """Replace everything by the histories of a text that was stored.

        Raises:
            DataError: it is not valid.
        """
        try:
            self._histories = read_text(text, make)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, UsageError) as error:
            raise DataError(
                f"The stored schema history cannot be read ({type(error).__name__}: {error}).",
                hint="`canal-group schema rebuild` begins a new one.",
            ) from error
        self._whole_chars, self._added_chars, self._rewritten = len(text), 0, False
