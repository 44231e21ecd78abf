"""Snapshot cursors: what a client has of the tables of one shard, as one JSON text in its position."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from canal_group.merge.errors import CorruptEvent, UsageError
from canal_group.merge.snapshot.key import Key, key_of_json, keys_of_json
from canal_group.merge.values.chunk import TableName
from canal_group.merge.whole import whole

#: most bytes of a shard's cursor: it is a part of each position of its client
SNAPSHOT_TEXT_MAX: Final = 65_536
#: most bytes in the cursor for one table that is being read
TABLE_TEXT_MAX: Final = 8_192
#: names a folder
_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
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

    @property
    def fits(self) -> bool:
        """Whether a cursor has room for it."""
        return len(_dumped(_to_json(self))) <= TABLE_TEXT_MAX


#: a table of which all was read: by which key does not matter any more
DONE: Final = TableCursor("")


@dataclass(frozen=True, slots=True)
class SnapshotCursor:
    """How far each table of a shard was read, by `name_text`; a table that is not in it was not begun."""

    #: names the folder of its pages: `CLIENT-EPOCH-TIME`, of characters that a file's name may have
    id: str
    tables: Mapping[str, TableCursor] = field(default_factory=dict)
    #: the tables to read, by `name_text`; None: all that the filter keeps
    wanted: tuple[str, ...] | None = None
    #: conditions, by table: only rows for which they hold are read
    where: Mapping[str, str] = field(default_factory=dict)
    #: whether nothing is read
    paused: bool = False
    #: the tables of which rows may have moved since the last page: they are read from their beginning, unless
    #: pages follow that entered before
    moved: tuple[str, ...] = ()
    #: names the lane that selected the last page; another lane may select other rows for the same position.
    #: In a start beyond the consumer's cursor: names where the consumer begins
    selected_by: str = ""
    #: how often an operator has changed what is read; one that is noted elsewhere may be older
    steered: int = 0

    @property
    def client_id(self) -> str:
        """Whose it is."""
        return self.id.rsplit("-", 2)[0]

    def settled(self) -> SnapshotCursor:
        """Return it when no page follows: tables of which rows may have moved were not begun."""
        tables = {name: table for name, table in self.tables.items() if name not in self.moved}
        return replace(self, tables=tables, moved=())

    def to_json(self) -> str:
        """Return it as JSON text; equal cursors give equal text."""
        members: dict[str, Any] = {"id": self.id}
        done = sorted(name for name, table in self.tables.items() if table.done)
        begun = {name: _to_json(table) for name, table in self.tables.items() if not table.done}
        optional = {
            "done": done,
            "tables": begun,
            "where": dict(self.where),
            "paused": self.paused,
            "moved": self.moved,
            "selected_by": self.selected_by,
            "steered": self.steered,
        }
        members |= {name: value for name, value in optional.items() if value}
        if self.wanted is not None:
            members["wanted"] = self.wanted
        return _dumped(members)

    @classmethod
    def from_json(cls, text: str) -> SnapshotCursor:
        """Return the cursor that `to_json` wrote.

        Raises:
            UsageError: it wrote no such text.
        """
        try:
            members: dict[str, Any] = json.loads(_short(text))
            tables = {name: _of_json(value) for name, value in members.get("tables", {}).items()}
            tables |= dict.fromkeys(_names(members.get("done", [])), DONE)
            wanted = None if "wanted" not in members else _names(members["wanted"])
            where = dict(members.get("where", {}))
            _names([*tables, *where])
            _texts(list(where.values()))
            paused, moved = _flag(members.get("paused", False)), _names(members.get("moved", []))
            (selected_by,) = _texts([members.get("selected_by", "")])
            steered = whole(members.get("steered", 0))
            return cls(_id(members["id"]), tables, wanted, where, paused, moved, selected_by, steered)
        except (AttributeError, CorruptEvent, KeyError, RecursionError, TypeError, ValueError) as error:
            raise UsageError(f"{text[:_SHOWN_MAX]!r} is not a cursor of a snapshot ({error}).") from error


def name_text(name: TableName) -> str:
    """Return the text of a table's name; parts with a dot or a backtick in it are quoted as in SQL."""
    return ".".join(map(_part, name))


def name_of_text(text: str) -> TableName:
    """Return the name that a text of `name_text` is.

    Raises:
        ValueError: `name_text` cannot have made the text.
    """
    parts = re.findall(r"\.?(`(?:[^`]|``)*`|[^.`]+)", text)
    names = [part[1:-1].replace("``", "`") if part[0] == "`" else part for part in parts]
    if len(names) != 2 or name_text(TableName(*names)) != text:  # noqa: PLR2004
        raise ValueError(f"{text!r} is not the name of a table")
    return TableName(*names)


def _part(name: str) -> str:
    return "`" + name.replace("`", "``") + "`" if not name or "." in name or "`" in name else name


def _dumped(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _to_json(table: TableCursor) -> dict[str, Any]:
    ranges = [[each.after, each.until] for each in table.ranges]
    value: dict[str, Any] = {"key": table.key, "ranges": ranges}
    if table.again:
        value["again"] = table.again
    return value


def _of_json(value: Any) -> TableCursor:
    key = value["key"]
    if not isinstance(key, str):
        raise TypeError("the columns of a key are a text")
    ranges = tuple(KeyRange(key_of_json(after), key_of_json(until)) for after, until in value["ranges"])
    found = TableCursor(key, ranges, keys_of_json(value.get("again", ())))
    if found.done:
        raise ValueError("nothing is left of a table that is being read")
    return found


def _short(text: str) -> str:
    if len(text) > SNAPSHOT_TEXT_MAX:
        raise ValueError(f"it has more than {SNAPSHOT_TEXT_MAX} characters")
    return text


def _id(value: Any) -> str:
    if not isinstance(value, str) or _ID.fullmatch(value) is None:
        raise ValueError("an id has letters, digits and ._- only, and at most 200 of them")
    return value


def _names(values: Any) -> tuple[str, ...]:
    for text in _texts(values):
        name_of_text(text)
    return tuple(values)


def _texts(values: Any) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise TypeError(f"{values!r} is not a list of texts")
    return values


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value
