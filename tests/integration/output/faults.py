"""A relay process under faults: what is killed and paused is chosen by a seed, while rows are written."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from integration.output.published import Published
from integration.shared_servers import SharedShop
from integration.shop import DEADLINE_S
from integration.zookeeper_fixtures import eventually
from support.instance.program import PROGRAM
from support.soak import patient

from benchmarks._brokers import Broker
from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.calls.consumers import Status
from canal_group.merge.errors import CanalGroupError

#: a broker that is killed has to start again meanwhile
RECOVERED_S = patient(120.0)
#: of the kinds of faults, in a run
PLAYED = 3


class Relay:
    """`canal-group relay` in a process of its own, under one file of settings."""

    def __init__(self, folder: Path, values: dict[str, Any]) -> None:
        self._file, self._log = folder / "relay.yaml", folder / "relay.log"
        self._file.write_text(yaml.safe_dump(values))
        self._others: list[subprocess.Popen[bytes]] = []
        self.start()

    def start(self) -> None:
        self._begin = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as log:
            command = [*PROGRAM, "relay", "-c", str(self._file)]
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE_S)

    def replace(self) -> subprocess.Popen[bytes]:
        """Start another one beside this one, which is returned."""
        self._others.append(self.process)
        self.start()
        return self._others[-1]

    @property
    def said(self) -> str:
        return self._log.read_text()

    @property
    def metrics_url(self) -> str:
        """Where it answers Prometheus, as it said when it began."""
        (url,) = re.findall(r"metrics at (http://127\.0\.0\.1:\d+/metrics)", self.said)
        return str(url)

    def publishes(self) -> bool:
        """Whether a relay is active that was started last, or since."""
        with self._log.open("rb") as log:
            log.seek(self._begin)
            return b"publishing" in log.read()

    def close(self) -> None:
        for process in (self.process, *self._others):
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()


class Writer:
    """Inserts, updates and deletes rows of both shards until it is stopped, and counts them."""

    def __init__(self, shop: SharedShop, seed: int) -> None:
        self._shop, self._random = shop, random.Random(seed)
        self.changes = dict.fromkeys(shop.written, 0)
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(shard, random.Random(seed + shard)))
            for shard in range(len(shop.servers))
        ]
        for thread in self._threads:
            thread.start()

    @property
    def count(self) -> int:
        return sum(self.changes.values())

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self, shard: int, chance: random.Random) -> None:
        name, ids = f"s{shard}", list[int]()
        connection = self._shop.servers[shard].connect(f"shop_{shard}")
        with contextlib.closing(connection), connection.cursor() as cursor:
            while not self._stop.wait(0.05):
                count = chance.randint(1, 20)
                first = len(ids) + shard * 1_000_000
                fresh = list(range(first, first + count))
                cursor.execute("BEGIN")
                cursor.executemany("INSERT INTO orders VALUES (%s, 'new', 1)", [(each,) for each in fresh])
                ids += fresh
                updated = chance.sample(ids, min(5, len(ids)))
                for each in updated:
                    cursor.execute("UPDATE orders SET price = price + 1 WHERE id = %s", (each,))
                cursor.execute("COMMIT")
                self._shop.written[name] += fresh
                self.changes[name] += count + len(updated)


class Faults:
    """Plays a seed's faults, one after the other, each some rows after the one before."""

    def __init__(
        self, seed: int, shop: SharedShop, relay: Relay, broker: Broker, zookeeper: EmbeddedZooKeeper
    ) -> None:
        self._random = random.Random(seed)
        self._shop, self._relay, self._broker, self._zookeeper = shop, relay, broker, zookeeper
        self.played: list[str] = []

    def play(self, writer: Writer) -> None:
        faults: list[Callable[[], None]] = [
            self._kill_relay,
            self._restart_relay,
            self._kill_broker,
            self._kill_group,
            self._kill_gateway,
            self._kill_shard,
            self._kill_zookeeper,
            self._freeze_relay,
        ]
        for fault in self._random.sample(faults, PLAYED):
            until = writer.count + self._random.randint(100, 600)
            eventually(lambda until=until: writer.count >= until, "rows to be written", within_s=DEADLINE_S)
            self.played.append(fault.__name__)
            fault()

    def _kill_relay(self) -> None:
        self._relay.kill()
        self._relay.start()

    def _restart_relay(self) -> None:
        assert self._relay.terminate() == 0, self._relay.said
        self._relay.start()

    def _kill_broker(self) -> None:
        self._broker.kill()
        self._broker.start()

    def _kill_group(self) -> None:
        self._kill(lambda status: status["group"]["pid"])

    def _kill_gateway(self) -> None:
        self._kill(lambda status: status["gateway"]["pid"])

    def _kill_shard(self) -> None:
        self._kill(lambda status: status["shards"][0]["pid"])

    def _kill_zookeeper(self) -> None:
        assert self._zookeeper.pid is not None
        os.kill(self._zookeeper.pid, signal.SIGKILL)
        assert self._zookeeper._process is not None
        self._zookeeper._process.wait()
        self._zookeeper.start()

    def _freeze_relay(self) -> None:
        """Freeze the relay until another one has taken over: it ends, or stands by."""
        eventually(self._relay.publishes, "the relay", within_s=RECOVERED_S)
        self._relay.process.send_signal(signal.SIGSTOP)
        frozen = self._relay.replace()
        eventually(self._relay.publishes, "the take-over", within_s=RECOVERED_S)
        frozen.send_signal(signal.SIGCONT)

    def _kill(self, pid_of: Callable[[dict[str, Any]], int]) -> None:
        found: list[int] = []

        def look() -> bool:
            client = GatewayClient(self._shop.instance.uri, self._shop.destination)
            with contextlib.closing(client), contextlib.suppress(CanalGroupError):
                found.append(pid_of(client.ask(Status())))
            return bool(found)

        eventually(look, "a status", within_s=RECOVERED_S)
        os.kill(found[0], signal.SIGKILL)


