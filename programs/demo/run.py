"""The demo: servers, an instance that reads them, writers, a consumer, and a proof of the stream."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from actors.driver.instance import Instance
from canal_group.client.client import connect
from merge.errors import CanalGroupError, ConfigError
from merge.values.well_known import CLIENT_ID
from programs.demo.database.server_process import DatabaseServer, ServerFailedError, ServerMissingError
from programs.demo.database.servers import make, start_all
from programs.demo.instance import (
    DESTINATION,
    page_of,
    running,
    settings_for,
    settings_for_files,
    shard_name,
)
from programs.demo.interrupts import Interrupts
from programs.demo.load.workload import Workload
from programs.demo.load.writer import Record, Writer, prepare
from programs.demo.measures import latency_ms, rows_per_s
from programs.demo.options import DemoOptions
from programs.demo.progress import Progress
from programs.demo.proof import Findings, prove
from programs.demo.reading import Reading
from programs.demo.recorded_shards import FOLDER, recorded_shards
from programs.demo.replica import read_tables
from programs.demo.report import DemoReport

#: time within which the instance must serve, seconds
_SERVING_S: Final = 90.0
#: time that a get waits, seconds
_GET_S: Final = 0.5
#: once everything has arrived, so long a silence means that nothing follows, seconds
_QUIET_S: Final = 1.0
#: while something is missing, so long a silence means that it will not come, seconds
_TIMEOUT_S: Final = 30.0


def run(options: DemoOptions) -> DemoReport:
    """Run a demo, show it on stderr, and print its report on stdout.

    Whatever ends it, also Ctrl-C and SIGTERM, ends the servers and actors too and removes their folders.

    Returns:
        The report; `report.ok` says whether the stream was right.

    Raises:
        ConfigError: a database server is not installed and cannot be had.
        CanalGroupError: the instance failed.
        KeyboardInterrupt: it was interrupted; everything is stopped.
    """
    try:
        with Interrupts() as interrupts, Progress() as progress, ExitStack() as stack:
            try:
                report, findings = _run(options, progress, interrupts, stack)
            finally:
                interrupts.ignore()
                progress.unwatch()
                progress.phase("stopping")
    except ServerMissingError as error:
        raise ConfigError(str(error)) from error
    except ServerFailedError as error:
        raise CanalGroupError(str(error)) from error
    _print(options, report, findings)
    return report


def _run(
    options: DemoOptions, progress: Progress, interrupts: Interrupts, stack: ExitStack
) -> tuple[DemoReport, Findings]:
    """Start everything, write, read and prove; `stack` stops what was started."""
    if options.files:
        return _run_recorded(options, progress, interrupts, stack)
    servers = make(options.engine, options.shards)
    progress.phase(f"starting {options.shards} servers: {', '.join(server.engine for server in servers)}")
    for server in servers:
        stack.callback(server.close)
    start_all(servers)
    writers = _writers(options, servers)

    progress.phase("starting ZooKeeper, Ray and the instance")
    with interrupts.deferred():  # A Ray that is interrupted while it starts crashes the process.
        instance = stack.enter_context(running(partial(settings_for, servers), options.log_level))
    reading = _reading(options, instance, stack)
    page = stack.enter_context(page_of(instance))
    progress.phase(f"writing and reading; the gateway is {instance.uri}, the page {page.url}")
    for writer in writers:
        stack.callback(writer.stop)
        writer.start()
    records = [writer.record for writer in writers]
    progress.watch(reading, records)
    _read(reading, records, writers)
    progress.unwatch()

    progress.phase("verifying the stream")
    findings = prove(reading.delivered, records, read_tables(servers, [record.shard for record in records]))
    gentle_until_us = min(writer.gentle_until_us for writer in writers)
    return _report(reading, findings, len(servers), gentle_until_us, gentle_until_us), findings


def _run_recorded(
    options: DemoOptions, progress: Progress, interrupts: Interrupts, stack: ExitStack
) -> tuple[DemoReport, Findings]:
    """Read and prove the recorded shards; there is nothing to write, and no latency to measure."""
    recorded = recorded_shards()
    progress.phase(f"starting Ray and the instance; it reads the files in {FOLDER}")
    with interrupts.deferred():
        instance = stack.enter_context(running(partial(settings_for_files, recorded), options.log_level))
    reading = _reading(options, instance, stack)
    progress.phase(f"reading; the gateway is {instance.uri}")
    records = [each.record for each in recorded]
    began_us = time.time_ns() // 1000
    progress.watch(reading, records)
    _read(reading, records, ())
    progress.unwatch()

    progress.phase("verifying the stream")
    rows = {name: row for each in recorded for name, row in each.rows.items()}
    findings = prove(reading.delivered, records, rows)
    return _report(reading, findings, len(recorded), began_us, 0), findings


def _reading(options: DemoOptions, instance: Instance, stack: ExitStack) -> Reading:
    """Connect to an instance."""
    consumer = connect(instance.uri, destination=DESTINATION, client_id=CLIENT_ID, wait_s=_SERVING_S)
    return Reading(stack.enter_context(consumer), options.seed)


def _writers(options: DemoOptions, servers: Sequence[DatabaseServer]) -> list[Writer]:
    """Prepare the shards and return their writers; the first one has the large transaction."""
    with ThreadPoolExecutor(len(servers)) as pool:
        names = [shard_name(shard) for shard in range(len(servers))]
        records = list(pool.map(prepare, servers, range(len(servers)), names))
    writers = []
    for shard, (server, record) in enumerate(zip(servers, records, strict=True)):
        share = options.transactions // options.shards + (shard < options.transactions % options.shards)
        workload = Workload(
            shard=shard,
            shards=options.shards,
            seed=options.seed,
            transactions=share,
            gentle=min(int(options.gentle_s * options.gentle_rate), share // 2),
            big_rows=options.big_transaction_rows if shard == 0 else 0,
        )
        writers.append(
            Writer(
                server,
                shard,
                workload,
                record,
                gentle_rate=options.gentle_rate,
                seconds=options.seconds,
            )
        )
    return writers


def _read(reading: Reading, records: Sequence[Record], writers: Sequence[Writer]) -> None:
    """Read until everything that was written is there, or nothing comes any more."""
    quiet_since_s = time.monotonic()
    while True:
        if reading.step(_GET_S):
            quiet_since_s = time.monotonic()
        for writer in writers:
            if writer.error is not None:
                raise CanalGroupError(f"{writer.name} failed: {writer.error}") from writer.error
        if not all(writer.done for writer in writers):
            continue
        quiet_s = time.monotonic() - quiet_since_s
        written = sum(record.rows for record in records)
        if quiet_s > _TIMEOUT_S or (quiet_s > _QUIET_S and reading.delivered.distinct() >= written):
            return


def _report(
    reading: Reading, findings: Findings, shards: int, rush_from_us: int, gentle_until_us: int
) -> DemoReport:
    stream = reading.delivered.table()
    p50, p99 = latency_ms(stream, gentle_until_us)
    return DemoReport(
        shards=shards,
        transactions=findings.transactions,
        rows=findings.rows,
        rows_per_s=rows_per_s(stream, rush_from_us),
        latency_ms_p50=p50,
        latency_ms_p99=p99,
        order_violations=findings.order_violations,
        split_transactions=findings.split_transactions,
        missing=findings.missing,
        duplicates=findings.duplicates,
        tables_equal=findings.tables_equal,
    )


def _print(options: DemoOptions, report: DemoReport, findings: Findings) -> None:
    """Print faults in words on stderr, and the report on stdout: a table, or one JSON object as last line."""
    for words in findings.words:
        Console(stderr=True, highlight=False).print(f"[red]wrong[/red]  {escape(words)}", soft_wrap=True)
    if options.json:
        sys.stdout.write(json.dumps(report.to_dict()) + "\n")
        sys.stdout.flush()
        return
    table = Table(show_header=False, box=None)
    for name, value in report.to_dict().items():
        table.add_row(name, str(value) if value is None or isinstance(value, bool) else f"{value:,}")
    out = Console(highlight=False)
    out.print(table)
    out.print("[green]The stream is right.[/green]" if report.ok else "[red]The stream is wrong.[/red]")
