"""The demo of servers: they, an instance that reads them, writers, a consumer, and a proof of the stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Final

from canal_group.merge.errors import CanalGroupError, ConfigError
from canal_group.programs.demo.instance import running, shard_name
from canal_group.programs.demo.interrupts import Interrupts
from canal_group.programs.demo.page import page_of
from canal_group.programs.demo.proof import prove
from canal_group.programs.demo.report import DemoReport
from canal_group.programs.demo.run import read, reading_of, report_of, run, state_of
from canal_group.programs.demo.show.progress import Progress
from canal_group.programs.demo.show.summary import NextSteps, Outcome
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
    writers = _writers(options, servers)

    progress.phase(
        f"starting {'ZooKeeper, ' if options.zookeeper else ''}Ray and an instance that reads them"
    )
    with interrupts.deferred():  # A Ray that is interrupted while it starts crashes the process.
        instance = stack.enter_context(
            running(partial(settings_for, servers, zookeeper=options.zookeeper), options.log_level)
        )
    reading = reading_of(instance, options.seed, progress.rows, stack)
    page = stack.enter_context(page_of(instance))
    progress.phase(f"writing and reading; the page is {page.url}")
    progress.phase("these are some of the rows, in the order of the stream")
    for writer in writers:
        stack.callback(writer.stop)
        writer.start()
    records = [writer.record for writer in writers]
    progress.watch(partial(state_of, reading, records))
    read(reading, records, partial(_writing, writers))
    progress.unwatch()

    progress.phase("verifying the stream")
    findings = prove(reading.delivered, records, read_tables(servers, [record.shard for record in records]))
    gentle_until_us = min(writer.gentle_until_us for writer in writers)
    report = report_of(reading, findings, len(servers), gentle_until_us, gentle_until_us)
    return Outcome(report, findings, reading.rows, reading.rollbacks, page.url, instance.uri)


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


def _writing(writers: Sequence[Writer]) -> bool:
    """Return whether any still writes.

    Raises:
        CanalGroupError: one failed.
    """
    for writer in writers:
        if writer.error is not None:
            raise CanalGroupError(f"{writer.name} failed: {writer.error}") from writer.error
    return not all(writer.done for writer in writers)
