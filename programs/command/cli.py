"""The command line: `canal-group serve`, `check`, `consume`, `status` and the other commands."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console

from canal_group.actors.process.log import LogFormat, LogLevel
from canal_group.merge.errors import CanalGroupError, NotSubscribed, RolledBack, UsageError
from canal_group.merge.well_known import CLIENT_ID, GATEWAY
from canal_group.programs.command import schema_cli, shard_cli
from canal_group.programs.command.archive import archive_cli
from canal_group.programs.command.call_commands import add_commands
from canal_group.programs.command.import_command import import_files
from canal_group.programs.command.options import log_options
from canal_group.programs.command.options.address_options import Destination, Gateway, SharedMemory, Zookeeper
from canal_group.programs.command.options.command_group import command_group
from canal_group.programs.command.options.exit_code import ExitCode, exit_code_of
from canal_group.programs.command.options.login_options import (
    TlsCa,
    TlsCert,
    TlsKey,
    TokenEnv,
    ZookeeperAuthEnv,
    ZookeeperCa,
    ZookeeperCert,
    ZookeeperKey,
    secret,
    zookeeper_login,
)
from canal_group.programs.command.output import echo, labelled, note
from canal_group.programs.command.position_command import position
from canal_group.programs.command.relay.relay_command import relay
from canal_group.programs.command.rewind_command import rewind
from canal_group.programs.command.serve_command import serve
from canal_group.programs.command.switch_command import start, stop
from canal_group.programs.command.top_command import top
from canal_group.programs.command.trace_command import trace
from canal_group.programs.quick_exit import quick_exit
from canal_group.zookeeper.login import ZooKeeperLogin

if TYPE_CHECKING:
    from canal_group.conf.settings import InstanceSettings

app = command_group("Merge the binlogs of MySQL and MariaDB shards into one ordered, acknowledged stream.")


GROUPS: Final = {"shard": shard_cli.app, "schema": schema_cli.app}

#: rows of a batch of `consume`
BATCH_ROWS: Final = 1_000

_log = logging.getLogger(__name__)
_err = Console(stderr=True, highlight=False, soft_wrap=True)

Config = Annotated[Path, typer.Option("--config", "-c", help="The instance file.")]


def main(commands: typer.Typer = app) -> None:
    """Run a command line; an error of ours prints a sentence. Exits with an `ExitCode`."""
    try:
        commands()
    except CanalGroupError as error:
        labelled(_err, type(error).__name__, "red", f": {error}")
        sys.exit(exit_code_of(error))
    except SystemExit as ended:
        if ended.code == ExitCode.INTERRUPTED:
            note("Interrupted.")
        raise


app.command(name="import")(import_files)
app.command()(serve)
app.command()(stop)
app.command()(start)
app.command()(position)
app.command()(relay)
app.command()(rewind)
app.command()(top)
app.command()(trace)
app.add_typer(archive_cli.app, name="archive")
for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name)
add_commands(app, GROUPS)


@app.command()
def check(
    config: Config,
    show_settings: Annotated[
        bool, typer.Option("--settings", help="Print every setting in effect, presets included.")
    ] = False,
    decode: Annotated[
        str | None,
        typer.Option(help="Also compare how two decoders read the last part of each binlog, such as 64MiB."),
    ] = None,
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="With --decode: binlog files or a folder to compare, not the sources'."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --decode: one JSON object a shard; the checks go to stderr.")
    ] = False,
) -> None:
    """Check an instance file, and the settings and grants of each source; print a line for each check."""
    from canal_group.actors.shard.wiring import replicas, shard_source
    from canal_group.binlog.files.files_reader import FilesSource, listed
    from canal_group.binlog.server.preflight.preflight import preflight
    from canal_group.conf.description import describe
    from canal_group.conf.load import load_instance
    from canal_group.programs.command.check.decode_check import check_decoding
    from canal_group.programs.command.check.filter_check import check_filter
    from canal_group.programs.command.check.snapshot_check import check_snapshot
    from canal_group.programs.command.options.byte_size import parse_size

    if decode is None and (files or as_json):
        raise typer.BadParameter("Files and --json need --decode.")
    bytes_max = None if decode is None else parse_size(decode)
    out = Console(highlight=False, soft_wrap=True, stderr=as_json)
    settings = load_instance(config)
    ok, warn, fail = (("ok    ", "green"), ("warn  ", "yellow"), ("FAIL  ", "red"))
    labelled(out, *ok, f"{config}: destination {settings.destination}, {len(settings.shards)} shards")
    if show_settings:
        for key, value in describe(settings).items():
            labelled(out, "      ", "", f"{key} = {value}")
    failed = not _check_gateway(out, config, settings)
    sources = [
        (each, source)
        for each in settings.shards
        for source in (shard_source(settings, each), *replicas(settings, each))
    ]
    for shard, source in sources:
        where = f"{shard.name} ({source.location})"
        try:
            if isinstance(source, FilesSource):
                labelled(out, *ok, f"{where}: {len(listed(source.files, source.key_file))} files")
                continue
            checks = [
                *preflight(source, gtids=shard.start_by == "gtid"),
                *check_filter(settings.filter, source),
                *check_snapshot(settings, source),
            ]
        except CanalGroupError as error:
            failed = True
            labelled(out, *fail, f"{where}: {error}")
            continue
        for found in checks:
            failed |= not found.ok
            label = (warn if found.fix else ok) if found.ok else fail
            mend = f". Fix it with: {found.fix}" if found.fix else ""
            labelled(out, *label, f"{where}: {found.name}: {found.found}{mend}")
    if bytes_max is not None:
        failed |= not check_decoding(settings, files or (), bytes_max, echo, as_json=as_json)
    if failed:
        raise typer.Exit(ExitCode.FAILED)


def _check_gateway(out: Console, config: Path, settings: InstanceSettings) -> bool:
    """Print warnings for the operator; return whether the certificates can be used."""
    from canal_group.actors.admission.expiry import expiries
    from canal_group.actors.group.wiring import gateway_tls
    from canal_group.conf.cautions import cautions

    for sentence in cautions(settings):
        labelled(out, "warn  ", "yellow", f"{config}: {sentence}")
    holds = True
    for expiry in expiries(settings):
        if expiry.is_near(time.time()):
            expired = expiry.has_come(time.time())
            label = ("FAIL  ", "red") if expired else ("warn  ", "yellow")
            labelled(out, *label, f"{config}: {expiry.sentence(time.time())}")
            holds &= not expired
    try:
        gateway_tls(settings)
    except CanalGroupError as error:
        labelled(out, "FAIL  ", "red", f"{config}: {error}")
        return False
    return holds


@app.command()
def consume(
    destination: Destination,
    gateway: Gateway = GATEWAY,
    client_id: Annotated[
        str, typer.Option("--client", help="The client id whose cursor to use.")
    ] = CLIENT_ID,
    filter: Annotated[str, typer.Option(help="canal's regular expressions on schema.table.")] = "",  # noqa: A002
    start_at: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Where a client id without a cursor begins: earliest, latest, a time with its zone, or -2h.",
        ),
    ] = None,
    ack: Annotated[bool, typer.Option("--ack", help="Acknowledge what was printed.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Hold rows for a new client id that acknowledges nothing.")
    ] = False,
    snapshot: Annotated[
        str | None,
        typer.Option(
            help="Whether a new client id gets the rows that there are, too: initial, never, or only, which "
            "ends with them. With --ack or --keep. Default: as the instance file says.",
        ),
    ] = None,
    as_table: Annotated[bool, typer.Option("--table", help="Print a table instead of JSON lines.")] = False,
    rows_max: Annotated[int, typer.Option("--rows", min=0, help="Stop after this many rows; 0: never.")] = 0,
    timeout_s: Annotated[
        float | None, typer.Option("--timeout", min=0, help="Stop after this many seconds without a row.")
    ] = None,
    token_env: TokenEnv = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    zookeeper: Zookeeper = None,
    zookeeper_auth_env: ZookeeperAuthEnv = None,
    zookeeper_ca: ZookeeperCa = None,
    zookeeper_cert: ZookeeperCert = None,
    zookeeper_key: ZookeeperKey = None,
    shared_memory: SharedMemory = True,
    log_format: log_options.Format = LogFormat.TEXT,
    log_level: log_options.Level = LogLevel.INFO,
) -> None:
    """Print a destination's changes, in order: one JSON object a line, or a table.

    Without --ack the next consumer receives everything again. A new client id is then a look: nothing of it
    stays when the command ends, and it ends where it keeps a ring full and its output is not read.

    Tables that a snapshot could not read are named on stderr, and the command ends with 1.
    """
    import canal_group
    from canal_group.programs.command.consuming.show import print_lines, print_table
    from canal_group.programs.command.consuming.snapshot_bar import SnapshotBar, UnreadTables

    show = print_table if as_table else print_lines
    unread = UnreadTables(destination, client_id)
    printed = 0
    with (
        _quiet_interrupt(),
        log_options.logged(log_format, log_level),
        canal_group.connect(
            gateway if zookeeper is None else None,
            zookeeper=zookeeper,
            destination=destination,
            client_id=client_id,
            filter=filter,
            start=start_at,
            token=secret(token_env, "--token-env"),
            tls_ca=tls_ca,
            tls_cert=tls_cert,
            tls_key=tls_key,
            zookeeper_auth=secret(zookeeper_auth_env, "--zookeeper-auth-env"),
            zookeeper_ca=zookeeper_ca,
            zookeeper_cert=zookeeper_cert,
            zookeeper_key=zookeeper_key,
            wait_s=10.0 if timeout_s is None else timeout_s,
            shared_memory=shared_memory,
            keep=keep,
            look=not (ack or keep),
            snapshot=snapshot,  # type: ignore[arg-type]  # it is checked there
        ) as consumer,
        SnapshotBar(client_id, consumer.status, has_snapshot=snapshot in ("initial", "only")) as bar,
    ):
        unread.note_begun(snapshot, consumer.cursor)
        is_over = snapshot == "only" and not consumer.cursor.snapshots
        while not is_over and (not rows_max or printed < rows_max):
            try:
                left = rows_max - printed if rows_max else BATCH_ROWS
                batch = consumer.get_without_ack(min(left, BATCH_ROWS), timeout_s)
            except RolledBack as error:
                _log.warning("%s", error)
                is_over = snapshot == "only" and not consumer.ask_cursor().snapshots
                continue
            except NotSubscribed as error:
                if ack or keep:
                    raise
                raise NotSubscribed(
                    "The look has ended: its output was not read while a ring was full, or another server "
                    "was elected.",
                    hint="Look again; or take a client id of its own with --ack, or with --keep.",
                ) from error
            if batch is None:
                break
            rows = batch.envelope()
            if rows.num_rows > left and rows_max:
                # The batch is one transaction: batches hold whole transactions.
                whole = rows.num_rows
                rows = rows.slice(0, left)
                with bar.hidden():
                    show(rows)
                    unread.note_marks(rows)
                if ack:
                    note(f"Not acknowledged: a transaction of {whole} rows, printed in part.")
                break
            with bar.hidden():
                show(rows)
                unread.note_marks(rows)
            printed += rows.num_rows
            if ack:
                consumer.ack(batch.batch_id)
            is_over = snapshot == "only" and not batch.ack_position.snapshots
    unread.check()


@app.command()
def status(
    destination: Destination,
    gateway: Gateway = GATEWAY,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the whole state as one JSON object.")
    ] = False,
    wide: Annotated[
        bool, typer.Option("--wide", "-w", help="Print all columns, however long the lines become.")
    ] = False,
    token_env: TokenEnv = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    zookeeper: Zookeeper = None,
    zookeeper_auth_env: ZookeeperAuthEnv = None,
    zookeeper_ca: ZookeeperCa = None,
    zookeeper_cert: ZookeeperCert = None,
    zookeeper_key: ZookeeperKey = None,
) -> None:
    """Show shards, which of them holds the group, the active server, consumers and outstanding batches.

    The layout fits 80 columns; --wide adds sources, acknowledged positions and rings.
    """
    from canal_group.gateway.gateway_client import GatewayClient
    from canal_group.gateway.tls import Tls
    from canal_group.merge.calls.consumers import Status
    from canal_group.programs.command.status_page import print_status

    login = zookeeper_login(zookeeper_auth_env, zookeeper_ca, zookeeper_cert, zookeeper_key)
    with _gateways(gateway, destination, zookeeper, login) as where:
        token, tls = secret(token_env, "--token-env"), Tls(tls_ca, tls_cert, tls_key)
        gateway_client = GatewayClient(where, destination, token, tls)

        def show(state: dict[str, Any]) -> None:
            if as_json:
                echo(json.dumps(state))
            else:
                print_status(state, wide=wide)

        def shown(state: dict[str, Any]) -> dict[str, Any]:
            show(state)
            group: dict[str, Any] = state["group"]
            return group

        # Printed while it is read, so that an unexpected state is reported as an error of the gateway.
        group = gateway_client.ask_for(Status(), shown)
    if not (group.get("active") or group.get("active_server") or group.get("stopped")):
        raise typer.Exit(ExitCode.UNAVAILABLE)


@app.command()
def binlog(
    files: Annotated[
        list[Path], typer.Argument(help="Binlog or relay-log files, or their folder, in order.")
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a line for each change.")
    ] = False,
    lookup: Annotated[
        str | None, typer.Option(help="Server, user@host:port, to ask for column names that the files lack.")
    ] = None,
    password_env: Annotated[
        str | None, typer.Option("--password-env", help="Environment variable with that user's password.")
    ] = None,
    ssl_ca: Annotated[
        Path | None,
        typer.Option("--ssl-ca", help="Authorities that sign that server's certificate; requires TLS."),
    ] = None,
) -> None:
    """Print the content of binlog files: transactions, row changes, DDL statements, and counts."""
    from canal_group.malloc_tuning import tune_malloc
    from canal_group.programs.command.binlog.tool import server_at, show

    tune_malloc()
    password = secret(password_env, "--password-env")
    server = server_at(lookup, password or "", ssl_ca) if lookup is not None else None
    with _quiet_interrupt():
        show(files, echo, note=note, as_json=as_json, lookup=server)


@app.command()
def demo(
    files: Annotated[bool, typer.Option("--files", help="Read the recorded binlogs.")] = False,
    seed: Annotated[int, typer.Option(help="The same seed makes the consumer do the same.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Last line on stdout: the result as JSON.")] = False,
    stay: Annotated[
        bool, typer.Option("--stay", help="Keep the instance and its page until Ctrl-C.")
    ] = False,
    log_format: log_options.Format = LogFormat.TEXT,
    log_level: log_options.Level = LogLevel.WARNING,
) -> None:
    """Read the recorded binlogs of four database servers as one stream, show rows of it, and verify it.

    They ship with the package: it takes seconds and needs nothing installed.
    """
    if not files:
        raise UsageError(
            "The demo that starts database servers is not installed.",
            hint="Read recorded binlogs with --files, or run `make demo` in the project's repository.",
        )
    with quick_exit():
        from canal_group.programs.demo.run import run_recorded
        from canal_group.programs.demo.show.summary import RECORDED

    with log_options.logged(log_format, log_level):
        report = run_recorded(seed, log_level, RECORDED, as_json=as_json, stay=stay)
    if not report.ok:
        raise typer.Exit(ExitCode.FAILED)


@contextmanager
def _gateways(
    gateway: str, destination: str, zookeeper: str | None, login: ZooKeeperLogin
) -> Iterator[str | Callable[[], Sequence[str]]]:
    """Yield the gateways to call: the named one, or a function that asks ZooKeeper for the active one."""
    if zookeeper is None:
        yield gateway
        return
    from canal_group.gateway.discovery import Directory

    directory = Directory(zookeeper, destination, login=login)
    try:
        yield directory.gateways
    finally:
        directory.close()


@contextmanager
def _quiet_interrupt() -> Iterator[None]:
    """End a command on Ctrl-C, SIGTERM or a closed pipe without a traceback; what it holds is released."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(ExitCode.DONE))
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except BrokenPipeError:
        # Otherwise Python reports the closed pipe again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    main()
