"""The world of a seed: all processes, started and ended together."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from canal_group.merge.errors import CanalGroupError
from canal_group.merge.values.position import GroupPosition
from canal_group.operator import Operator
from canal_group.programs.demo.instance import shard_name
from canal_group.programs.demo.replica import Rows
from canal_group.programs.demo.tables import TABLES, WHITE, routes, schema_name
from canal_group.zookeeper.tree import Tree
from chaos.archive_disk import HIGH, LOW, ArchiveDisk
from chaos.clocks import Clock, compiled
from chaos.cluster import NODES, RayCluster, Server, cursor_settings
from chaos.commits import Commits
from chaos.consumers import CLIENT, RANGES, Consumers
from chaos.ensemble import Ensemble
from chaos.moves import Moves
from chaos.process import Program
from chaos.proxy import Proxy
from chaos.schedule import JOINS_MAX, SESSION_S, SHARDS, TABLE_ROWS, cast_of
from chaos.sources import ClockedMariaDb, ClockedMySql, Source
from chaos.writer import UNKEPT_TABLE, Writer, workload_of
from playground.database.child_process import free_port
from playground.database.engine import Engine
from playground.database.secret_file import secret_file
from playground.database.server_process import CANAL_PASSWORD, CANAL_USER, DatabaseServer
from playground.database.servers import start_all
from playground.load.held import read_tables
from playground.load.workload import Workload
from playground.load.writer import fill_tables

SERVERS: Final = 2
DESTINATION: Final = "chaos"
#: transactions per second of each shard
RATE: Final = 8.0
#: transactions of a ring of a seed with an archive: who is stopped for longer is replayed
RING: Final = 64
#: how long the start may take, until the first batch is acknowledged, seconds
_START_S: Final = 120.0
_POLL_S: Final = 0.1
#: timeout of one ZooKeeper request, seconds
_ASK_S: Final = 1.0
#: make the table that nobody keeps
_UNKEPT: Final = (
    f"CREATE DATABASE {UNKEPT_TABLE.partition('.')[0]}",
    f"CREATE TABLE {UNKEPT_TABLE} (at_us BIGINT)",
)


class NotReadyError(RuntimeError):
    """A condition was not met in time."""


class World:
    """All processes of a seed; a context manager that always ends them.

    Args:
        folder: where everything except Ray writes.
        ray_folder: where Ray writes; the path must be short, because socket paths are limited.
        seed: of the writers, and of the choice of servers and shards.
        seconds: how long the writers write.
    """

    def __init__(self, folder: Path, ray_folder: Path, seed: int, seconds: float) -> None:
        self.folder = folder
        self._ray_folder = ray_folder
        self.seed, self._seconds = seed, seconds
        self._stack = ExitStack()
        self.tree = Tree(DESTINATION)
        self.ensemble = Ensemble(folder)
        self.sources: list[Source] = []
        self.servers: list[Server] = []
        #: for each server, one to each ZooKeeper
        self.coordination_proxies: list[list[Proxy]] = []
        #: clocks of the actors, by raylet
        self.clocks: list[Clock] = []
        self.consumers = Consumers(folder, self.ensemble, DESTINATION)
        #: rows of the tables when the streams without a snapshot began
        self.there: Rows = {}
        self._moves = Moves(SHARDS, seed)
        self.writers: list[Writer] = []
        self.archive: ArchiveDisk | None = None
        self._begun_s = 0.0

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # ---- starting --------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Start everything, and wait until the first batch is acknowledged by each client id."""
        self._library = compiled(self.folder)
        self.clocks = [Clock(self.folder / f"clock-ray-{node}", self._library) for node in range(NODES)]
        self._stack.callback(self.ensemble.close)
        cast = cast_of(self.seed)
        if cast.archives:
            self.archive = ArchiveDisk(self.folder, moves=cast.moves)
            self._stack.callback(self.archive.close)
        self.ensemble.start()
        for shard in range(SHARDS):
            self._add_source(shard)
        servers: list[DatabaseServer] = [server for source in self.sources for server in source.servers]
        # This thread starts Ray, because Ray installs signal handlers.
        with ThreadPoolExecutor(1) as pool:
            started = pool.submit(start_all, servers)
            self.ray = RayCluster(self._ray_folder, self.clocks)
            self._stack.callback(self.ray.close)
            started.result()
        self.ensemble.wait()
        self.zookeeper = KazooClient(self.ensemble.hosts)
        self.zookeeper.start()
        self._stack.callback(self._leave_zookeeper)
        workloads = [self._workload(shard, self._seconds) for shard in range(SHARDS)]
        records = self._prepare(workloads)
        self._start_servers()
        self._start_writers(workloads, records)

    def _add_source(self, shard: int) -> Source:
        cast = cast_of(self.seed)
        mysql = cast.engine is Engine.MIXED and shard % 2
        source = Source(
            shard,
            shard_name(shard),
            ClockedMySql if mysql else ClockedMariaDb,
            self.folder,
            self._library,
            paired=shard == cast.paired,
        )
        self._stack.callback(source.close)
        self.sources.append(source)
        return source

    def _start_servers(self) -> None:
        for number in range(SERVERS):
            proxies = [self._proxy(member.hosts) for member in self.ensemble.members]
            self.coordination_proxies.append(proxies)
            hosts = ",".join(proxy.hosts for proxy in proxies)
            server = Server(number, self._settings(hosts), self.ray.address, self.folder)
            self.servers.append(server)
            self._stack.callback(server.program.end)
            server.program.start()
        self._stack.callback(self.consumers.end)
        self.consumers.start(CLIENT, RANGES)

    def _prepare(self, workloads: Sequence[Workload]) -> list[Commits]:
        """Make the shards' tables; return the records, which begin after what is in them."""
        with ThreadPoolExecutor(SHARDS) as pool:
            records = list(pool.map(self._prepared, self.sources, workloads))
        for source in self.sources:
            if source.paired:
                source.replicate()
        self.there = read_tables([source.server for source in self.sources], [each.shard for each in records])
        return records

    def _prepared(self, source: Source, workload: Workload) -> Commits:
        schema, server = schema_name(source.index), source.server
        server.execute(f"CREATE DATABASE {schema} CHARACTER SET utf8mb4")
        server.execute(*_UNKEPT, *_made(source), database=schema)
        if cast_of(self.seed).copies:
            fill_tables(server, schema, workload.fill(TABLE_ROWS * len(TABLES)))
        prefix, number = server.last_gtid()
        return Commits(source.name, prefix, number + 1)

    def _start_writers(self, workloads: Sequence[Workload], records: Sequence[Commits]) -> None:
        """Start the writers once the consumers are subscribed, so that all writes belong to their streams.

        Those that begin with a snapshot begin while writers write.
        """
        self.until(self.consumers.subscribed, _START_S, "a consumer of each client id to be subscribed")
        self._begun_s = time.monotonic()
        for source, record, workload in zip(self.sources, records, workloads, strict=True):
            self._write(source, record, workload, self._seconds)
        self.until(lambda: all(self.positions()), _START_S, "the first acknowledgements")
        self.consumers.start(*cast_of(self.seed).copies)
        self.until(self.consumers.subscribed, _START_S, "the clients with a snapshot to be subscribed")

    def _workload(self, shard: int, seconds: float) -> Workload:
        return workload_of(shard, SHARDS + JOINS_MAX, self.seed, rate=RATE, seconds=seconds)

    def _write(self, source: Source, record: Commits, workload: Workload, seconds: float) -> None:
        writer = Writer(source, workload, record, self._moves, rate=RATE, seconds=seconds)
        self.writers.append(writer)
        self._stack.callback(writer.join)
        self._stack.callback(writer.abandon)
        writer.start()

    def _proxy(self, hosts: str) -> Proxy:
        proxy = Proxy(hosts)
        self._stack.callback(proxy.close)
        return proxy

    def _settings(self, hosts: str) -> dict[str, Any]:
        return {
            "preset": "default",
            "destination": DESTINATION,
            "shards": [self._shard(source) for source in self.sources],
            "start": "latest",
            "filter": {"white": WHITE, "routes": routes()},
            "reader": {"read_timeout_s": 3, "connect_timeout_s": 3},
            "consumer": {"lease_s": 3, "quiet_s": 1, **self._replays()},
            **self._archive_settings(),
            "coordination": {"kind": "zookeeper", "hosts": hosts, "session_timeout_s": SESSION_S},
            "cursor": cursor_settings(),
            "gateway": {"port": free_port()},
        }

    def _archive_settings(self) -> dict[str, Any]:
        if self.archive is None:
            return {}
        cast = cast_of(self.seed)
        kind = cast.store
        archive = {
            "folder": str(self.archive.folder),
            "sync_s": "always" if kind == "file" else 0.5,
            "disk_high": HIGH,
            "disk_low": LOW,
            # Each file moves when it is compressed.
            **({"store": self.archive.store, "bytes_max": 1} if self.archive.store else {}),
        }
        return {
            "store": {"kind": kind, "mode": "items", "size": RING},
            "archive": archive,
            "snapshot": {"rows_per_s": cast.rows_per_s},
        }

    def _replays(self) -> dict[str, int]:
        """Return settings by which clients with a snapshot leave replays to the others."""
        copies = len(cast_of(self.seed).copies)
        return {"replays_max": 2 + copies} if copies else {}

    def _shard(self, source: Source) -> dict[str, Any]:
        password = secret_file(self.folder / "password", CANAL_PASSWORD)
        return {
            "name": source.name,
            "host": "127.0.0.1",
            "port": source.proxy.port,
            "user": CANAL_USER,
            "password_file": str(password),
            "start_by": "gtid" if source.index % 2 else "auto",
        }

    # ---- while it runs ---------------------------------------------------------------------------------

    def join_shard(self) -> Source:
        """Add a shard: start its server and its writer, and name it in the instance files."""
        source = self._add_source(len(self.sources))
        source.server.start()
        # This is not logged: the binlog begins with the writer's transactions.
        source.server.execute(
            "SET SESSION sql_log_bin = 0",
            f"CREATE DATABASE {schema_name(source.index)} CHARACTER SET utf8mb4",
            *_UNKEPT,
            f"USE {schema_name(source.index)}",
            *_made(source),
        )
        prefix, number = source.server.last_gtid()
        seconds = self._begun_s + self._seconds - time.monotonic()
        workload = self._workload(source.index, seconds)
        self._write(source, Commits(source.name, prefix, number + 1), workload, seconds)
        for server in self.servers:
            server.add_shard({**self._shard(source), "start": "earliest"})
        return source

    def tend(self, away: set[object]) -> None:
        """Restart the processes that ended by themselves, or were killed and may come back.

        Args:
            away: the processes that must stay down.
        """
        for server in self.servers:
            if server.program.pid is None and server not in away:
                server.program.start()
        self.consumers.tend(away)

    def copy(self, number: int) -> str:
        """Return one of the client ids that began with a snapshot."""
        copies = cast_of(self.seed).copies
        return copies[number % len(copies)]

    def active_server(self) -> Server | None:
        """Return the server that holds the destination, if ZooKeeper answers."""
        address = self._address(self.tree.running)
        return next((server for server in self.servers if server.address == address), None)

    def active_consumer(self) -> Program | None:
        """Return the consumer that takes batches, if ZooKeeper answers."""
        holder = self._address(self.tree.client_running(CLIENT)).split(":")
        consumers = self.consumers.programs[CLIENT]
        pids = {str(consumer.pid): consumer for consumer in consumers if consumer.pid is not None}
        return pids.get(holder[1]) if len(holder) > 1 else None

    def replayed(self) -> set[str]:
        """Return the client ids that are served by a replay, as far as the active server says."""
        server = self.active_server()
        state = self._state(server) if server is not None else {}
        if not isinstance(state, dict):
            return set()
        clients = (state.get("group") or {}).get("clients", ())
        return {str(each["client_id"]) for each in clients if each.get("replay") is not None}

    def joined(self) -> bool:
        """Return whether no client id is served by a replay."""
        return self.active_server() is not None and not self.replayed()

    def positions(self) -> list[GroupPosition | None]:
        """Return the cursor of each client id, and positions that some keep themselves; None: not known."""
        cursors = (self._read(f"{self.tree.client(client)}/cursor") for client in self.consumers.journals)
        texts = [*cursors, *self.consumers.positions()]
        return [GroupPosition.from_json(text) if text else None for text in texts]

    def states(self) -> dict[str, Any]:
        """Return each server's state, by address: the reason of a stall."""
        return {server.address: self._state(server) for server in self.servers}

    def acknowledged(self, source: Source, record: Commits) -> bool:
        """Return whether all client ids have acknowledged and completed everything written to a shard."""
        last = record.commits[-1].gtid_set if record.commits else None
        return all(
            position is not None
            and (at := position.shards.get(source.name)) is not None
            and (last is None or at.gtid_set.contains(last))
            for position in self.positions()
        )

    def written(self) -> bool:
        """Return whether all writers have ended."""
        return not any(writer.is_alive() for writer in self.writers)

    def drained(self) -> bool:
        """Return whether all client ids have acknowledged everything that was written."""
        each = zip(self.sources, self.writers, strict=True)
        return all(self.acknowledged(source, writer.record) for source, writer in each)

    def copied(self) -> bool:
        """Return whether all snapshots have ended."""
        return all(position is not None and not position.snapshots for position in self.positions())

    def until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait for a condition, and restart processes meanwhile.

        Raises:
            NotReadyError: it was not met in time.
        """
        deadline_s = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline_s:
                raise NotReadyError(f"Waited {seconds:.0f} s for {what}, without success.")
            self.check_writers()
            self.tend(set())
            time.sleep(_POLL_S)

    def check_writers(self) -> None:
        """Raise RuntimeError if a writer has failed."""
        for writer in self.writers:
            if writer.error is not None:
                raise RuntimeError(f"{writer.name} failed: {writer.error}") from writer.error

    # ---- inside ----------------------------------------------------------------------------------------

    @staticmethod
    def _state(server: Server) -> dict[str, Any] | str:
        """Return a server's state, or why it does not say."""
        operator = Operator(f"grpc://{server.address}", DESTINATION)
        try:
            return operator.status()
        except CanalGroupError as error:
            return str(error)
        finally:
            operator.close()

    def _address(self, path: str) -> str:
        found = self._read(path)
        return str(json.loads(found)["address"]) if found else ""

    def _read(self, path: str) -> bytes | None:
        if not self.zookeeper.connected:
            return None
        try:
            data: bytes = self.zookeeper.get_async(path).get(timeout=_ASK_S)[0]
        except (KazooException, self.zookeeper.handler.timeout_exception):
            return None
        return data

    def _leave_zookeeper(self) -> None:
        self.zookeeper.stop()
        self.zookeeper.close()


def _made(source: Source) -> Iterator[str]:
    """Yield statements that make a shard's tables, which snapshots may select."""
    yield from (table.create(source.index) for table in TABLES)
    yield f"GRANT SELECT ON {schema_name(source.index)}.* TO {CANAL_USER}@127.0.0.1"
