"""Followed tables: definitions that statements led to, and that the source has not confirmed yet."""

from __future__ import annotations

import re
from dataclasses import dataclass

from canal_group.binlog.charsets.charsets import BINARY_COLLATION, charset_of
from canal_group.binlog.history.facts import LogPosition
from canal_group.binlog.schema.definition import ColumnDefinition, TableDefinition
from canal_group.merge.errors import DefinitionContradicted

#: characters that the source cannot show
BEYOND = re.compile("[\U00010000-\U0010ffff]")


@dataclass(slots=True)
class Followed:
    """A definition that follows from statements only."""

    #: the last statement that changed the table, as messages call it, and where it ends
    statement: str
    since: LogPosition
    #: where rows were first read with this definition; None: no rows were read yet
    rows_from: LogPosition | None = None


def contradiction(
    followed: Followed, held: TableDefinition, shown: TableDefinition, until: LogPosition
) -> DefinitionContradicted | None:
    """Return the error that says how a definition differs from the source's; None if rows mean the same.

    Args:
        followed: the statement that led to the definition.
        held: the definition.
        shown: the source's definition, at a position that no later statement on the table comes before.
        until: the read position.
    """
    differing = differences(held, shown)
    if not differing:
        return None
    name = f"{held.schema}.{held.table}"
    delivered = (
        "No rows were read with it."
        if followed.rows_from is None
        else f"Rows of it between {followed.rows_from} and {until} were read with the wrong one."
    )
    return DefinitionContradicted(
        f"The definition of {name} after {followed.statement}, at {followed.since}, is not the source's: "
        f"{'; '.join(differing)}. {delivered}",
        hint="`canal-group schema rebuild` takes what the source shows. Load the rows of that range again. "
        "Unless the table was changed without being logged (sql_log_bin = 0), the statement was understood "
        "wrongly: please report it.",
        table=name,
        statement=followed.statement,
        followed=on_one_line(held),
        shown=on_one_line(shown),
        rows_from="" if followed.rows_from is None else str(followed.rows_from),
        rows_until=str(until),
    )


def differences(held: TableDefinition, shown: TableDefinition) -> list[str]:
    """Return the differences of two definitions that matter for rows, a phrase each, at most five."""
    ours, theirs = held.logged, shown.logged
    phrases = [
        f"column {index} is {_column(one)}, and the source shows {_column(other)}{_other_values(one, other)}"
        for index, (one, other) in enumerate(zip(ours, theirs, strict=False), start=1)
        if _meaning(one) != _meaning(other)
    ]
    if len(ours) != len(theirs):
        phrases.append(f"it has {len(ours)} columns, and the source shows {len(theirs)}")
    if held.row_key != shown.row_key:
        phrases.append(f"its key is {_listed(held.row_key)}, and the source shows {_listed(shown.row_key)}")
    return phrases[:5]


def shows_all(table: TableDefinition) -> bool:
    """Return whether the source can show all of a definition."""
    return not any(BEYOND.search(value) for column in table.columns for value in column.values)


def on_one_line(table: TableDefinition) -> str:
    """Return a definition on one line."""
    return f"({', '.join(_column(column) for column in table.logged)}) key {_listed(table.row_key)}"


def _meaning(column: ColumnDefinition) -> tuple[object, ...]:
    return (
        column.name,
        column.type,
        column.unsigned,
        column.length,
        column.precision,
        column.scale,
        column.decimals,
        charset_of(column.collation).codec,
        # The source shows a question mark for a character of four bytes.
        tuple(BEYOND.sub("?", value) for value in column.values),
        column.nullable,
        column.generated,
        column.visibility,
    )


def _column(column: ColumnDefinition) -> str:
    sizes = [size for size in (column.length, column.precision, column.scale, column.decimals) if size]
    size = f"({','.join(map(str, sizes))})" if sizes else ""
    values = f" of {len(column.values)} values" if column.values else ""
    words = [
        f"`{column.name}` {column.type}{size}{values}",
        "unsigned" if column.unsigned else "",
        "" if column.nullable else "NOT NULL",
        charset_of(column.collation).name if column.collation != BINARY_COLLATION else "",
    ]
    return " ".join(word for word in words if word)


def _other_values(one: ColumnDefinition, other: ColumnDefinition) -> str:
    """Return the words for values of ENUM or SET that differ: they are texts of the source, and not shown."""
    return ", with other values" if one.values and other.values and one.values != other.values else ""


def _listed(names: tuple[str, ...]) -> str:
    return f"({', '.join(names)})" if names else "none"