def play_faults(
    folder: Path,
    values: dict[str, Any],
    seed: int,
    shop: SharedShop,
    broker: Broker,
    zookeeper: EmbeddedZooKeeper,
    taken: Callable[[], int],
) -> Writer:
    """Run a relay while rows are written and a seed's faults are played, until all changes have come.

    Args:
        folder: where its settings and its log are.
        values: its settings.
        seed: chooses the faults and the rows.
        shop: what is written to.
        broker: what it publishes to.
        zookeeper: of the shop's instance.
        taken: returns how many changes have come.

    Returns:
        What was written.
    """
    with contextlib.closing(Relay(folder, values)) as relay:
        eventually(relay.publishes, "the subscription", within_s=RECOVERED_S)
        writer = Writer(shop, seed)
        faults = Faults(seed, shop, relay, broker, zookeeper)
        try:
            faults.play(writer)
        finally:
            writer.stop()
        try:
            eventually(lambda: taken() >= writer.count, "all changes", within_s=RECOVERED_S)
        except AssertionError as error:
            error.add_note(f"{taken()} of {writer.count} came after {faults.played}:\n{relay.said}")
            raise
        assert relay.terminate() == 0
    return writer


def without_repeats(found: list[Published]) -> list[Published]:
    """Drop what a consumer of a queue has seen already: changes of a shard up to the last one's position."""
    last: dict[tuple[str, int, str], tuple[int, int, int]] = {}
    kept = []
    for each in found:
        target = each.topic, each.partition, each.headers["shard"]
        position = position_of(each)
        if position > last.get(target, (0, 0, -1)):
            last[target] = position
            kept.append(each)
    return kept


def position_of(message: Published) -> tuple[int, int, int]:
    """Return the position as one that compares."""
    file, pos, row = message.headers["position"].split(":")
    return int(file.rpartition(".")[2]), int(pos), int(row)


def check_all(found: list[Published], writer: Writer, shop: SharedShop) -> None:
    """Every change is there once, and in the order of its shard within each partition."""
    assert len({each.position for each in found}) == len(found), "a change is there twice"
    last: dict[tuple[int, str], tuple[int, int, int]] = {}
    for each in found:
        target = each.partition, each.headers["shard"]
        assert position_of(each) > last.get(target, (0, 0, -1)), "a partition has changes in another order"
        last[target] = position_of(each)
    for name, count in writer.changes.items():
        of_shard = [each for each in found if each.headers["shard"] == name]
        assert len(of_shard) == count, f"{name} has {count} changes"
        inserted = [int(each.json["data"][0]["id"]) for each in of_shard if each.json["type"] == "INSERT"]
        assert sorted(inserted) == sorted(shop.written[name])
    check_versions(found)


def check_versions(found: list[Published]) -> None:
    """The changes of a row follow each other, and each says what it has replaced."""
    prices: dict[str, float] = {}
    for each in found:
        (row,), old = each.json["data"], each.json["old"]
        price = float(row["price"])
        if old is not None:
            assert old == [{"price": f"{prices[row['id']]:.2f}"}]
        prices[row["id"]] = price
