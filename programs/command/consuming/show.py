"""Print changes on the command line: as JSON lines or as a table."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from canal_group.merge.printable import escaped
from canal_group.programs.command.json_line import json_line
from canal_group.programs.command.status_page import clock


def print_lines(rows: pa.Table) -> None:
    """Print an envelope table as JSON objects, one a line."""
    for row in rows.to_pylist():
        for image in ("key", "before", "after"):
            row[image] = dict(row[image]) if row[image] is not None else None
        sys.stdout.write(json_line(row) + "\n")
    sys.stdout.flush()


def print_table(rows: pa.Table) -> None:
    """Print an envelope table for people."""
    table = Table("seq", "commit (UTC)", "shard", "table", "op", "row", box=None, header_style="bold")
    for row in rows.to_pylist():
        image = row["sql"] or _changes(row["before"], row["after"])
        name = f"{row['schema']}.{row['table']}"
        cells = (str(row["seq"]), clock(row["commit_us"]), row["shard"], name, row["op"], image)
        table.add_row(*map(escaped, cells))
    Console(highlight=False, markup=False, emoji=False).print(table)


def _changes(before: Any, after: Any) -> str:
    if before is None or after is None:
        return ", ".join(f"{name}={value}" for name, value in dict(after or before or {}).items())
    old, new = dict(before), dict(after)
    changed = [(name, value) for name, value in new.items() if name not in old or old[name] != value]
    return ", ".join(
        f"{name}={old[name]} -> {value}" if name in old else f"{name}=? -> {value}" for name, value in changed
    )
