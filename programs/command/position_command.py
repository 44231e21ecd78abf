"""`canal-group position`: where a start is in the binlog of each shard."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from canal_group.merge.errors import CanalGroupError
from canal_group.programs.command.options.exit_code import ExitCode, exit_code_of
from canal_group.programs.command.output import echo, note

_err = Console(stderr=True, highlight=False, soft_wrap=True)


def position(
    config: Annotated[Path, typer.Option("--config", "-c", help="The instance file.")],
    at: Annotated[
        str,
        typer.Option(
            help="earliest, latest, a time with its zone, a time before now such as -2h, or a GTID set."
        ),
    ],
    shard: Annotated[str | None, typer.Option(help="Only this shard.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a line for each shard.")
    ] = False,
) -> None:
    """Show where a start is in each shard's binlog: what `start`, `--from` and `rewind --to` would choose.

    Nothing is changed. The sources are asked directly, with the accounts of the instance file.
    """
    from canal_group.actors.shard.wiring import shard_source
    from canal_group.binlog.files.files_reader import FilesSource, locate
    from canal_group.binlog.server.source import connect, server_facts
    from canal_group.binlog.server.starts.beginning import beginning
    from canal_group.conf.load import load_instance
    from canal_group.merge.values.start import parse_shard_start

    start = parse_shard_start(at, time.time_ns() // 1000)
    settings = load_instance(config)
    codes = {ExitCode.DONE}
    for each in settings.shards:
        if shard not in (None, each.name):
            continue
        source = shard_source(settings, each)
        try:
            if isinstance(source, FilesSource):
                found = locate(source, start)
            else:
                with closing(connect(source)) as connection:
                    found = beginning(start, source, connection, server_facts(source, connection))
        except CanalGroupError as error:
            codes.add(exit_code_of(error))
            note(f"{each.name}: {error}")
            continue
        shown: dict[str, Any] = {"shard": each.name, **found.to_dict()}
        if as_json:
            echo(json.dumps(shown))
        else:
            echo(f"{each.name}  {found}")
            for name, value in (("GTID set", str(found.gtid_set)), ("commit before", _time(found.commit_us))):
                if value:
                    echo(f"  {name}: {value}")
    # What an operator has to do goes before what may pass.
    if ExitCode.FAILED in codes:
        raise typer.Exit(ExitCode.FAILED)
    raise typer.Exit(max(codes))


def _time(time_us: int) -> str:
    seconds, rest = divmod(time_us, 1_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:06d}Z" if time_us else ""
