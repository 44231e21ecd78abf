"""The demo of servers: they, an instance that reads them, writers, a consumer, and a proof of the stream."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Final

from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.calls.consumers import Status
from canal_group.merge.errors import CanalGroupError, ConfigError, RetryableError
from canal_group.programs.demo.instance import DESTINATION, running, shard_name
from canal_group.programs.demo.interrupts import Interrupts
from canal_group.programs.demo.proof import prove
from canal_group.programs.demo.reading import Reading
from canal_group.programs.demo.replica import Replica
from canal_group.programs.demo.report import DemoReport
from canal_group.programs.demo.run import page_of, read, reading_of, report_of, run, state_of
from canal_group.programs.demo.show.progress import Progress
from canal_group.programs.demo.show.summary import NextSteps, Outcome
from canal_group.programs.demo.written import Record
from playground.database.engine import Engine
from playground.database.mysql import is_fetched
from playground.database.server_process import DatabaseServer, ServerFailedError, ServerMissingError
from playground.database.servers import make, start_all
from playground.instance import settings_for
from playground.load.held import read_tables
from playground.load.workload import Workload
from playground.load.writer import Writer, prepare
from playground.options import DemoOptions

_PROGRAM: Final = ".venv/bin/canal-group"
SERVERS: Final = NextSteps(
    program=_PROGRAM,
    staying="make demo ARGS=--stay",
    others=(
        ('make demo ARGS="--engine mixed"', "MariaDB and MySQL together"),
        ("make demo ARGS=--snapshot", "with tables that are full before"),
        (f"{_PROGRAM} --help", "the commands; README.md: your own servers"),
    ),
)
#: after the demo of recorded binlogs
RECORDED: Final = NextSteps(
    program=_PROGRAM,
    staying='make demo ARGS="--files --stay"',
    others=(("make demo", "four real servers that are written to"),),
)


def run_servers(options: DemoOptions) -> DemoReport:
    """Run a demo of servers; as `canal_group.programs.demo.run.run`.

    Raises:
        ConfigError: a database server is not installed and cannot be had.
        CanalGroupError: a server or the instance failed.
    """
    try:
        return run(partial(_servers, options), SERVERS, as_json=options.json, stay=options.stay)
    except ServerMissingError as error:
        raise ConfigError(str(error)) from error
    except ServerFailedError as error:
        raise CanalGroupError(str(error)) from error


def _servers(options: DemoOptions, progress: Progress, interrupts: Interrupts, stack: ExitStack) -> Outcome:
    """Start everything, write, read and prove; `stack` stops what was started."""
    servers = make(options.engine, options.shards)
    if options.engine is not Engine.MARIADB and not is_fetched():
        progress.phase("fetching MySQL's server, 180 MB, once; it is kept in .cache/mysql")
    makes = Counter(server.engine for server in servers)
    progress.phase(f"starting {' and '.join(f'{number} {make}' for make, number in makes.items())} servers")
    for server in servers:
        stack.callback(server.close)
    start_all(servers)
    snapshot = options.snapshot_rows > 0
    if snapshot:
        progress.phase(f"filling their tables with {options.snapshot_rows:,} rows each")
    writers = _writers(options, servers)

    progress.phase(
        f"starting {'ZooKeeper, ' if options.zookeeper else ''}Ray and an instance that reads them"
    )
    with interrupts.deferred():  # A Ray that is interrupted while it starts crashes the process.
        instance = stack.enter_context(
            running(
                partial(settings_for, servers, zookeeper=options.zookeeper, snapshot=snapshot),
                options.log_level,
            )
        )
    reading = reading_of(instance, options.seed, progress.rows, stack, snapshot=snapshot)
    page = stack.enter_context(page_of(instance))
    progress.phase(f"writing and reading; the page is {page.url}")
    progress.phase("these are some of the rows, in the order of the stream")
    for writer in writers:
        stack.callback(writer.stop)
        writer.start()
    records = [writer.record for writer in writers]
    gateway = stack.enter_context(contextlib.closing(GatewayClient(instance.uri, DESTINATION)))
    progress.watch(partial(_state, gateway, reading, records))
    read(reading, records, partial(_writing, writers))
    progress.unwatch()

    progress.phase("verifying the stream")
    held = read_tables(servers, [record.shard for record in records])
    findings = prove(
        reading.delivered, records, held, Replica(record.shard for record in records) if snapshot else None
    )
    gentle_until_us = min(writer.gentle_until_us for writer in writers)
    report = report_of(reading, findings, len(servers), gentle_until_us, gentle_until_us)
    return Outcome(report, findings, reading.rollbacks, page.url, instance.uri)


def _writers(options: DemoOptions, servers: Sequence[DatabaseServer]) -> list[Writer]:
    """Prepare the shards and return their writers; the first one has the large transaction."""
    workloads = []
    for shard in range(len(servers)):
        share = options.transactions // options.shards + (shard < options.transactions % options.shards)
        workload = Workload(
            shard=shard,
            shards=options.shards,
            seed=options.seed,
            transactions=share,
            gentle=min(int(options.gentle_s * options.gentle_rate), share // 2),
            big_rows=options.big_transaction_rows if shard == 0 else 0,
        )
        workloads.append(workload)
    shards, rows = range(len(servers)), options.snapshot_rows
    fills = [workload.fill(rows) if rows else None for workload in workloads]
    with ThreadPoolExecutor(len(servers)) as pool:
        records = list(pool.map(prepare, servers, shards, map(shard_name, shards), fills))
    pace = {"gentle_rate": options.gentle_rate, "seconds": options.seconds}
    return [
        Writer(server, shard, workload, record, **pace)
        for shard, (server, workload, record) in enumerate(zip(servers, workloads, records, strict=True))
    ]


def _state(gateway: GatewayClient, reading: Reading, records: Sequence[Record]) -> str:
    """Return in words how far the consumer's snapshot is; after it, how far it is with what was written."""
    snapshot = None
    if not reading.complete:
        with contextlib.suppress(RetryableError):
            clients = gateway.ask(Status())["group"].get("clients", ())
            snapshot = next((each["snapshot"] for each in clients), None)
    if snapshot is None:
        return state_of(reading, records)
    tables, estimate = snapshot["tables"] or 0, snapshot["rows_estimated"] or 0
    return (
        f"read: {snapshot['done']} of {tables} tables, {snapshot['rows']:,} of ~{estimate:,} rows; "
        f"{reading.delivered.arrived():,} changes have come"
    )


def _writing(writers: Sequence[Writer]) -> bool:
    """Return whether any still writes.

    Raises:
        CanalGroupError: one failed.
    """
    for writer in writers:
        if writer.error is not None:
            raise CanalGroupError(f"{writer.name} failed: {writer.error}") from writer.error
    return not all(writer.done for writer in writers)
