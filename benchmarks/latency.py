"""Latency: from a commit to the consumer that has its row, at a steady rate.

Four shards take one-row transactions, each at its own even pace, from another process. One consumer reads
typed rows and acknowledges. Writer and consumer use one clock: latency is the time when a row arrives at the
consumer, less the time when its commit was answered. The parts that can be measured, in order:

- `commit`: the statement's way to the server and back (not part of the latency);
- `merge`: from the answered commit to the answer of the get whose batch has it: binlog, parsing, ring, poll,
  and the wait until no shard can still precede it;
- `rows`: from that answer to the rows, fetched from the shards and put in order;
- `ack`: until the acknowledgement of its batch is answered (not part of the latency).

It uses MySQL, which stamps commits in microseconds; if MySQL is not available, MariaDB, which stamps whole
seconds.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, Self

import numpy as np
import pymysql

from benchmarks._load import NAME, SCHEMA, SHARDS, TABLE, cpu_s, fill, servers
from benchmarks._pipeline import consumer, instance, processes
from benchmarks._profile import Sampler, Samples
from canal_group.client.consumer import Consumer
from playground.database.engine import Engine
from playground.database.server_process import DatabaseServer, ServerAddress, ServerMissingError

#: one-row transactions a second, on each shard
_RATE = 250
_SECONDS = 20.0
#: with a profile: for which part of that each process is sampled
_SAMPLED_PART = 0.4
#: commits of the first seconds are not counted: every code path runs for the first time
_WARM_UP_S = 2.0
#: distance between the first ids of two writers
_STRIDE = 10**9
_SILENCE_S = 30.0
_INSERT = (
    f"INSERT INTO {TABLE} VALUES (%s, 'c', 1, 1.5, '2024-02-28 12:34:56', 'new', 1.5, 3, 1, "
    "'2024-02-28 12:34:56', 'n')"
)


class _Writer(threading.Thread):
    """Commits rows with its own ids at an even pace, and records the times."""

    def __init__(self, server: ServerAddress, shard: int, count: int) -> None:
        super().__init__(name=f"writer-{shard}", daemon=True)
        self.first, self.count = (shard + 1) * _STRIDE, count
        #: when each was sent and answered, seconds of `time.monotonic`
        self.sent_s = np.zeros(count)
        self.answered_s = np.zeros(count)
        self.error: pymysql.Error | None = None
        self._server, self._shard = server, shard

    def run(self) -> None:
        """Write everything."""
        pause = threading.Event()
        try:
            with (
                contextlib.closing(_connect(self._server)) as connection,
                connection.cursor() as cursor,
            ):
                # Shards do not commit at the same moments.
                begin_s = time.monotonic() + self._shard / SHARDS / _RATE
                for index in range(self.count):
                    pause.wait(max(0.0, begin_s + index / _RATE - time.monotonic()))
                    self.sent_s[index] = time.monotonic()
                    cursor.execute(_INSERT, (self.first + index,))
                    self.answered_s[index] = time.monotonic()
        except pymysql.Error as error:
            self.error = error


def measure(size: float, *, profile: bool = False) -> dict[str, Any]:
    """Return percentiles of the latency and of its parts, in milliseconds.

    Args:
        size: multiplies how long it is measured.
        profile: whether to sample the processes: microseconds of processor time a transaction, by step.
    """
    with _servers() as made:
        fill(made, "small", 1)
        with instance(made) as running, consumer(running) as reader:
            _skip_what_is_there(reader, len(made))
            seconds = _SECONDS * size
            if not profile:
                return {"engine": made[0].engine, **_measured(made, reader, int(_RATE * seconds))}
            pids = processes(reader)
            sampler = Sampler(pids, seconds * _SAMPLED_PART)
            sampler.start()
            result = _measured(made, reader, int(_RATE * seconds * _SAMPLED_PART * (len(pids) + 1)))
            sampler.join()
            if sampler.error:
                raise RuntimeError(sampler.error)
            return {
                "engine": made[0].engine,
                **result,
                "us_per_transaction": _by_step(result, sampler.samples),
            }


def _by_step(result: dict[str, Any], samples: Samples) -> dict[str, dict[str, float]]:
    return {
        name: {step: round(cost_us * share, 1) for step, share in samples.shares(name).items()}
        for name, cost_us in result["cpu_us_per_transaction"].items()
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


class _Writers:
    """A process that writes to all shards; a context manager, which ends it.

    Args:
        made: the servers.
        count: transactions on each.
    """

    def __init__(self, made: Sequence[DatabaseServer], count: int) -> None:
        self.count, self.shards = count, len(made)
        context = multiprocessing.get_context("spawn")
        self._results, theirs = context.Pipe(duplex=False)
        addresses = [server.address("root") for server in made]
        self._process = context.Process(target=_write, args=(addresses, count, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def failed(self) -> str:
        """Return why writing has failed; empty: it has not."""
        return "" if self._process.is_alive() or not self._process.exitcode else "a writer has failed"

    def times(self) -> tuple[Any, Any]:
        """Wait for the end; return when each commit was sent and answered, seconds of `time.monotonic`."""
        sent_s, answered_s = self._results.recv()
        return sent_s, answered_s

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()


def _write(made: list[ServerAddress], count: int, results: Connection) -> None:
    """Write everything and send the times; the process fails if a writer does."""
    writers = [_Writer(server, shard, count) for shard, server in enumerate(made)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        if writer.error is not None:
            raise writer.error
    sent_s = np.concatenate([writer.sent_s for writer in writers])
    results.send((sent_s, np.concatenate([writer.answered_s for writer in writers])))


def _connect(server: ServerAddress) -> pymysql.Connection[Any]:
    return pymysql.connect(
        host=server.host,
        port=server.port,
        user=server.user,
        password=server.password,
        database=SCHEMA,
        charset="utf8mb4",
        autocommit=True,
    )


def _measured(made: Sequence[DatabaseServer], reader: Consumer, count: int) -> dict[str, Any]:
    pids = processes(reader)
    with _Writers(made, count) as writers:
        before = {name: cpu_s(pid) for name, pid in pids.items()}
        ids, got_s, read_s, acked_s = _arrivals(reader, writers)
        used = {name: cpu_s(pid) - before[name] for name, pid in pids.items()}
        sent_s, answered_s = writers.times()
    index = (ids // _STRIDE - 1) * count + ids % _STRIDE
    sent_s, answered_s = sent_s[index], answered_s[index]
    warm = sent_s > sent_s.min() + _WARM_UP_S
    latency = _percentiles((read_s - answered_s)[warm])
    return {
        "p50_ms": latency["p50_ms"],
        "p99_ms": latency["p99_ms"],
        "max_ms": latency["max_ms"],
        "stages": {
            "commit": _percentiles((answered_s - sent_s)[warm]),
            "merge": _percentiles((got_s - answered_s)[warm]),
            "rows": _percentiles((read_s - got_s)[warm]),
            "ack": _percentiles((acked_s - read_s)[warm]),
        },
        "batches": len(np.unique(got_s)),
        "transactions": int(warm.sum()),
        "cpu_us_per_transaction": {name: round(took_s / len(ids) * 1e6) for name, took_s in used.items()},
        "transactions_per_s": round(len(ids) / (answered_s.max() - sent_s.min())),
    }


def _skip_what_is_there(reader: Consumer, rows: int) -> None:
    while rows > 0:
        batch = reader.get_without_ack(timeout=_SILENCE_S)
        if batch is None:
            raise RuntimeError("the first rows did not come")
        rows -= batch.rows
        reader.ack(batch.batch_id)


def _arrivals(reader: Consumer, writers: _Writers) -> tuple[Any, Any, Any, Any]:
    """Read everything; return ids, and when their batch was got, its rows had come, it was acknowledged."""
    ids, times, remaining = [], [], writers.count * writers.shards
    while remaining > 0:
        batch = reader.get_without_ack(timeout=_SILENCE_S)
        got_s = time.monotonic()
        if batch is None or writers.failed():
            raise RuntimeError(writers.failed() or f"{remaining} rows did not come")
        batch_ids = batch.table(NAME).column("id").to_numpy().astype(np.int64)
        read_s = time.monotonic()
        reader.ack(batch.batch_id)
        remaining -= len(batch_ids)
        ids.append(batch_ids)
        times.append(np.tile([[got_s], [read_s], [time.monotonic()]], len(batch_ids)))
    got, read_times, acked = np.concatenate(times, axis=1)
    return np.concatenate(ids), got, read_times, acked


def _percentiles(seconds: Any) -> dict[str, float]:
    p50, p99, worst = np.percentile(seconds * 1e3, [50, 99, 100])
    return {"p50_ms": round(float(p50), 2), "p99_ms": round(float(p99), 2), "max_ms": round(float(worst), 2)}
