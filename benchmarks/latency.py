"""Latency: from a commit to the consumer that has its row, at a steady rate, and what disturbs it.

Four shards take one-row transactions, each at its own even pace, from another process, which sends a few of
them at a time if they are many. One consumer reads typed rows and acknowledges. Beside them a plain reader
dumps the first shard and notes when the packets of each transaction have arrived. All use one clock: latency
is the time when a row arrives at the consumer, less the time when its commit was answered. The parts that can
be measured, in order:

- `commit`: the statement's way to the server and back (not part of the latency);
- `merge`: from the answered commit to the answer of the get whose batch has it: binlog, parsing, ring, poll,
  and the wait until no shard can still precede it;
- `rows`: from that answer to the rows, fetched from the shards and put in order;
- `ack`: until the acknowledgement of its batch is answered (not part of the latency).

A packet may arrive before its commit is answered, so what is compared with the plain reader counts from when
the commit was sent, for both.

Three cases follow each other on the same instance: `alone`; `bulk`, in which the last shard has transactions
of a hundred rows instead, one after the other, as fast as it commits, and the figures are those of the other
shards; and `busy`, in which two processes that only count take what they can of the processors.

It uses MySQL, which stamps commits in microseconds; if MySQL is not available, MariaDB, which stamps whole
seconds.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._load import NAME, SHARDS, cpu_s, cpus, fill, servers
from benchmarks._pipeline import consumer, instance, paced, processes
from benchmarks._plain_reader import PlainReader
from benchmarks._profile import Sampler, Samples
from benchmarks._writers import Writers
from canal_group.client.consumer import Consumer
from playground.database.engine import Engine
from playground.database.server_process import DatabaseServer, ServerMissingError

#: one-row transactions a second, on all shards together
RATE = 1_000
#: of each case, after its first seconds
_SECONDS = 20.0
#: with a profile: for which part of that each process is sampled
_SAMPLED_PART = 0.25
#: commits of the first seconds are not counted: every code path runs for the first time
_WARM_UP_S = 2.0
_SILENCE_S = 30.0
#: rows of a batch at most, as `Consumer.prefetch` asks for them
_BATCH_ROWS = 131_072
#: processes that keep the processors busy
_NEIGHBOURS = 2


@dataclass(frozen=True, slots=True)
class _Case:
    """One-row transactions that were counted: (n,) seconds of `time.monotonic`, or microseconds, of each."""

    shard: NDArray[np.int64]
    sent_s: NDArray[np.float64]
    answered_s: NDArray[np.float64]
    got_s: NDArray[np.float64]
    read_s: NDArray[np.float64]
    acked_s: NDArray[np.float64]
    #: of those of the first shard: from when they were sent to the plain reader, and to the consumer
    plain_s: NDArray[np.float64]
    merged_s: NDArray[np.float64]
    #: of the whole case
    took_s: float
    transactions: int
    bulk_rows: int
    #: processor time of each process, seconds
    used_s: dict[str, float]
    samples: Samples | None

    @property
    def latency_s(self) -> NDArray[np.float64]:
        return self.read_s - self.answered_s

    def report(self) -> dict[str, Any]:
        """Return the percentiles, milliseconds."""
        plain, merged = percentiles(self.plain_s), percentiles(self.merged_s)
        return {
            **percentiles(self.latency_s),
            "ratio_to_plain_reader": ratios(merged, plain),
            "since_sent": {"plain_reader": plain, "consumer": merged},
            "stages": {
                "commit": percentiles(self.answered_s - self.sent_s),
                "merge": percentiles(self.got_s - self.answered_s),
                "rows": percentiles(self.read_s - self.got_s),
                "ack": percentiles(self.acked_s - self.read_s),
            },
            "batches": len(np.unique(self.got_s)),
            "transactions": len(self.shard),
            "transactions_per_s": round(self.transactions / self.took_s),
            "bulk_rows_per_s": round(self.bulk_rows / self.took_s),
            "processors": {name: round(used_s / self.took_s, 3) for name, used_s in self.used_s.items()},
            **self._profile(),
        }

    def _profile(self) -> dict[str, Any]:
        if self.samples is None:
            return {}
        shares = {name: self.samples.shares(name) for name in self.samples.steps}
        return {
            "ms_per_s": {
                name: {
                    step: round(self.used_s[name] / self.took_s * share * 1e3, 1)
                    for step, share in each.items()
                }
                for name, each in shares.items()
            }
        }


def measure(size: float, *, profile: bool = False, rate: int = RATE, pace: str = "") -> dict[str, Any]:
    """Return percentiles of the latency and of its parts in each case, milliseconds.

    Args:
        size: multiplies how long it is measured.
        profile: whether to sample the processes: milliseconds of processor time a second, by step.
        rate: transactions a second, on all shards together.
        pace: the instance's `merge.latency`; empty: the default.
    """
    with _servers() as made:
        fill(made, "small", 1)
        with instance(made, **paced(pace)) as running, consumer(running) as reader:
            _skip_what_is_there(reader, len(made))
            seconds, of_each = _SECONDS * size, rate / len(made)
            alone = _measured(made, reader, 0, of_each, seconds, profile=profile)
            bulk = _measured(made, reader, 1, of_each, seconds, profile=profile, bulk=True)
            with _neighbours():
                busy = _measured(made, reader, 2, of_each, seconds, profile=profile)
    others = alone.latency_s[alone.shard < SHARDS - 1]
    return {
        "engine": made[0].engine,
        **alone.report(),
        "bulk": {
            "ratio_to_alone": ratios(percentiles(bulk.latency_s), percentiles(others)),
            **bulk.report(),
        },
        "busy": busy.report(),
        "cpus": cpus(),
    }


@contextmanager
def _servers() -> Iterator[Sequence[DatabaseServer]]:
    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(servers(Engine.MYSQL))
        except ServerMissingError as error:
            print(f"latency: {error}", file=sys.stderr)
            made = stack.enter_context(servers(Engine.MARIADB))
        yield made


@contextmanager
def _neighbours() -> Iterator[None]:
    """Run processes that want all of the processors."""
    context = multiprocessing.get_context("spawn")
    running = [context.Process(target=_count, daemon=True) for _ in range(_NEIGHBOURS)]
    try:
        for each in running:
            each.start()
        yield
    finally:
        for each in running:
            each.kill()
            each.join()


def _count() -> None:
    while True:
        pass


def _measured(
    made: Sequence[DatabaseServer],
    reader: Consumer,
    run: int,
    rate: float,
    seconds: float,
    *,
    profile: bool,
    bulk: bool = False,
) -> _Case:
    pids = processes(reader)
    sampler = None
    if profile:
        sampler = Sampler(pids, seconds * _SAMPLED_PART)
        seconds *= _SAMPLED_PART * (len(pids) + 1)
    count = int(rate * (_WARM_UP_S + seconds))
    with PlainReader(made[0], count) as plain, Writers(made, count, rate, run, bulk=bulk) as writers:
        before = {name: cpu_s(pid) for name, pid in pids.items()}
        if sampler is not None:
            sampler.start()
        index, times = _arrivals(reader, writers)
        used_s = {name: cpu_s(pid) - before[name] for name, pid in pids.items()}
        written, arrived_s = writers.written(), plain.arrived_s()
    if sampler is not None:
        sampler.join()
        if sampler.error:
            raise RuntimeError(sampler.error)
    sent_s, answered_s = written.sent_s[index], written.answered_s[index]
    warm = sent_s > written.sent_s.min() + _WARM_UP_S
    index, sent_s, answered_s, times = index[warm], sent_s[warm], answered_s[warm], times[:, warm]
    first = index < count
    got_s, read_s, acked_s = times
    return _Case(
        shard=index // count,
        sent_s=sent_s,
        answered_s=answered_s,
        got_s=got_s,
        read_s=read_s,
        acked_s=acked_s,
        plain_s=arrived_s[index[first]] - sent_s[first],
        merged_s=read_s[first] - sent_s[first],
        took_s=float(written.answered_s.max() - written.sent_s.min()),
        transactions=len(written.sent_s),
        bulk_rows=written.bulk_rows,
        used_s=used_s,
        samples=None if sampler is None else sampler.samples,
    )


def _skip_what_is_there(reader: Consumer, rows: int) -> None:
    while rows > 0:
        batch = reader.get_without_ack(timeout=_SILENCE_S)
        if batch is None:
            raise RuntimeError("the first rows did not come")
        rows -= batch.rows
        reader.ack(batch.batch_id)


def _arrivals(reader: Consumer, writers: Writers) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Read everything.

    Returns:
        Which transactions of `Written` came, as they came, and (3, n) seconds of `time.monotonic` when the
        batch of each was got, its rows had come, and it was acknowledged.
    """
    indexes, times = list[NDArray[np.int64]](), list[NDArray[np.float64]]()
    remaining, bulk_rows = writers.count * writers.shards, 0
    while remaining > 0 or bulk_rows < writers.written().bulk_rows:
        batch = reader.get_without_ack(_BATCH_ROWS, timeout=_SILENCE_S)
        got_s = time.monotonic()
        if batch is None or writers.failed():
            raise RuntimeError(writers.failed() or f"{remaining} rows did not come")
        ids = batch.table(NAME).column("id").to_numpy().astype(np.int64)
        read_s = time.monotonic()
        reader.ack(batch.batch_id)
        index = writers.index_of(ids)
        steady = index[index >= 0]
        remaining -= len(steady)
        bulk_rows += len(ids) - len(steady)
        indexes.append(steady)
        times.append(np.tile([[got_s], [read_s], [time.monotonic()]], len(steady)))
    return np.concatenate(indexes), np.concatenate(times, axis=1)


def percentiles(seconds: NDArray[np.float64]) -> dict[str, float]:
    """Return percentiles in milliseconds."""
    p50, p99, worst = np.percentile(seconds * 1e3, [50, 99, 100])
    return {"p50_ms": round(float(p50), 2), "p99_ms": round(float(p99), 2), "max_ms": round(float(worst), 2)}


def ratios(ours: dict[str, float], others: dict[str, float]) -> dict[str, float]:
    """Return the ratios of what `percentiles` returned."""
    return {name: round(ours[f"{name}_ms"] / others[f"{name}_ms"], 2) for name in ("p50", "p99")}
