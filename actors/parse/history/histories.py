"""Histories: what is kept of a source's schema, one history for each server that it was read from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from actors.parse.history.facts import Place
from actors.parse.history.history import SchemaHistory
from actors.parse.schema.catalog import Catalog
from merge.errors import DataError, UsageError

#: servers whose histories are kept: positions of clients may be of the one before the last failover
SERVERS_MAX = 4
#: characters of the histories as text; some 100,000 tables of usual size
TEXT_MAX = 64 << 20
#: what of the text a later version of it has to differ in
_VERSION = 1


class Histories:
    """The histories of one source, the latest last."""

    def __init__(self) -> None:
        self._kept: list[SchemaHistory] = []

    def __iter__(self) -> Iterator[SchemaHistory]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, server: str) -> SchemaHistory | None:
        """Return a server's history; None if there is none."""
        return next((each for each in self._kept if each.beginning.server == server), None)

    def keep(self, history: SchemaHistory) -> None:
        """Keep a history that has begun, instead of an earlier one of its server."""
        self.drop(history.beginning.server)
        self._kept = [*self._kept, history][-SERVERS_MAX:]

    def drop(self, server: str) -> None:
        """Forget a server's history."""
        self._kept = [each for each in self._kept if each.beginning.server != server]

    def clear(self) -> None:
        """Forget everything."""
        self._kept = []

    def covering(self, place: Place) -> SchemaHistory | None:
        """Return the history that covers a place of its server; None if none does."""
        history = self.of(place.server)
        return history if history is not None and history.covers(place) else None

    def to_text(self) -> str:
        """Return them as a JSON text; equal histories have equal text.

        Raises:
            DataError: it is too long.
        """
        value = {"version": _VERSION, "histories": [each.to_json() for each in self._kept]}
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        if len(text) > TEXT_MAX:
            raise DataError(
                f"The schema history has {len(text):,} characters, of at most {TEXT_MAX:,}.",
                hint="Leave out tables that nobody reads (filter.black). On MySQL, binlog_row_metadata = FULL"
                " makes a history unnecessary.",
            )
        return text

    def load(self, text: str, make: Callable[[], Catalog]) -> None:
        """Replace everything by the histories of a text that `to_text` made.

        Raises:
            DataError: it is none.
        """
        try:
            value = json.loads(text)
            listed = {_VERSION: value["histories"]}[value["version"]]
            self._kept = [SchemaHistory.from_json(make, each) for each in listed]
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, UsageError) as error:
            raise DataError(
                f"The stored schema history cannot be read ({type(error).__name__}: {error}).",
                hint="`canal-group schema rebuild` begins a new one.",
            ) from error
