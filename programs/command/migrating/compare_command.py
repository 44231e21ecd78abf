"""`canal-group compare`: canal's stream of each source, compared with ours."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from canal_group.merge.errors import ConfigError
from canal_group.merge.well_known import CLIENT_ID
from canal_group.programs.command.options.exit_code import ExitCode
from canal_group.programs.command.options.login_options import secret
from canal_group.programs.command.output import echo

if TYPE_CHECKING:
    from canal_group.conf.settings import InstanceSettings
    from canal_group.programs.migration.compare.canal_client import CanalServer


def compare(
    config: Annotated[
        Path, typer.Option("--config", "-c", help="The instance file; its `canal` is compared.")
    ],
    canal: Annotated[str, typer.Option(help="canal's server, host:port.")],
    shard: Annotated[
        str | None, typer.Option(help="Only this shard. Default: all, one after the other.")
    ] = None,
    canal_destination: Annotated[
        str | None, typer.Option(help="With --shard: canal's name of it. Default: the shard's name.")
    ] = None,
    ours: Annotated[
        str | None, typer.Option(help="Our listener, host:port. Default: as the instance file says.")
    ] = None,
    user: Annotated[str, typer.Option(help="User of both servers' clients.")] = "",
    password_env: Annotated[
        str | None, typer.Option("--password-env", help="Environment variable with that user's password.")
    ] = None,
    client_id: Annotated[str, typer.Option("--client", help="Client id to read under, at both.")] = CLIENT_ID,
    rows_max: Annotated[int, typer.Option("--rows", min=1, help="Rows of a shard to compare.")] = 100_000,
    differences_max: Annotated[
        int, typer.Option("--differences", min=1, help="Differences of a shard with which it ends.")
    ] = 10,
    without: Annotated[
        list[str] | None,
        typer.Option(help="schema.table.column that is not compared, as it is called here; repeatable."),
    ] = None,
    idle_s: Annotated[
        float, typer.Option("--timeout", min=1, help="Seconds without a transaction after which it ends.")
    ] = 10.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a line for each shard.")
    ] = False,
) -> None:
    """Compare canal's stream of each source with ours, and say where they differ.

    What is read is acknowledged at both, under a client id that nothing else may use: canal gives each change
    to one client only. Use an instance of canal, and a server of ours, that were started for this.
    """
    from canal_group.actors.sink.route import Route
    from canal_group.actors.sink.sink import Sink
    from canal_group.conf.load import load_instance
    from canal_group.programs.migration.compare.canal_client import CanalClient
    from canal_group.programs.migration.compare.result import result_lines
    from canal_group.programs.migration.compare.streams import CanalSource, compare

    if canal_destination is not None and shard is None:
        raise typer.BadParameter("--canal-destination needs --shard.")
    left_out = _columns(without or ())
    settings = load_instance(config)
    shards = [each.name for each in settings.shards if shard in (None, each.name)]
    if not shards:
        raise typer.BadParameter(f"{config} has no shard {shard}.", param_hint="--shard")
    if settings.canal is not None and not settings.canal.transaction_entries:
        raise ConfigError(
            f"{config} leaves out begins and ends, by which changes are compared.",
            hint="Serve and compare a copy of it without `canal.transaction_entries: false`.",
        )
    password = secret(password_env, "--password-env") or ""
    chosen = settings.filter
    sink = Sink(chosen.white, chosen.black, [Route(each.match, each.to) for each in chosen.routes])
    with ExitStack() as opened:

        def stream(server: CanalServer, destination: str) -> CanalSource:
            return CanalSource(opened.enter_context(CanalClient(server, destination, client_id)))

        theirs = {
            name: stream(_server(canal, "--canal", user, password), canal_destination or name)
            for name in shards
        }
        own = stream(_own(settings, ours, user, password), settings.destination)
        found = compare(
            own,
            theirs,
            sink,
            rows_max=rows_max,
            idle_s=idle_s,
            differences_max=differences_max,
            without=left_out,
        )
    for name, comparison in found.items():
        for line in result_lines(name, comparison, as_json=as_json):
            echo(line)
    if not all(comparison.ok for comparison in found.values()):
        raise typer.Exit(ExitCode.FAILED)


def _columns(names: Sequence[str]) -> frozenset[str]:
    """Return the names of columns in lower case."""
    for name in names:
        if not all(name.split(".")) or name.count(".") != 2:  # noqa: PLR2004 - three parts
            raise typer.BadParameter(f"{name!r} is not schema.table.column.", param_hint="--without")
    return frozenset(name.lower() for name in names)


def _own(settings: InstanceSettings, address: str | None, user: str, password: str) -> CanalServer:
    """Return our listener: where it is told, else where the instance file says."""
    if address is None and (settings.canal is None or not settings.canal.port):
        raise typer.BadParameter(
            "The file has no `canal` with a port: name our listener.", param_hint="--ours"
        )
    if address is None:
        assert settings.canal is not None
        address = f"{settings.canal.host}:{settings.canal.port}"
    return _server(address, "--ours", user, password)


def _server(address: str, option: str, user: str, password: str) -> CanalServer:
    from canal_group.programs.migration.compare.canal_client import CanalServer

    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise typer.BadParameter(f"{address!r} is not host:port.", param_hint=option)
    return CanalServer(host.strip("[]"), int(port), user, password)
