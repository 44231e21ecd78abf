"""Definitions as short texts, much as `information_schema.COLUMNS` and SHOW INDEX have them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from canal_group.binlog.schema.catalog import Catalog
from canal_group.binlog.schema.definition import ColumnDefinition, Key, TableDefinition, UnknownTable
from canal_group.binlog.schema.statement import ServerVersion, Statement

MYSQL = ServerVersion.parse("9.7.4")
MARIADB = ServerVersion.parse("10.11.6-MariaDB")
COLLATIONS = {
    8: "latin1_swedish_ci",
    11: "ascii_general_ci",
    33: "utf8mb3_general_ci",
    35: "ucs2_general_ci",
    46: "utf8mb4_bin",
    47: "latin1_bin",
    51: "cp1251_general_ci",
    60: "utf32_general_ci",
    83: "utf8mb3_bin",
    90: "ucs2_bin",
    255: "utf8mb4_0900_ai_ci",
}
#: the default of schema `app`, which the texts leave out
_UTF8MB4 = 45


_SERVERS = {"both": (MARIADB, MYSQL), "mariadb": (MARIADB,), "mysql": (MYSQL,)}


def cases(text: str) -> list[Any]:
    """Return a parameter set of pytest for each case of a list: server, statements, table `t` after them.

    Args:
        text: statements, one a line; below them, indented by four, what the table is then on `both` servers,
            on `mariadb` or on `mysql`. A line that is indented by more goes on with the one before it.
    """
    found: list[Any] = []
    statements: list[str] = []
    told = False
    for line in re.sub(r"\n {5,}", " ", text.strip("\n")).splitlines():
        if not line.startswith(" "):
            statements = [line] if told else [*statements, line]
            told = False
            continue
        told = True
        word, _, table = line.strip().partition(": ")
        found += [
            pytest.param(server, statements, table, id=f"{statements[-1]}, {word}")
            for server in _SERVERS[word]
        ]
    return found


def played(
    *statements: str, server: ServerVersion = MARIADB, collation: int = _UTF8MB4, **session: object
) -> Catalog:
    """Return a catalog with schema `app` after statements that ran in it."""
    made = Catalog(collation)
    made.set_schema("app", collation)
    for sql in statements:
        made.apply(Statement(sql, "app", server, **session))  # type: ignore[arg-type]
    return made


def text_after(*statements: str, table: str = "t", **options: object) -> str:
    """Return the definition of a table after statements: its columns and keys; `unknown`; or `none`."""
    return text_of(played(*statements, **options).table("app", table))  # type: ignore[arg-type]


def text_of(table: TableDefinition | UnknownTable | None) -> str:
    """Return a table's columns, then its keys in their order."""
    if not isinstance(table, TableDefinition):
        return "none" if table is None else "unknown"
    primary = [f"PRIMARY({', '.join(table.primary_key)})"] if table.primary_key else []
    versioned = ["versioned"] * table.versioned
    return ", ".join(
        [*map(text_of_column, table.columns), *primary, *map(_text_of_key, table.keys), *versioned]
    )


def text_of_column(column: ColumnDefinition) -> str:
    """Return a column's name, its type, and what is not usual of it."""
    size = ""
    if column.values:
        size = "(" + ",".join("'" + value.replace("'", "''") + "'" for value in column.values) + ")"
    elif column.precision:
        size = f"({column.precision},{column.scale})"
    elif column.length or column.type in {"char", "varchar", "binary", "varbinary"}:
        size = f"({column.length})"
    elif column.decimals:
        size = f"({column.decimals})"
    words = [
        column.name,
        column.type + size,
        "unsigned" * column.unsigned,
        COLLATIONS.get(column.collation, ""),
        "" if column.nullable else "NOT NULL",
        column.generated.value,
        column.visibility.value,
    ]
    return " ".join(word for word in words if word)


def _text_of_key(key: Key) -> str:
    prefixes = key.prefixes or (0,) * len(key.columns)
    parts = (
        f"{name or '<expression>'}{f'({prefix})' if prefix else ''}"
        for name, prefix in zip(key.columns, prefixes, strict=True)
    )
    return f"{'UNIQUE ' if key.unique else ''}{key.name}({', '.join(parts)}){' hashed' if key.hashed else ''}"
