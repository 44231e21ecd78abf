"""The run of a demo: an instance, a consumer, and a proof of the stream; here of recorded shards."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from canal_group.actors.driver.instance import Instance
from canal_group.actors.http.service import HttpService, HttpSettings
from canal_group.actors.process.log import LogLevel
from canal_group.client.client import connect
from canal_group.merge.printable import escaped
from canal_group.merge.well_known import CLIENT_ID
from canal_group.programs.demo.instance import DESTINATION, running, settings_for_files
from canal_group.programs.demo.interrupts import Interrupts
from canal_group.programs.demo.measures import latency_ms, rows_per_s
from canal_group.programs.demo.proof import Findings, prove
from canal_group.programs.demo.reading import Reading
from canal_group.programs.demo.recorded_shards import recorded_shards
from canal_group.programs.demo.report import DemoReport
from canal_group.programs.demo.show.progress import Progress
from canal_group.programs.demo.show.summary import NextSteps, Outcome, summary, what_next
from canal_group.programs.demo.written import Record


@dataclass(frozen=True, slots=True)
class _Demo:
    """The one instance of a demo, as the HTTP service wants it."""

    instances: Mapping[Path, Instance]


@contextmanager
def page_of(instance: Instance) -> Iterator[HttpService]:
    """Serve the page of a demo's instance, on a free port: a server may have the usual one."""
    with tempfile.TemporaryDirectory(prefix="cg-page-") as folder:
        settings = HttpSettings(port=0, audit_log=Path(folder) / "audit.jsonl")
        with HttpService(_Demo({Path(folder) / f"{DESTINATION}.yaml": instance}), settings) as service:
            yield service


#: time within which the instance must serve, seconds
_SERVING_S: Final = 90.0
#: time that a get waits, seconds
_GET_S: Final = 0.5
#: silence after everything has arrived that means that nothing follows, seconds
_QUIET_S: Final = 1.0
#: silence while something is missing that means that it will not come, seconds
_TIMEOUT_S: Final = 30.0

#: starts everything, reads, and proves; the stack stops what was started
Demo: TypeAlias = Callable[[Progress, Interrupts, ExitStack], Outcome]


def run(demo: Demo, steps: NextSteps, *, as_json: bool, stay: bool) -> DemoReport:
    """Run a demo, show it, and print what it came to.

    Whatever ends it, also Ctrl-C and SIGTERM, ends what it started too and removes its folders.

    Args:
        demo: what is run.
        steps: what to try next.
        as_json: whether the report is one JSON object, as the last line of stdout; the rest is on stderr.
        stay: whether it goes on serving until a signal.

    Returns:
        The report; `report.ok` says whether the stream was right.

    Raises:
        CanalGroupError: the instance failed.
        KeyboardInterrupt: it was interrupted before its end; everything is stopped.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal's encoding may lack a character of a row.
        sys.stdout.reconfigure(errors="backslashreplace")
    with Interrupts() as interrupts, Progress(as_json=as_json) as progress, ExitStack() as stack:
        try:
            outcome = demo(progress, interrupts, stack)
            _print(outcome, as_json=as_json)
            if not as_json:
                _print_lines(what_next(outcome, steps, stay=stay))
            if stay:
                with contextlib.suppress(KeyboardInterrupt):
                    threading.Event().wait()
        finally:
            interrupts.ignore()
            progress.unwatch()
    return outcome.report


def run_recorded(
    seed: int, log_level: LogLevel, steps: NextSteps, *, as_json: bool, stay: bool
) -> DemoReport:
    """Run the demo of recorded shards, which starts no server; as `run`.

    Args:
        seed: of what the consumer does.
        log_level: the least severe level that its actors log.
        steps: as `run`.
        as_json: as `run`.
        stay: as `run`.
    """
    return run(partial(_recorded, seed, log_level), steps, as_json=as_json, stay=stay)


def _recorded(
    seed: int, log_level: LogLevel, progress: Progress, interrupts: Interrupts, stack: ExitStack
) -> Outcome:
    """Read and prove the recorded shards; there is nothing to write, and no latency to measure."""
    recorded = recorded_shards()
    progress.phase(f"starting Ray and an instance that reads the binlogs of {len(recorded)} servers")
    with interrupts.deferred():
        instance = stack.enter_context(running(partial(settings_for_files, recorded), log_level))
    reading = reading_of(instance, seed, progress.rows, stack)
    page = stack.enter_context(page_of(instance))
    progress.phase("reading; these are some of the rows, in the order of the stream")
    records = [each.record for each in recorded]
    began_us = time.time_ns() // 1000
    progress.watch(partial(state_of, reading, records))
    read(reading, records, lambda: False)
    progress.unwatch()

    progress.phase("verifying the stream")
    rows = {name: row for each in recorded for name, row in each.rows.items()}
    findings = prove(reading.delivered, records, rows)
    report = report_of(reading, findings, len(recorded), began_us, 0)
    return Outcome(report, findings, reading.rollbacks, page.url, instance.uri)


def reading_of(
    instance: Instance,
    seed: int,
    show: Callable[[pa.Table], None],
    stack: ExitStack,
    *,
    snapshot: bool = False,
) -> Reading:
    """Connect to an instance; `snapshot`: to get the rows that there are, too."""
    consumer = connect(
        instance.uri,
        destination=DESTINATION,
        client_id=CLIENT_ID,
        wait_s=_SERVING_S,
        snapshot="initial" if snapshot else "never",
    )
    return Reading(stack.enter_context(consumer), seed, show, complete=not snapshot)


def state_of(reading: Reading, records: Sequence[Record]) -> str:
    """Return in words how far a consumer is with what was written."""
    written = sum(record.rows for record in records)
    return f"{min(reading.delivered.arrived(), written):,} of {written:,} written rows have arrived"


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
        if quiet_s > _TIMEOUT_S:
            return
        if quiet_s > _QUIET_S and reading.complete and reading.delivered.distinct() >= written:
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
        snapshot_rows=findings.snapshot_rows,
    )


def _print(outcome: Outcome, *, as_json: bool) -> None:
    """Print faults on stderr, and the result on stdout: in words, or as one JSON object, the last line."""
    for words in outcome.findings.words:
        Console(stderr=True, highlight=False).print(
            Text.assemble(("wrong", "red"), f"  {escaped(words)}"), soft_wrap=True
        )
    if as_json:
        sys.stdout.write(json.dumps(outcome.report.to_dict()) + "\n")
        sys.stdout.flush()
        return
    _print_lines(summary(outcome))


def _print_lines(lines: Iterable[str]) -> None:
    out = Console(highlight=False)
    out.print()
    for line in lines:
        out.print(Text(line), soft_wrap=True)
