"""`canal-group schema show|rebuild|joined|resolve`: what a running instance knows of its sources' tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from canal_group.merge.errors import UsageError
from canal_group.operator import Operator, calls
from canal_group.programs.command.json_line import json_line
from canal_group.programs.command.operator_command import operated
from canal_group.programs.command.options.command_group import command_group
from canal_group.programs.command.output import echo

app = command_group(
    "Show or rebuild what a running instance knows of its sources' tables; give columns one type."
)

Shard = Annotated[str | None, typer.Option(help="Only this shard.", show_default=False)]
Table = Annotated[str | None, typer.Option(help="Only this table of the source: `schema.table`.")]


@app.command()
@operated(calls.ShowSchema)
def show(
    operator: Operator,
    shard: Shard = None,
    table: Table = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a line for each table.")
    ] = False,
) -> None:
    """Show the definitions by which rows are read now, where their events do not say them.

    A shard that has needed none yet has none.
    """
    found = operator.ask(calls.ShowSchema(shard))
    for name, tables in found.items():
        wanted = [each for each in tables if table in (None, f"{each['schema']}.{each['table']}")]
        if as_json:
            for each in wanted:
                echo(json_line({"shard": name, **each}))
            continue
        echo(f"{name}: {len(wanted)} tables")
        for each in wanted:
            for line in _lines(each):
                echo(f"  {line}")


@app.command()
@operated(calls.RebuildSchema)
def rebuild(
    operator: Operator,
    shard: Annotated[str, typer.Argument(help="The shard's name.", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Forget a shard's schema history, and begin a new one with what its source shows now."""
    if not yes:
        typer.confirm(
            f"Forget the schema history of {shard}? It stops at rows that it has not read yet if their table "
            "was altered since, unless binlog_row_metadata was FULL",
            abort=True,
            err=True,
        )
    operator.ask(calls.RebuildSchema(shard))
    echo(f"{shard} begins a new schema history with the next statement or table that needs it")


@app.command(name="joined")
@operated(calls.ShowJoined)
def show_joined(
    operator: Operator,
    table: Annotated[str, typer.Argument(help="The table, as consumers see it: `schema.table`.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the columns that a table has for consumers, and what they are in each shard."""
    found = operator.ask(calls.ShowJoined(table))
    if as_json:
        echo(json_line(found))
        return
    for line in joined_lines(found):
        echo(line)


@app.command()
@operated(calls.Resolve)
def resolve(
    operator: Operator,
    table: Annotated[str, typer.Argument(help="The table, as consumers see it: `schema.table`.")],
    column: Annotated[str, typer.Argument(help="The column.")],
    kind: Annotated[
        str | None,
        typer.Option(
            "--type",
            help="The type for every consumer: text, blob, bigint, bigint unsigned, double, decimal(20,4), "
            "date, datetime or timestamp.",
            show_default=False,
        ),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Take the choice back.")] = False,
) -> None:
    """Choose the type of a column that shards define in ways that no type can join."""
    if (kind is None) != undo:
        raise UsageError("Name either --type or --undo.")
    for line in joined_lines(operator.ask(calls.Resolve(table, column, kind))):
        echo(line)


def joined_lines(found: Mapping[str, Any]) -> list[str]:
    """Return a line for each column of a joined schema; one that cannot be joined says so."""
    lines = [str(found["table"])]
    for column in found["columns"]:
        shards: dict[str, list[str]] = {}
        for shard, said in column["shards"].items():
            shards.setdefault(said, []).append(shard)
        where = "; ".join(f"{said} in {', '.join(names)}" for said, names in shards.items())
        chosen = f", chosen as {column['chosen']}" if column["chosen"] else ""
        kind = column["type"] or "no type takes the values of all"
        lines.append(f"  {column['name']}: {kind}{chosen} ({where})")
    return lines


def _lines(table: Mapping[str, Any]) -> list[str]:
    name = f"{table['schema']}.{table['table']}"
    if "reason" in table:
        return [f"{name}: not known. {table['reason']}"]
    key = f", primary key ({', '.join(table['primary_key'])})" if table.get("primary_key") else ""
    return [f"{name}{key}", *(f"  {_column(column)}" for column in table["columns"])]


def _column(column: Mapping[str, Any]) -> str:
    sizes = [column[size] for size in ("length", "precision", "scale", "decimals") if size in column]
    values = [f"'{value}'" for value in column.get("values", ())]
    inside = ",".join([*values, *map(str, sizes)])
    words = [f"{column['type']}({inside})" if inside else str(column["type"])]
    words += ["unsigned"] * column.get("unsigned", False)
    words += ["not null"] * (not column.get("nullable", True))
    words += [str(column[word]) for word in ("generated", "visibility") if word in column]
    return f"{column['name']} {' '.join(words)}"
