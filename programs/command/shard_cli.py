"""`canal-group shard hold|skip|resume|skip-event|add|remove`: the shards of a running instance."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from canal_group.merge.errors import ConfigError
from canal_group.merge.values.skips.skipped_event import SkippedEvent, Unit
from canal_group.merge.values.start import parse_shard_start
from canal_group.operator import Operator, Policy, calls
from canal_group.programs.command.operator_command import operated
from canal_group.programs.command.options.command_group import command_group
from canal_group.programs.command.options.exit_code import ExitCode
from canal_group.programs.command.output import echo

app = command_group("Change which shards a running instance has, and which of them it waits for.")

Shard = Annotated[str, typer.Argument(help="The shard's name.", show_default=False)]
Wait = Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait until it is done.")]


@app.command()
@operated(calls.GivePolicy)
def hold(operator: Operator, shard: Shard) -> None:
    """Let the group wait for a shard that is silent, whatever the settings say."""
    operator.ask(calls.GivePolicy(shard, Policy.HOLD))
    echo(f"{shard} holds the group whenever it is silent, until `shard resume {shard}`")


@app.command()
@operated(calls.GivePolicy)
def skip(operator: Operator, shard: Shard) -> None:
    """Let the group go on without a shard; its rows may then be flagged late."""
    operator.ask(calls.GivePolicy(shard, Policy.SKIP))
    echo(f"the group goes on without {shard}, whose rows may be late, until `shard resume {shard}`")


@app.command()
@operated(calls.GivePolicy)
def resume(operator: Operator, shard: Shard) -> None:
    """Apply the settings to a shard again, after `hold` or `skip`."""
    state = operator.ask(calls.GivePolicy(shard, Policy.RESUME))
    far = "; the group waits for it again once it has caught up" if state["skipped"] else ""
    echo(f"the settings apply to {shard} again{far}")


@app.command(name="skip-event")
@operated(calls.SkipEvent)
def skip_event(
    operator: Operator,
    shard: Shard,
    at: Annotated[
        str, typer.Option("--at", help="The event: FILE:POS, as the shard's error says.", show_default=False)
    ],
    whole_transaction: Annotated[
        bool, typer.Option("--whole-transaction", help="Leave out the rest of its transaction, too.")
    ] = False,
) -> None:
    """Leave out the event at which a shard has stopped; each consumer gets a mark that says so."""
    event = operator.ask(calls.SkipEvent(shard, at, whole_transaction))
    if event["already"]:
        echo(f"left out already: {SkippedEvent.from_dict(event)}")
        return
    what = "transaction" if event["unit"] is Unit.TRANSACTION else "event"
    echo(f"{shard} goes on without the {what} at {at}; each consumer gets a mark in its place")


@app.command()
@operated(calls.AddShard)
def add(
    operator: Operator,
    shard: Shard,
    config: Annotated[Path, typer.Option("--config", "-c", help="An instance file that defines the shard.")],
    start: Annotated[
        str | None,
        typer.Option(help="Where it begins, as `start` in an instance file. Otherwise as the file says."),
    ] = None,
    wait_s: Wait = 30.0,
) -> None:
    """Add a shard to a running instance, whose stream continues."""
    operator.ask(calls.AddShard(_definition(config, shard, start)))
    if not operator.joined(shard, wait_s):
        echo(f"{shard} has not joined yet; `canal-group status -d {operator.destination}` shows if it does")
        raise typer.Exit(ExitCode.UNAVAILABLE)
    echo(f"{shard} has joined; add it to the instance file of every server, after the other shards")


@app.command()
@operated(calls.RemoveShard)
def remove(
    operator: Operator,
    shard: Shard,
    now: Annotated[bool, typer.Option("--now", help="Drop what is not acknowledged.")] = False,
    wait_s: Wait = 30.0,
) -> None:
    """Remove a shard when everything that it has committed is acknowledged, or at once."""
    state = operator.ask(calls.RemoveShard(shard, now))
    if now:
        positions = state.get("left_at", {})
        at = ", ".join(f"client {client} at {position}" for client, position in positions.items())
        rows = state.get("rows_dropped", 0)
        echo(f"{shard} has left: {at or 'no client had a cursor'}; {rows} rows that were read are dropped")
    elif operator.left(shard, wait_s):
        echo(f"{shard} has left; remove it from the instance file of every server")
    else:
        echo(f"{shard} leaves when what it has committed is acknowledged; --now drops that instead")
        raise typer.Exit(ExitCode.UNAVAILABLE)


def _definition(config: Path, shard: str, start: str | None) -> dict[str, Any]:
    """Return a shard as an instance file defines it, without its secrets, and where it begins.

    Raises:
        ConfigError: the file has no such shard, or `start` is none.
    """
    from canal_group.conf.load import load_instance

    settings = load_instance(config, secrets=())  # the server reads them
    found = next((one for one in settings.shards if one.name == shard), None)
    if found is None:
        known = ", ".join(one.name for one in settings.shards)
        raise ConfigError(f"{config} has no shard {shard}.", hint=f"It has {known}.", shard=shard)
    definition: dict[str, Any] = json.loads(found.model_dump_json(exclude_defaults=True))
    if start is not None:
        parse_shard_start(start, time.time_ns() // 1000)
    return {**definition, "start": settings.start_of(found) if start is None else start}
