"""Histories: the schema histories of a source, one for each server that it was read from."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from canal_group.binlog.history.facts import LogPosition
from canal_group.binlog.history.history import SchemaHistory
from canal_group.binlog.history.journal import added_text, read_text, whole_text
from canal_group.binlog.schema.catalog import Catalog
from canal_group.merge.errors import DataError, UsageError
from canal_group.merge.values.history_text import HistoryText

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
