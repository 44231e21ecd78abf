"""`canal-group rewind`: move the cursor of a client id on purpose, or say where a new one begins."""

from __future__ import annotations

from typing import Annotated

import typer

from canal_group.merge.values.position import GroupPosition
from canal_group.operator import Operator, calls
from canal_group.programs.command.operator_command import operated
from canal_group.programs.command.output import echo


@operated(calls.Rewind)
def rewind(
    operator: Operator,
    client_id: Annotated[str, typer.Option("--client", help="The client id whose cursor to move.")],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="earliest, latest, a time with its zone, a time before now such as -2h, or a position.",
        ),
    ],
    new: Annotated[
        bool, typer.Option("--new", help="The client id may be unknown: it is made, and begins there.")
    ] = False,
    snapshot: Annotated[
        bool, typer.Option("--snapshot", help="It gets the rows that there are, too, beside all changes.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Move the cursor of a client id that has no consumer.

    Backwards, it receives again what it had acknowledged. Forwards, it never receives what lies in between.
    """
    if not yes:
        typer.confirm(
            f"Move the cursor of client {client_id} of {operator.destination} to {to}? Other consumers are "
            "rolled back if the sources have to be read again",
            abort=True,
            err=True,
        )
    moved = operator.ask(calls.Rewind(client_id, to, new, snapshot))
    for word, cursor in (("from", moved["from"]), ("to", moved["to"])):
        echo(f"{word}:")
        for line in _lines(cursor):
            echo(f"  {line}")


def _lines(cursor: str | None) -> list[str]:
    if cursor is None:
        return ["no cursor"]
    return [f"{shard}  {position}" for shard, position in GroupPosition.from_json(cursor).shards.items()]
