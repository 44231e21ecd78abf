"""Snapshot cursors: what a client has of the tables of one shard, as one JSON text beside its cursor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from canal_group.merge.errors import UsageError
from canal_group.merge.snapshot.key import Key, key_of_json, keys_of_json

_DONE: Final = "done"
#: characters of a text that is not a cursor, in the error
_SHOWN_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The rows of a table that are still to be read between two keys, in the server's order."""

    #: exclusive: the last key that was read; None: the range has no beginning
    after: Key | None = None
    #: inclusive; None: it has no end
    until: Key | None = None


@dataclass(frozen=True, slots=True)
class TableCursor:
    """How far one table was read."""

    #: columns and types of the key by which it is read: a cursor of another key means nothing
    key: str
    #: what is still to be read
    ranges: tuple[KeyRange, ...] = ()
    #: rows that are to be read once more, wherever they are
    again: tuple[Key, ...] = ()

    @property
    def done(self) -> bool:
        """Whether all of the table was read."""
        return not self.ranges and not self.again


@dataclass(frozen=True, slots=True)
class SnapshotCursor:
    """How far each table of a shard was read; a table that is not in it was not begun."""

    tables: Mapping[str, TableCursor] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return it as JSON text; equal cursors give equal text."""
        members = {name: _to_json(table) for name, table in self.tables.items()}
        return json.dumps(members, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | None) -> SnapshotCursor:
        """Return the cursor that `to_json` wrote; None, nothing is stored, is one before the first page.

        Raises:
            UsageError: it wrote no such text.
        """
        if text is None:
            return cls()
        try:
            members: dict[str, Any] = json.loads(text)
            return cls({name: _of_json(value) for name, value in members.items()})
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise UsageError(f"{text[:_SHOWN_MAX]!r} is not a cursor of a snapshot ({error}).") from error


def _to_json(table: TableCursor) -> Any:
    if table.done:
        return {"key": table.key, "state": _DONE}
    ranges = [[each.after, each.until] for each in table.ranges]
    value: dict[str, Any] = {"key": table.key, "ranges": ranges}
    if table.again:
        value["again"] = table.again
    return value


def _of_json(value: Any) -> TableCursor:
    key = value["key"]
    if not isinstance(key, str):
        raise TypeError("the columns of a key are a text")
    if "state" in value:
        if value["state"] != _DONE:
            raise ValueError(f"{value['state']!r} is not a state of a table")
        return TableCursor(key)
    ranges = tuple(KeyRange(key_of_json(after), key_of_json(until)) for after, until in value["ranges"])
    return TableCursor(key, ranges, keys_of_json(value.get("again", ())))
