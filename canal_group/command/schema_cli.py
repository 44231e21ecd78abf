"""`canal-group schema show|rebuild`: what a running instance knows of its sources' tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from canal_group.command.operator_command import operated
from canal_group.operator import Operator

app = typer.Typer(
    no_args_is_help=True, help="Show or rebuild what a running instance knows of its sources' tables."
)

Shard = Annotated[str | None, typer.Option(help="Only this shard.", show_default=False)]
Table = Annotated[str | None, typer.Option(help="Only this table of the source: `schema.table`.")]


@app.command()
@operated
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
    found = operator.schema(shard)
    for name, tables in found.items():
        wanted = [each for each in tables if table in (None, f"{each['schema']}.{each['table']}")]
        if as_json:
            for each in wanted:
                typer.echo(json.dumps({"shard": name, **each}, ensure_ascii=False))
            continue
        typer.echo(f"{name}: {len(wanted)} tables")
        for each in wanted:
            for line in _lines(each):
                typer.echo(f"  {line}")


@app.command()
@operated
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
    operator.rebuild_schema(shard)
    typer.echo(f"{shard} begins a new schema history with the next statement or table that needs it")


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
