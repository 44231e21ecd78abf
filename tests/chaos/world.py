"""The world of a seed: everything that runs, started and ended together."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from canal_group.demo.child_process import free_port
from canal_group.demo.engine import Engine
from canal_group.demo.instance import shard_name
from canal_group.demo.server_process import DatabaseServer
from canal_group.demo.servers import make, start_all
from canal_group.demo.tables import WHITE, routes
from canal_group.demo.writer import prepare
from chaos.cluster import RayCluster, Server, cursor_settings
from chaos.ensemble import Ensemble
from chaos.journal import steps_of
from chaos.process import Program
from chaos.proxy import Proxy
from chaos.schedule import SESSION_S
from chaos.writer import Writer, workload_of
from merge.position import GroupPosition
from merge.tree import Tree

SHARDS: Final = 4
SERVERS: Final = 2
CONSUMERS: Final = 2
DESTINATION: Final = "chaos"
CLIENT: Final = "1001"
#: transactions a second of each shard
RATE: Final = 8.0
#: how long the whole may take until the first batch is acknowledged, seconds
_START_S: Final = 120.0
_POLL_S: Final = 0.1
#: how long one question to ZooKeeper may take, seconds
_ASK_S: Final = 1.0
_TESTS: Final = Path(__file__).parents[1]


class NotReadyError(RuntimeError):
    """Something that was awaited did not happen."""


class World:
    """All processes of a seed; a context manager that ends them, whatever happened.

    Args:
        folder: where everything but Ray writes.
        ray_folder: where Ray does; short, because the paths of its sockets are bounded.
        seed: of the writers.
        seconds: how long they write.
    """

    def __init__(self, folder: Path, ray_folder: Path, seed: int, seconds: float) -> None:
        self.folder = folder
        self._ray_folder = ray_folder
        self._seed, self._seconds = seed, seconds
        self._stack = ExitStack()
        self.tree = Tree(DESTINATION)
        self.ensemble = Ensemble(folder)
        self.sources: list[DatabaseServer] = []
        self.source_proxies: list[Proxy] = []
        self.servers: list[Server] = []
        #: by server, one to each ZooKeeper
        self.coordination_proxies: list[list[Proxy]] = []
        self.consumers: list[Program] = []
        #: folders of all consumers so far, in the order of their begin
        self.journals: list[Path] = []
        self.writers: list[Writer] = []
        self._consumer_number = 0

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
        """Start everything, and wait until the first batch is acknowledged."""
        self._stack.callback(self.ensemble.close)
        self.ensemble.start()
        self.sources = make(Engine.MARIADB, SHARDS)
        for source in self.sources:
            self._stack.callback(source.close)
        # Ray is started by this thread: it asks for signals.
        with ThreadPoolExecutor(1) as pool:
            sources = pool.submit(start_all, self.sources)
            self.ray = RayCluster(self._ray_folder)
            self._stack.callback(self.ray.close)
            sources.result()
        self.ensemble.wait()
        self.zookeeper = KazooClient(self.ensemble.hosts)
        self.zookeeper.start()
        self._stack.callback(self._leave_zookeeper)
        self._start_servers()
        self._start_writers()

    def _start_servers(self) -> None:
        for source in self.sources:
            self.source_proxies.append(self._proxy(f"127.0.0.1:{source.port}"))
        for number in range(SERVERS):
            proxies = [self._proxy(member.hosts) for member in self.ensemble.members]
            self.coordination_proxies.append(proxies)
            hosts = ",".join(proxy.hosts for proxy in proxies)
            server = Server(number, self._settings(hosts), self.ray.address, self.folder)
            self.servers.append(server)
            self._stack.callback(server.program.end)
            server.program.start()
        for _ in range(CONSUMERS):
            self.consumers.append(self._consumer())
            self._stack.callback(self._end_consumer, len(self.consumers) - 1)

    def _start_writers(self) -> None:
        """Begin to write when a consumer is there, so that all that is written belongs to the stream."""
        with ThreadPoolExecutor(SHARDS) as pool:
            names = [shard_name(shard) for shard in range(SHARDS)]
            records = list(pool.map(prepare, self.sources, range(SHARDS), names))
        self.until(self.subscribed, _START_S, "a consumer to be subscribed")
        for shard, (source, record) in enumerate(zip(self.sources, records, strict=True)):
            workload = workload_of(shard, SHARDS, self._seed, rate=RATE, seconds=self._seconds)
            writer = Writer(source, shard, workload, record, rate=RATE, seconds=self._seconds)
            self.writers.append(writer)
            self._stack.callback(writer.join)
            self._stack.callback(writer.abandon)
            writer.start()
        self.until(lambda: self.cursor() is not None, _START_S, "the first acknowledgement")

    def _proxy(self, hosts: str) -> Proxy:
        proxy = Proxy(hosts)
        self._stack.callback(proxy.close)
        return proxy

    def _settings(self, hosts: str) -> dict[str, Any]:
        password = self.folder / "password"
        shards = []
        for shard, (source, proxy) in enumerate(zip(self.sources, self.source_proxies, strict=True)):
            address = source.address()
            password.touch(mode=0o600)
            password.write_text(address.password)
            shards.append(
                {
                    "name": shard_name(shard),
                    "host": "127.0.0.1",
                    "port": proxy.port,
                    "user": address.user,
                    "password_file": str(password),
                }
            )
        return {
            "preset": "default",
            "destination": DESTINATION,
            "shards": shards,
            "start": "latest",
            "filter": {"white": WHITE, "routes": routes()},
            "reader": {"read_timeout_s": 3, "connect_timeout_s": 3},
            "consumer": {"lease_s": 3},
            "coordination": {"kind": "zookeeper", "hosts": hosts, "session_timeout_s": SESSION_S},
            "cursor": cursor_settings(),
            "gateway": {"port": free_port()},
        }

    def _consumer(self) -> Program:
        """Start a consumer, with a folder of its own."""
        folder = self.folder / f"consumer-{self._consumer_number}"
        self._consumer_number += 1
        self.journals.append(folder)
        options = {
            "--zookeeper": self.ensemble.hosts,
            "--destination": DESTINATION,
            "--client": CLIENT,
            "--folder": str(folder),
        }
        command = [
            sys.executable,
            "-m",
            "chaos.recorder",
            *(word for pair in options.items() for word in pair),
        ]
        program = Program(command, folder.with_suffix(".log"), {"PYTHONPATH": str(_TESTS)})
        program.start()
        return program

    # ---- while it runs ---------------------------------------------------------------------------------

    def tend(self, away: set[object]) -> None:
        """Start again whatever ended by itself, or was killed and is no longer kept away.

        Args:
            away: those that are to stay away.
        """
        for server in self.servers:
            if server.program.pid is None and server not in away:
                server.program.start()
        for index, consumer in enumerate(self.consumers):
            if consumer.pid is None and consumer not in away:
                self.consumers[index] = self._consumer()

    def active_server(self) -> Server | None:
        """Return the server that holds the destination, as far as ZooKeeper answers."""
        address = self._address(self.tree.running)
        return next((server for server in self.servers if server.address == address), None)

    def active_consumer(self) -> Program | None:
        """Return the consumer that holds the client id, as far as ZooKeeper answers."""
        holder = self._address(self.tree.client_running(CLIENT)).split(":")
        pids = {str(consumer.pid): consumer for consumer in self.consumers if consumer.pid is not None}
        return pids.get(holder[1]) if len(holder) > 1 else None

    def subscribed(self) -> bool:
        """Return whether a consumer has subscribed: each shard has told where its stream begins."""
        return any(step.what == "subscribed" for folder in self.journals for step in steps_of(folder))

    def cursor(self) -> GroupPosition | None:
        """Return the cursor; None: there is none, or ZooKeeper does not answer."""
        found = self._read(f"{self.tree.client(CLIENT)}/cursor")
        return GroupPosition.from_json(found) if found else None

    def drained(self) -> bool:
        """Return whether everything that was written is acknowledged."""
        cursor = self.cursor()
        if cursor is None or any(writer.is_alive() for writer in self.writers):
            return False
        for writer in self.writers:
            record = writer.record
            source, last = record.gtid_source, record.first + len(record.transactions) - 1
            place = cursor.shards.get(record.shard)
            if place is None or f"{source}{last}" not in str(place.gtid_set).split(","):
                return False
        return True

    def until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait for something, and tend to what runs meanwhile.

        Raises:
            NotReadyError: it did not happen in time.
        """
        deadline_s = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline_s:
                raise NotReadyError(f"Waited {seconds:.0f} s in vain for {what}.")
            self.check_writers()
            self.tend(set())
            time.sleep(_POLL_S)

    def check_writers(self) -> None:
        """Raise RuntimeError if a writer has failed."""
        for writer in self.writers:
            if writer.error is not None:
                raise RuntimeError(f"{writer.name} failed: {writer.error}") from writer.error

    def end_consumers(self) -> None:
        """End the consumers in good order: what they have written down is complete."""
        for consumer in self.consumers:
            consumer.end()

    # ---- inside ----------------------------------------------------------------------------------------

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

    def _end_consumer(self, index: int) -> None:
        self.consumers[index].end()
