"""The demo's command in the repository: `make demo`, or python -m playground."""

from __future__ import annotations

from typing import Annotated

import typer

from canal_group.actors.process.log import LogFormat, LogLevel
from canal_group.merge.errors import UsageError
from canal_group.programs.command.options import log_options
from canal_group.programs.command.options.exit_code import ExitCode
from canal_group.programs.demo.run import run_recorded
from playground.database.engine import Engine
from playground.options import SNAPSHOT_ROWS, DemoOptions
from playground.run import RECORDED, run_servers

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def demo(
    shards: Annotated[int, typer.Option(min=1, max=16, help="Database servers.")] = 4,
    engine: Annotated[Engine, typer.Option(help="Their kind; mixed alternates both.")] = Engine.MARIADB,
    transactions: Annotated[
        int | None, typer.Option(min=1, help="Small transactions, over all shards.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=1, help="Time limit for writing, seconds.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed writes the same rows.")] = 1,
    files: Annotated[
        bool, typer.Option("--files", help="Read recorded binlogs: no server is started or needed.")
    ] = False,
    snapshot: Annotated[
        bool, typer.Option("--snapshot", help="Tables are full: the consumer begins with a snapshot of them.")
    ] = False,
    zookeeper: Annotated[
        bool, typer.Option("--zookeeper", help="With an embedded ZooKeeper, which needs Java and pyspark.")
    ] = False,
    stay: Annotated[bool, typer.Option("--stay", help="Keep servers and page until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Last line on stdout: the result as JSON.")] = False,
    log_format: log_options.Format = LogFormat.TEXT,
    log_level: log_options.Level = LogLevel.WARNING,
) -> None:
    """Start database servers, write to all of them, show rows of the merged stream, and verify it.

    With --files the demo reads the recorded binlogs of four servers, as `canal-group demo --files` does.
    """
    if files and snapshot:
        raise UsageError(
            "Shards of files have no snapshot.",
            hint="Leave --files away: it starts servers with full tables.",
        )
    standard = DemoOptions()
    options = DemoOptions(
        shards=shards,
        engine=engine,
        transactions=standard.transactions if transactions is None else transactions,
        seconds=standard.seconds if seconds is None else seconds,
        seed=seed,
        snapshot_rows=SNAPSHOT_ROWS if snapshot else 0,
        zookeeper=zookeeper,
        json=as_json,
        stay=stay,
        log_level=log_level,
    )
    with log_options.logged(log_format, log_level):
        if files:
            report = run_recorded(seed, log_level, RECORDED, as_json=as_json, stay=stay)
        else:
            report = run_servers(options)
    if not report.ok:
        raise typer.Exit(ExitCode.FAILED)
