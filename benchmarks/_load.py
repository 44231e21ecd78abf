"""Load: what the benchmarks' servers hold. The rows are in the binlogs; tables and procedures are not.

A procedure on the server itself fills a table of eleven columns of mixed types. No client is involved, so
millions of rows are written in seconds.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playground.database.engine import Engine
from playground.database.server_process import DatabaseServer
from playground.database.servers import make, start_all

SHARDS = 4
SCHEMA, TABLE = "bench", "orders"
NAME = f"{SCHEMA}.{TABLE}"
#: rows of a bulk transaction
BULK_ROWS = 100
_SEEDS = 100
_LOOK_EVERY_S = 0.05

_COLUMNS = """
    customer VARCHAR(80) NOT NULL,
    token BIGINT UNSIGNED NOT NULL,
    amount DECIMAL(14,4) NOT NULL,
    placed_at DATETIME(6) NOT NULL,
    state ENUM('new','paid','packed','sent','lost') NOT NULL,
    weight DOUBLE NULL,
    quantity INT NOT NULL,
    active TINYINT NOT NULL,
    changed_at TIMESTAMP NOT NULL,
    note TEXT NULL
"""
_NAMES = "customer, token, amount, placed_at, state, weight, quantity, active, changed_at, note"
_INSERT = f"INSERT INTO {TABLE} ({_NAMES}) SELECT {_NAMES} FROM seeds"
_LOOP = "BEGIN WHILE n > 0 DO {}; SET n = n - 1; END WHILE; END"
_PREPARE = (
    "SET sql_log_bin = 0",
    f"CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4",
    f"USE {SCHEMA}",
    f"CREATE TABLE {TABLE} (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, {_COLUMNS})",
    f"CREATE TABLE seeds (seed INT PRIMARY KEY, {_COLUMNS})",
    f"CREATE PROCEDURE bulk (n INT) {_LOOP.format(_INSERT)}",
    f"CREATE PROCEDURE small (n INT) {_LOOP.format(f'{_INSERT} WHERE seed = n MOD {_SEEDS}')}",
    f"CREATE PROCEDURE huge (n INT) BEGIN START TRANSACTION; {_LOOP.format(_INSERT)}; COMMIT; END",
)


@dataclass(frozen=True, slots=True)
class Backlog:
    """What the binlogs of all servers hold together."""

    rows: int
    transactions: int
    #: of the binlog files
    bytes: int


@contextmanager
def servers(
    engine: Engine = Engine.MARIADB, count: int = SHARDS, options: Sequence[str] = ()
) -> Iterator[list[DatabaseServer]]:
    """Run prepared servers with empty tables; leaving the context stops them."""
    made = make(engine, count)
    try:
        for server in made:
            server.options = tuple(options)
        start_all(made)
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(_prepare, made))
        yield made
    finally:
        for server in made:
            server.close()


def _prepare(server: DatabaseServer) -> None:
    chance = random.Random(1)
    rows = ", ".join(_seed(seed, chance) for seed in range(_SEEDS))
    server.execute(*_PREPARE, f"INSERT INTO seeds VALUES {rows}")


def _seed(seed: int, chance: random.Random) -> str:
    weight = "NULL" if seed % 5 == 0 else repr(chance.uniform(0, 50))
    note = "NULL" if seed % 3 == 0 else f"'{'lorem ipsum é ' * chance.randint(1, 4)}'"
    state = chance.choice(("new", "paid", "packed", "sent", "lost"))
    return (
        f"({seed}, 'customer {chance.randint(1, 10**6)}', {chance.getrandbits(64)}, "
        f"{chance.randint(-(10**9), 10**10)} / 10000, "
        f"'2024-02-28 12:34:56' + INTERVAL {chance.randrange(10**12)} MICROSECOND, '{state}', {weight}, "
        f"{chance.randint(-5, 10**6)}, {seed % 2}, "
        f"'2024-03-01 00:00:00' + INTERVAL {chance.randrange(10**7)} SECOND, {note})"
    )


def fill(made: Sequence[DatabaseServer], procedure: str, times: int, *, anew: bool = True) -> Backlog:
    """Call a procedure that writes, on each server.

    Args:
        made: the servers.
        procedure: `bulk` (a transaction of `BULK_ROWS` rows each time), `small` (of one row), `huge` (one
            transaction of `BULK_ROWS` rows times `times`).
        times: calls on each server.
        anew: whether tables and binlogs are emptied first.

    Returns:
        What this call wrote.
    """

    def one(server: DatabaseServer) -> int:
        if anew:
            server.execute("SET sql_log_bin = 0", f"TRUNCATE TABLE {NAME}")
            server.execute("RESET MASTER" if server.engine == "mariadb" else "RESET BINARY LOGS AND GTIDS")
        before = sum(size for _, size in binlogs(server))
        server.execute(f"CALL {procedure}({times})", database=SCHEMA)
        return sum(size for _, size in binlogs(server)) - before

    with ThreadPoolExecutor(len(made)) as pool:
        sizes = list(pool.map(one, made))
    rows = times if procedure == "small" else times * BULK_ROWS
    transactions = 1 if procedure == "huge" else times
    return Backlog(rows * len(made), transactions * len(made), sum(sizes))


def binlogs(server: DatabaseServer) -> list[tuple[str, int]]:
    """Return name and size of each of a server's binlogs, oldest first."""
    return [(str(row[0]), int(row[1])) for row in server.execute("SHOW BINARY LOGS")]


@contextmanager
def paused(made: Sequence[DatabaseServer]) -> Iterator[None]:
    """Pause servers, so that reading begins when the clock starts.

    Their processes are stopped: a client that connects meanwhile gets the greeting when they resume.
    """
    pids = [server.pid for server in made if server.pid is not None]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def await_until(condition: Callable[[], bool], otherwise: str, within_s: float) -> None:
    """Wait until a condition holds.

    Raises:
        RuntimeError: it does not within this time; `otherwise` says what is wrong then.
    """
    pause, until_s = threading.Event(), time.monotonic() + within_s
    while not condition():
        if time.monotonic() > until_s:
            raise RuntimeError(f"{otherwise} within {within_s:g} s")
        pause.wait(_LOOK_EVERY_S)


def peak_rss_mib(pid: int) -> float:
    """Return the peak resident memory of a process until now, MiB; 0 if it has ended."""
    with contextlib.suppress(OSError), Path(f"/proc/{pid}/status").open() as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return round(int(line.split()[1]) / 1024, 1)
    return 0.0


def cpu_s(pid: int) -> float:
    """Return the processor time that a process used until now, seconds; 0 if it has ended."""
    with contextlib.suppress(OSError):
        user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return 0.0


def cpus() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))
