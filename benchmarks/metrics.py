"""Metrics: what counting and scraping cost an instance, as a part of what its rows take.

`counting`: what a shard counts, over the chunks of a binlog in memory: processor time of `ShardCounters`, as
a part of that of parsing the same chunks. It cannot be turned off.

`bulk`, `small`: one instance drains four servers' backlog to a consumer that acknowledges, as in `group`, in
windows of equally many rows. In every other window it has the HTTP service, which samples it, and
is scraped far more often than by a real Prometheus. A window is short, so these tell a large cost only.

`scraping`: of an instance that does nothing else, the processor time of all processes in seconds with the
service and its scrapes, less that of seconds without, for each scrape. `part` is what scrapes at Prometheus's
default interval and the samples between them take of all processors. `parts` adds it to what counting takes
of a row: what metrics cost an instance that reads as fast as it can.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from benchmarks._events import events_of
from benchmarks._load import BULK_ROWS, NAME, SHARDS, Backlog, cpus, fill, paused, servers
from benchmarks._pipeline import OUTSTANDING, WAIT_S, await_followed, consumer, instance, processes
from benchmarks.parse import packets_of, run_ours
from canal_group.actors.driver.instance import Instance
from canal_group.actors.http.served import SAMPLE_EVERY_S
from canal_group.actors.http.service import HttpService, HttpSettings
from canal_group.actors.shard.shard_counters import ShardCounters
from canal_group.binlog.columns.read_counts import ReadCounts
from canal_group.client.batch import Batch
from canal_group.client.consumer import Consumer
from canal_group.merge.values.chunk import Chunk
from playground.database.server_process import DatabaseServer

#: rows of the backlog, over all servers, and transactions of one row
_BULK, _SMALL = 8_000_000, 400_000
#: pairs of windows, one of each with scrapes
_PAIRS = 4
#: rows of a batch; as of `Consumer.prefetch`
_BATCH_ROWS = 131_072
#: pause between two scrapes here, seconds: each asks all actors anew; and Prometheus's default
SCRAPE_EVERY_S = 0.6
_USUAL_EVERY_S = 15.0
#: seconds that scraping is measured for, with and without
_IDLE_S = 10.0
#: seconds in which an instance comes to rest
_SETTLE_S = 5.0
#: rows in memory, and rows of an event and of a transaction there
_COUNTED = {"bulk": (400_000, 100, 400_000), "small": (200_000, 1, 1)}
_ROUNDS = 5


def measure(size: float) -> dict[str, Any]:
    """Return the parts, for large and for small transactions."""
    result: dict[str, Any] = {
        "counting": {name: counting(name, size) for name in _COUNTED},
        "scrape_every_s": SCRAPE_EVERY_S,
    }
    with servers() as made:
        bulk = fill(made, "bulk", max(1, int(_BULK * size) // SHARDS // BULK_ROWS))
        result["bulk"] = _compared(made, bulk)
        result["small"] = _compared(made, fill(made, "small", max(1, int(_SMALL * size) // SHARDS)))
        result["scraping"] = scraping = _scraped(made)
    result["parts"] = {
        name: round(
            result["counting"][name]["ns_per_row"] / 1e3 / result[name]["cpu_us_per_row"] + scraping["part"],
            5,
        )
        for name in _COUNTED
    }
    return {**result, "cpus": cpus()}


# ---- counting --------------------------------------------------------------------------------------------


def counting(name: str, size: float) -> dict[str, float]:
    """Return the costs of counting chunks, also as a part of the costs of parsing them: medians of rounds."""
    rows, an_event, a_transaction = _COUNTED[name]
    rows = max(an_event, int(rows * size)) // an_event * an_event
    packets = packets_of(events_of(rows, an_event, min(a_transaction, rows)))
    chunks: list[Chunk] = []

    def kept(chunk: Chunk) -> Chunk:
        chunks.append(chunk)
        return chunk

    run_ours(packets, process=kept)
    parsing, counted = [], []
    for _ in range(_ROUNDS):
        parsing.append(_thread_s(lambda: run_ours(packets)))
        counters = ShardCounters()

        def count(counters: ShardCounters = counters) -> None:
            for chunk in chunks:
                counters.stored(chunk, 0)

        counted.append(_thread_s(count))
        assert sum(counters.describe(ReadCounts())["rows"].values()) == rows, "all were counted"
    return {
        "ns_per_row": round(statistics.median(counted) / rows * 1e9, 2),
        "part_of_parsing": round(statistics.median(counted) / statistics.median(parsing), 5),
    }


def _thread_s(run: Callable[[], object]) -> float:
    since_s = time.thread_time()
    run()
    return time.thread_time() - since_s


# ---- scraping --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Window:
    """What a part of the backlog took."""

    rows: int
    took_s: float
    #: of all processes
    cpu_s: float

    @property
    def rows_per_s(self) -> float:
        """The speed."""
        return self.rows / self.took_s

    @property
    def cpu_us_per_row(self) -> float:
        """What a row took."""
        return self.cpu_s / self.rows * 1e6


def _compared(made: Sequence[DatabaseServer], backlog: Backlog) -> dict[str, Any]:
    """Drain a backlog in windows with and without scrapes; which comes first changes from pair to pair."""
    pairs, scrapes = [], 0
    with ExitStack() as stack:
        pause = stack.enter_context(ExitStack())
        pause.enter_context(paused(made))
        running = stack.enter_context(instance(made))
        await_followed(running)
        pause.close()
        reader = stack.enter_context(consumer(running))
        pids = tuple(processes(reader).values())
        # The start of everything is in nobody's window, and a window may be longer by most of a batch.
        part = backlog.rows // (2 * _PAIRS + 3)
        rows = reader.prefetch(
            lambda batch: batch.table(NAME),
            batch_size=max(1, min(_BATCH_ROWS, part // 16)),
            depth=OUTSTANDING,
            timeout=WAIT_S,
        )
        _window(reader, rows, part, pids)
        for number in range(_PAIRS):
            windows: dict[bool, _Window] = {}
            for scraped in (False, True) if number % 2 == 0 else (True, False):
                # Both kinds wait for a service to be made meanwhile, so that the rings are equally full.
                with _scraping(running) as scraper:
                    if scraped:
                        windows[scraped] = _window(reader, rows, part, pids)
                        scrapes += scraper.scrapes
                if not scraped:
                    windows[scraped] = _window(reader, rows, part, pids)
            pairs.append((windows[False], windows[True]))
    cpu = [with_them.cpu_us_per_row / without.cpu_us_per_row - 1 for without, with_them in pairs]
    speed = [1 - with_them.rows_per_s / without.rows_per_s for without, with_them in pairs]
    took = [
        sum(each.cpu_s for each in kind) / sum(each.rows for each in kind)
        for kind in zip(*pairs, strict=True)
    ]
    return {
        "rows": backlog.rows,
        "rows_per_s": round(statistics.median(without.rows_per_s for without, _ in pairs)),
        "rows_per_s_scraped": round(statistics.median(each.rows_per_s for _, each in pairs)),
        "cpu_us_per_row": round(statistics.median(each.cpu_us_per_row for each, _ in pairs), 3),
        "scrapes": scrapes,
        "scrapes_took_s": round(sum(each.took_s for _, each in pairs), 1),
        "cpu_part": round(took[1] / took[0] - 1, 4),
        "cpu_parts": [round(each, 4) for each in cpu],
        "rows_per_s_part": round(statistics.median(speed), 4),
        "rows_per_s_parts": [round(each, 4) for each in speed],
    }


def _window(
    reader: Consumer, rows: Iterator[tuple[Batch, pa.Table]], count: int, pids: Sequence[int]
) -> _Window:
    """Read on until a number of rows have come, and acknowledge them."""
    taken, before_s, since_s = 0, sum(map(_cpu_s, pids)), time.monotonic()
    for batch, table in rows:
        reader.ack(batch.batch_id)
        taken += table.num_rows
        if taken >= count:
            return _Window(taken, time.monotonic() - since_s, sum(map(_cpu_s, pids)) - before_s)
    raise RuntimeError(f"{taken} of {count} rows came, then none for {WAIT_S:g} s")


def _cpu_s(pid: int) -> float:
    """Return the processor time of a process's threads until now, seconds: finer than the kernel's ticks."""
    spent_ns = 0
    for each in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            spent_ns += int(each.read_text().split()[0])
    return spent_ns / 1e9


def _scraped(made: Sequence[DatabaseServer]) -> dict[str, float]:
    """Measure an instance that does nothing else: a part of the time with scrapes, and a part without."""
    spent, scrapes = {False: 0.0, True: 0.0}, 0
    with instance(made) as running, consumer(running) as reader:
        pids = tuple(processes(reader).values())
        threading.Event().wait(_SETTLE_S)
        for scraped in (False, True, True, False):
            with _scraping(running) if scraped else contextlib.nullcontext() as scraper:
                before_s = sum(map(_cpu_s, pids))
                threading.Event().wait(_IDLE_S / 2)
                spent[scraped] += sum(map(_cpu_s, pids)) - before_s
                scrapes += 0 if scraper is None else scraper.scrapes
    a_scrape_s = (spent[True] - spent[False]) / scrapes
    part = a_scrape_s * (1 / _USUAL_EVERY_S + 1 / SAMPLE_EVERY_S) / cpus()
    return {"scrapes": scrapes, "cpu_ms_per_scrape": round(a_scrape_s * 1e3, 2), "part": round(part, 5)}


class _Scraper(threading.Thread):
    """Scrapes a service again and again, as a Prometheus does."""

    def __init__(self, url: str) -> None:
        super().__init__(name="scraper", daemon=True)
        self.scrapes = 0
        self.done = threading.Event()
        self._url = url

    def run(self) -> None:
        """Scrape until it is done."""
        while not self.done.wait(SCRAPE_EVERY_S):
            with urllib.request.urlopen(f"{self._url}/metrics", timeout=10) as answer:
                assert b"canal_group_shard_rows_total" in answer.read()
            self.scrapes += 1


@contextmanager
def _scraping(running: Instance) -> Iterator[_Scraper]:
    """Run the HTTP service of an instance, and a scraper of it."""
    with tempfile.TemporaryDirectory(prefix="cg-bench-") as folder:
        settings = HttpSettings(port=0, audit_log=Path(folder, "audit.jsonl"))
        server = SimpleNamespace(instances={Path(folder, "bench.yaml"): running})
        with HttpService(server, settings) as service:
            scraper = _Scraper(service.url)
            scraper.start()
            try:
                yield scraper
            finally:
                scraper.done.set()
                scraper.join()
