"""A sharded shop for tests: real servers, one instance over them, and what was written to them."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from support.soak import patient

import canal_group
from canal_group.actors.driver.instance import Instance
from canal_group.actors.driver.launch import launch
from canal_group.conf.load import build_instance
from canal_group.conf.settings import InstanceSettings
from playground.database.secret_file import secret_file
from playground.database.server_process import DatabaseServer

#: seconds that anything awaited may take
DEADLINE_S = patient(60.0)
CLIENT = "reader"


class Shop:
    """Shards with a table `shop_N.orders` each, and the ids written to them, in order."""

    def __init__(self, servers: Sequence[DatabaseServer], zookeeper_hosts: str, folder: Path) -> None:
        self.servers = list(servers)
        self.destination = f"shop-{uuid.uuid4().hex[:8]}"
        self.written: dict[str, list[int]] = {f"s{index}": [] for index in range(len(servers))}
        self.zookeeper_hosts = zookeeper_hosts
        self._password = secret_file(folder / "password", servers[0].address().password)
        self._next_id = 0
        self._lock = threading.Lock()
        for index, server in enumerate(servers):
            server.execute(
                # A server is shared by tests: what any of them left would be of this shop.
                *(f"DROP DATABASE {name}" for name in _shops(server)),
                f"CREATE DATABASE shop_{index}",
                f"CREATE TABLE shop_{index}.orders"
                " (id BIGINT PRIMARY KEY, note VARCHAR(200), price DECIMAL(10,2))",
            )

    def settings(self, *, each_shard: Mapping[str, Any] | None = None, **overrides: Any) -> InstanceSettings:
        """Return settings of an instance over the shop; `each_shard` is laid over those of every shard."""
        shards = [
            {
                "name": f"s{index}",
                "host": server.address().host,
                "port": server.address().port,
                "user": server.address().user,
                "password_file": str(self._password),
                **(each_shard or {}),
            }
            for index, server in enumerate(self.servers)
        ]
        value: dict[str, Any] = {
            "preset": "default",
            "destination": self.destination,
            "shards": shards,
            "coordination": {"kind": "zookeeper", "hosts": self.zookeeper_hosts, "session_timeout_s": 4},
            # Each before its acknowledgement is answered: what was acknowledged never comes twice.
            "cursor": {"flush_s": None},
            "gateway": {"port": 0},
            "consumer": {"lease_s": 3},
            "filter": {"white": r"shop_\d+\..*", "routes": [{"match": r"shop_\d+\.(\w+)", "to": r"shop.\1"}]},
        }
        return build_instance({**value, **overrides})

    @contextmanager
    def serve(self, **overrides: Any) -> Iterator[Instance]:
        """Run an instance over the shop."""
        with launch(self.settings(**overrides)) as instance:
            yield instance

    def connect(self, instance: Instance, **options: Any) -> canal_group.Consumer:
        """Connect to an instance, waiting as long as tests wait."""
        chosen = {"destination": self.destination, "client_id": CLIENT, "wait_s": DEADLINE_S, **options}
        return canal_group.connect(instance.uri, **chosen)

    def write(self, shard: int, transactions: int, rows: int = 1) -> None:
        """Commit transactions of so many inserted rows each to a shard."""
        connection = self.servers[shard].connect(f"shop_{shard}")
        try:
            with connection.cursor() as cursor:
                for _ in range(transactions):
                    with self._lock:
                        ids = list(range(self._next_id, self._next_id + rows))
                        self._next_id += rows
                    cursor.execute("BEGIN")
                    cursor.executemany(
                        "INSERT INTO orders VALUES (%s, %s, %s)", [(i, f"note {i}", i / 4) for i in ids]
                    )
                    cursor.execute("COMMIT")
                    self.written[f"s{shard}"] += ids
        finally:
            connection.close()

    def write_everywhere(self, transactions: int, rows: int = 1) -> None:
        """Write to all shards side by side."""
        threads = [
            threading.Thread(target=self.write, args=(shard, transactions, rows))
            for shard in range(len(self.servers))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    @property
    def rows(self) -> int:
        """How many rows were written."""
        return sum(len(ids) for ids in self.written.values())


class Reading:
    """What a consumer saw: every delivery in order, and from where one follows another without a break."""

    def __init__(self, consumer: canal_group.Consumer) -> None:
        self.consumer = consumer
        #: runs of deliveries; a rollback of any kind begins a new one
        self.runs: list[list[pa.Table]] = [[]]
        #: (shard, file, pos, row) -> id
        self.ids: dict[tuple[str, str, int, int], int] = {}
        self.rollbacks = 0

    def until(self, rows: int, *, ack: bool = True, batch_size: int = 100) -> None:
        """Read until so many different rows were seen; go on through rollbacks and outages."""
        stop = threading.Timer(DEADLINE_S, self.consumer.close)
        stop.start()
        try:
            while len(self.ids) < rows:
                try:
                    self._read_one(ack=ack, batch_size=batch_size)
                except (canal_group.RolledBack, canal_group.UnknownBatch):
                    self.rolled_back()
                except canal_group.RetryableError:
                    continue
        finally:
            stop.cancel()

    def rolled_back(self) -> None:
        """What comes now may have come before."""
        self.rollbacks += 1
        self.runs.append([])

    def _read_one(self, *, ack: bool, batch_size: int) -> None:
        batch = self.consumer.get_without_ack(batch_size, timeout=2)
        if batch is None:
            return
        self.take(batch.envelope())
        if ack:
            self.consumer.ack(batch.batch_id)

    def take(self, rows: pa.Table) -> None:
        """Note a delivery."""
        self.runs[-1].append(rows)
        for row in rows.filter(pa.compute.equal(rows["op"], "INSERT")).to_pylist():
            position = row["shard"], row["file"], row["pos"], row["row"]
            number = int(dict(row["after"])["id"])
            assert self.ids.setdefault(position, number) == number, "one position, two rows"

    def check(self, shop: Shop) -> None:
        """Nothing is lost, nothing is reordered, no transaction is split, in all that was seen."""
        for shard, written in shop.written.items():
            seen = [
                number for position, number in sorted(self.ids.items(), key=_order) if position[0] == shard
            ]
            assert seen == written, f"{shard} was read as it was written"
        self.check_runs()

    def check_runs(self) -> None:
        """Nothing is reordered, no transaction is split, between any two rollbacks."""
        for run in self.runs:
            if not run:
                continue
            rows = pa.concat_tables(run)
            keys = rows["key_us"].to_pylist()
            assert keys == sorted(keys), "keys never decrease"
            sequence = rows["seq"].to_pylist()
            assert sequence == sorted(set(sequence)), "seq is unique and grows"
            gtids = rows["gtid"].to_pylist()
            whole = list(dict.fromkeys(gtids))
            blocks = [gtid for gtid, _ in itertools.groupby(gtids)]
            assert blocks == whole, "no transaction is interleaved"


def _shops(server: DatabaseServer) -> list[str]:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(r"SHOW DATABASES LIKE 'shop\_%'")
        return [name for (name,) in cursor.fetchall()]


def _order(item: tuple[tuple[str, str, int, int], int]) -> tuple[str, int, int, int]:
    (shard, file, pos, row), _ = item
    return shard, int(file.rpartition(".")[2]), pos, row


def kill(pid: int) -> None:
    """End a process as a crash would."""
    os.kill(pid, signal.SIGKILL)


def in_background(work: Callable[[], None]) -> threading.Thread:
    """Start work on a thread; join it before the test ends."""
    thread = threading.Thread(target=work)
    thread.start()
    return thread
