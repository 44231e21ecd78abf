"""Change lines: a row of an envelope as one line for people, its columns below `HEADING`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from rich.text import Text

from canal_group.merge.printable import escaped

#: columns of an envelope that a line is made of
SHOWN: Final = ("seq", "key_us", "shard", "schema", "table", "op", "key", "before", "after", "sql")
HEADING: Final = "time, UTC     shard   table        change"
#: characters of a value that are shown
_VALUE_MAX: Final = 16
#: the column in which writers keep the time of sending: it changes with each row and tells people nothing
_UNSHOWN: Final = "written_us"
_STYLES: Final = {"INSERT": "green", "READ": "green", "UPDATE": "yellow", "DELETE": "red"}


def change_line(row: dict[str, Any], width: int) -> Text:
    """Return the line of a row, cut to a terminal's width.

    Args:
        row: values of the columns `SHOWN`; a map is a list of pairs.
        width: in a terminal's cells.
    """
    clock = datetime.fromtimestamp(row["key_us"] / 1e6, UTC).strftime("%H:%M:%S.%f")[:-3]
    op = row["op"]
    line = Text.assemble(
        (clock, "dim"),
        f"  {escaped(row['shard']):<6}  {escaped(row['schema'])}.{escaped(row['table']):<6}  ",
        (op, _STYLES.get(op, "cyan")),
        f" {escaped(_change(row))}",
    )
    line.truncate(width, overflow="ellipsis")
    return line


def _change(row: dict[str, Any]) -> str:
    """Return a new row's values, an UPDATE's key and what it changed, a DELETE's key, a statement's text."""
    match row["op"]:
        case "INSERT" | "READ":
            return _cells(row["after"])
        case "UPDATE":
            before = dict(row["before"])
            changed = [
                f"{name}={_short(before.get(name))}->{_short(value)}"
                for name, value in row["after"]
                if name != _UNSHOWN and before.get(name) != value
            ]
            return " ".join([_cells(row["key"]), *changed])
        case "DELETE":
            return _cells(row["key"])
        case _:
            statement: str = row["sql"]
            # The statement's first word is already shown as its kind.
            return statement.partition(" ")[2] or statement


def _cells(image: list[tuple[str, str | None]]) -> str:
    return " ".join(f"{name}={_short(value)}" for name, value in image if name != _UNSHOWN)


def _short(value: str | None) -> str:
    if value is None:
        return "NULL"
    return value if len(value) <= _VALUE_MAX else f"{value[: _VALUE_MAX - 1]}…"
