"""The run of a demo: an instance, a consumer, and a proof of the stream; here of recorded shards."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final, TypeAlias

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from canal_group.actors.driver.instance import Instance
from canal_group.actors.process.log import LogLevel
from canal_group.client.client import connect
from canal_group.merge.well_known import CLIENT_ID
from canal_group.programs.demo.instance import DESTINATION, running, settings_for_files
from canal_group.programs.demo.interrupts import Interrupts
from canal_group.programs.demo.measures import latency_ms, rows_per_s
from canal_group.programs.demo.progress import Progress
from canal_group.programs.demo.proof import Findings, prove
from canal_group.programs.demo.reading import Reading
from canal_group.programs.demo.recorded_shards import FOLDER, recorded_shards
from canal_group.programs.demo.report import DemoReport
from canal_group.programs.demo.written import Record

#: time within which the instance must serve, seconds
_SERVING_S: Final = 90.0
#: time that a get waits, seconds
_GET_S: Final = 0.5
#: silence after everything has arrived that means that nothing follows, seconds
_QUIET_S: Final = 1.0
#: silence while something is missing that means that it will not come, seconds
_TIMEOUT_S: Final = 30.0

#: starts everything, reads, and proves; the stack stops what was started
Demo: TypeAlias = Callable[[Progress, Interrupts, ExitStack], tuple[DemoReport, Findings]]


def run(demo: Demo, *, as_json: bool) -> DemoReport:
    """Run a demo, show it on stderr, and print its report on stdout.

    Whatever ends it, also Ctrl-C and SIGTERM, ends what it started too and removes its folders.

    Args:
        demo: what is run.
        as_json: whether the report is one JSON object, as the last line.

    Returns:
        The report; `report.ok` says whether the stream was right.

    Raises:
        CanalGroupError: the instance failed.
        KeyboardInterrupt: it was interrupted; everything is stopped.
    """
    with Interrupts() as interrupts, Progress() as progress, ExitStack() as stack:
        try:
            report, findings = demo(progress, interrupts, stack)
        finally:
            interrupts.ignore()
            progress.unwatch()
            progress.phase("stopping")
    _print(report, findings, as_json)
    return report


def run_recorded(seed: int, log_level: LogLevel, *, as_json: bool) -> DemoReport:
    """Run the demo of recorded shards, which starts no server; as `run`.

    Args:
        seed: of what the consumer does.
        log_level: the least severe level that its actors log.
        as_json: as `run`.
    """
    return run(partial(_recorded, seed, log_level), as_json=as_json)


def _recorded(
    seed: int, log_level: LogLevel, progress: Progress, interrupts: Interrupts, stack: ExitStack
) -> tuple[DemoReport, Findings]:
    """Read and prove the recorded shards; there is nothing to write, and no latency to measure."""
    recorded = recorded_shards()
    progress.phase(f"starting Ray and the instance; it reads the files in {FOLDER}")
    with interrupts.deferred():
        instance = stack.enter_context(running(partial(settings_for_files, recorded), log_level))
    reading = reading_of(instance, seed, stack)
    progress.phase(f"reading; the gateway is {instance.uri}")
    records = [each.record for each in recorded]
    began_us = time.time_ns() // 1000
    progress.watch(reading, records)
    read(reading, records, lambda: False)
    progress.unwatch()

    progress.phase("verifying the stream")
    rows = {name: row for each in recorded for name, row in each.rows.items()}
    findings = prove(reading.delivered, records, rows)
    return report_of(reading, findings, len(recorded), began_us, 0), findings


def reading_of(instance: Instance, seed: int, stack: ExitStack) -> Reading:
    """Connect to an instance."""
    consumer = connect(instance.uri, destination=DESTINATION, client_id=CLIENT_ID, wait_s=_SERVING_S)
    return Reading(stack.enter_context(consumer), seed)


def read(reading: Reading, records: Sequence[Record], writing: Callable[[], bool]) -> None:
    """Read until everything that was written is there, or nothing comes any more.

    Args:
        reading: the consumer.
        records: what was committed, which grows while somebody writes.
        writing: returns whether somebody still writes.
    """
    quiet_since_s = time.monotonic()
    while True:
        if reading.step(_GET_S):
            quiet_since_s = time.monotonic()
        if writing():
            continue
        quiet_s = time.monotonic() - quiet_since_s
        written = sum(record.rows for record in records)
        if quiet_s > _TIMEOUT_S or (quiet_s > _QUIET_S and reading.delivered.distinct() >= written):
            return


def report_of(
    reading: Reading, findings: Findings, shards: int, rush_from_us: int, gentle_until_us: int
) -> DemoReport:
    """Return the report of a demo.

    Args:
        reading: what was read.
        findings: what was wrong with it.
        shards: how many there were.
        rush_from_us: when the writers went as fast as they could, microseconds since 1970 UTC.
        gentle_until_us: when their slow beginning ended; 0: there was none, and there is no latency.
    """
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


def _print(report: DemoReport, findings: Findings, as_json: bool) -> None:
    """Print faults in words on stderr, and the report on stdout: a table, or one JSON object as last line."""
    for words in findings.words:
        Console(stderr=True, highlight=False).print(f"[red]wrong[/red]  {escape(words)}", soft_wrap=True)
    if as_json:
        sys.stdout.write(json.dumps(report.to_dict()) + "\n")
        sys.stdout.flush()
        return
    table = Table(show_header=False, box=None)
    for name, value in report.to_dict().items():
        table.add_row(name, str(value) if value is None or isinstance(value, bool) else f"{value:,}")
    out = Console(highlight=False)
    out.print(table)
    out.print("[green]The stream is right.[/green]" if report.ok else "[red]The stream is wrong.[/red]")
