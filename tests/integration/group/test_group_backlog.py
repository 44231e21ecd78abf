"""Stopped consumers with a backlog of gibibytes: another one goes on, and no process grows.

`CANAL_GROUP_BACKLOG_GIB` says how large it is. Its disk needs as much and 5 GiB more: the archive has all of
it, compressed to three quarters, and the sources only what the archive does not have.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import time
from base64 import b64encode
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, count, islice, zip_longest
from pathlib import Path
from typing import Any, Final

import pytest
from integration.shop import Shop
from integration.zookeeper_fixtures import eventually
from support.sources.dumped_source import dump_server_pids

import canal_group
from canal_group.actors.shard.wiring import shard_source
from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import Disk
from canal_group.binlog.server.source import SourceAddress
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.calls.consumers import Status
from playground.database.server_process import DatabaseServer

_log = logging.getLogger(__name__)

#: binlogs that are written while the slow clients are away, of all shards
BACKLOG_GIB: Final = float(os.environ.get("CANAL_GROUP_BACKLOG_GIB", "2"))
#: memory of each process that serves
PROCESS_MIB_MAX = 400
#: a transaction: its rows, and bytes of each; a MiB in all
ROWS, ROW_BYTES = 16, 64 << 10
#: transactions after which a source's table is emptied, and what the archive has of its binlogs is purged
CLEARED_EVERY = 256
#: clients that come back at the same time, after one that is alone
SLOW = 3
#: rows of a batch, at most: its 16 MiB are fewer
BATCH_ROWS = 1_000
#: what an election means for a consumer
AGAIN = (canal_group.RolledBack, canal_group.UnknownBatch, canal_group.RetryableError)
#: how long each part may take for a GiB, seconds
PATIENCE_S = 600.0


class Hashed:
    """A consumer that keeps hashes of what it read of each shard, in order, and acknowledges all of it.

    The key of a transaction that came late is that of the moment: it is left out.
    """

    def __init__(self, consumer: canal_group.Consumer) -> None:
        self._consumer = consumer
        #: by shard: of each row its transaction, number, kind, and a hash of all before it and of itself
        self.read: dict[str, list[tuple[str, int, str, bytes]]] = defaultdict(list)
        self._hashes: dict[str, Any] = defaultdict(hashlib.sha256)
        self.rows = 0

    def until(self, rows: int) -> None:
        """Read until so many inserted rows were read and acknowledged.

        Where disks and processors are busy there may be an election: what is not acknowledged comes again.
        """
        while self.rows < rows:
            with contextlib.suppress(*AGAIN):
                batch = self._consumer.get_without_ack(BATCH_ROWS, timeout=10)
                if batch is not None:
                    table = batch.envelope()
                    self._consumer.ack(batch.batch_id)
                    self._take(table)

    def leave(self) -> None:
        """Forget the client id: nothing is kept for it."""
        self._consumer.unsubscribe()
        self._consumer.close()

    def _take(self, table: Any) -> None:
        for row in table.select(["shard", "gtid", "row", "op", "after"]).to_pylist():
            hashed = self._hashes[row["shard"]]
            for value in (row["gtid"], row["row"], row["op"], *chain(*(row["after"] or ()))):
                hashed.update(f"{value}\0".encode())
            self.read[row["shard"]].append((row["gtid"], row["row"], row["op"], hashed.digest()))
            self.rows += row["op"] == "INSERT"

    def require_same(self, other: Hashed) -> None:
        """Compare with what another one read."""
        for shard, rows in other.read.items():
            for number, (mine, theirs) in enumerate(zip_longest(self.read[shard], rows)):
                assert mine == theirs, f"row {number} of {shard}"


def prepare(shop: Shop) -> None:
    """Make on each server the table, whose rows are only in the binlog for long, and what fills it.

    Random texts compress to three quarters, and nothing that a frame of the archive has twice.
    """
    for index, server in enumerate(shop.servers):
        columns = "id BIGINT PRIMARY KEY, v MEDIUMTEXT CHARACTER SET latin1"
        server.execute(
            *(f"CREATE TABLE shop_{index}.{name} ({columns}) ENGINE=MyISAM" for name in ("large", "texts"))
        )
        texts = [b64encode(os.urandom(ROW_BYTES * 3 // 4)).decode() for _ in range(ROWS)]
        with server.connect(f"shop_{index}") as connection, connection.cursor() as cursor:
            cursor.executemany("INSERT INTO texts VALUES (%s, %s)", list(enumerate(texts)))


def write(shop: Shop, shard: int, transactions: int, archive: Archive) -> None:
    """Commit transactions of a MiB: in each, rows whose large value begins with something new."""
    server, new = shop.servers[shard], "CONVERT(MD5(RAND()) USING latin1)"
    with server.connect(f"shop_{shard}") as connection, connection.cursor() as cursor:
        for number in range(transactions):
            cursor.execute(
                f"INSERT INTO large SELECT %s + id, INSERT(v, 1, 32, {new}) FROM texts",
                (number * ROWS,),
            )
            if number % CLEARED_EVERY == CLEARED_EVERY // 2:
                cursor.execute("TRUNCATE TABLE large")
                purge_archived(server, archive)


def purge_archived(server: DatabaseServer, archive: Archive) -> None:
    """Let go of the files of which the archive has a later one."""
    own = {str(row[0]) for row in server.execute("SHOW BINARY LOGS")}
    begun = server.execute("SELECT @@server_id")[0][0]
    for history in archive.histories(str(begun)):
        open_file = history.manifest.files[-1].name
        if open_file in own:
            server.execute(f"PURGE BINARY LOGS TO '{open_file}'")


def peaks_mib(status: dict[str, Any], dumps: list[int]) -> dict[str, int]:
    """Return the peak resident memory of each process that serves, MiB."""
    pids = {shard["shard"]: shard["pid"] for shard in status["shards"]}
    pids |= {"group": status["group"]["pid"], "gateway": status["gateway"]["pid"]}
    pids |= {f"dump server {number}": pid for number, pid in enumerate(dumps)}
    return {name: _peak_mib(pid) for name, pid in pids.items()}


def _peak_mib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


def side_by_side(work: Iterable[Callable[[], None]]) -> float:
    """Run work on threads; return how long all of it took, seconds."""
    begun_s = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(each) for each in work]:
            done.result()
    return time.monotonic() - begun_s


def dump_servers(shop: Shop, options: dict[str, Any]) -> list[int]:
    settings = shop.settings(**options)
    addresses = [shard_source(settings, shard) for shard in settings.shards]
    return [pid for each in addresses if isinstance(each, SourceAddress) for pid in dump_server_pids(each)]


@pytest.mark.soak
@pytest.mark.timeout(900 + PATIENCE_S * 2 * BACKLOG_GIB)
def test_a_backlog_of_gibibytes(shop: Shop, tmp_path: Path) -> None:
    """1. Four clients subscribe and stop. 2. Another one reads what is written, without a wait, while the
    sources purge it. 3. One comes back, reads all of it alone, and joins; 4. three do at the same time.
    5. All have the same, and no process has grown.
    """
    prepare(shop)
    shards = range(len(shop.servers))
    transactions = int(BACKLOG_GIB * 1024 / len(shards))
    rows = transactions * ROWS * len(shards)
    options: dict[str, Any] = {
        "archive": {"folder": str(tmp_path / "archive"), "disk_high": 1.0},
        # No election while all processors are busy.
        "coordination": {"kind": "zookeeper", "hosts": shop.zookeeper_hosts, "session_timeout_s": 120},
        "consumer": {"lease_s": 60, "replays_max": SLOW},
    }
    names = [f"slow-{number}" for number in range(1 + SLOW)]
    with contextlib.ExitStack() as open_, shop.serve(**options) as instance:
        gateway = open_.enter_context(contextlib.closing(GatewayClient(instance.uri, shop.destination)))

        def group() -> dict[str, Any]:
            found: dict[str, Any] = gateway.ask(Status())["group"]
            return found

        def replayed() -> set[str]:
            return {each["client_id"] for each in group()["clients"] if each["replay"] is not None}

        def connected(name: str) -> Hashed:
            consumer = open_.enter_context(shop.connect(instance, client_id=name))
            consumer.subscribe(r"shop\.large")
            return Hashed(consumer)

        for name in names:
            with shop.connect(instance, client_id=name, keep=True) as consumer:
                consumer.subscribe(r"shop\.large")
        app = connected("app")
        archive = Archive(Disk(), tmp_path / "archive")
        writing = [partial(write, shop, shard, transactions, archive) for shard in shards]
        live_s = side_by_side([*writing, partial(app.until, rows)])
        state = group()
        took_s, ends = [live_s], count(1)
        for coming in (names[:1], names[1:]):
            slow = [connected(name) for name in coming]
            took_s.append(side_by_side(partial(each.until, app.rows) for each in slow))
            for end in islice(ends, 2):
                for shard in shards:
                    shop.servers[shard].execute(
                        f"INSERT INTO shop_{shard}.large VALUES (-{end}, 'at the end')"
                    )
                for each in (app, *slow):
                    each.until(rows + end * len(shards))
                    each.require_same(app)
                eventually(lambda: not replayed() & set(coming), "they have joined")  # noqa: B023
            for each in slow:
                each.leave()
        was_elected = group()["epoch"] != state["epoch"]
        assert group()["generation"] == state["generation"] or was_elected, "nobody else is rolled back"
        peaks = peaks_mib(gateway.ask(Status()), dump_servers(shop, options))
    _log.info("%g GiB: live, alone, at the same time %s s, peaks %s MiB", BACKLOG_GIB, took_s, peaks)
    assert len(peaks) == 2 * len(shards) + 2, "shards, their dump servers, the group and the gateway"
    assert max(peaks.values()) <= PROCESS_MIB_MAX
