"""A destination's changes in each output: all of them, in order, where the rules say."""

from __future__ import annotations

import re
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from integration.output.published import Published, Queue, Running, in_kafka, in_lines, publishing
from integration.output.relay_values import relay_values
from integration.shared_servers import SharedShop
from integration.shop import DEADLINE_S
from integration.zookeeper_fixtures import eventually

from benchmarks._brokers import Broker
from canal_group.canal_protocol.entry_pb2 import Entry, EventType, RowChange
from canal_group.canal_protocol.packet_pb2 import Messages, Packet, PacketType
from merge.errors import SinkRefused

EXAMPLES = Path(__file__).parents[3] / "examples"


def topic_of(shop: SharedShop) -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


def write(shop: SharedShop, running: Running, transactions: int = 5) -> None:
    """Write to both shards and wait until that is published."""
    before = shop.rows
    shop.write_everywhere(transactions, rows=20)
    count = shop.rows - before
    eventually(lambda: running.publisher.published >= count, "the rows to be published", within_s=DEADLINE_S)


def check_written(found: list, shop: SharedShop) -> None:
    """Each shard's inserted ids are there, in order."""
    for shard, ids in shop.written.items():
        seen = [int(each.json["data"][0]["id"]) for each in found if each.headers["shard"] == shard]
        assert seen == ids


def test_a_file_of_lines_has_every_change_once_across_restarts(served: SharedShop, tmp_path: Path):
    path = tmp_path / "lines"
    settings = relay_values(served, {"kind": "lines", "path": str(path)})
    for _ in range(2):
        with publishing(settings) as running:
            write(served, running)
    found = in_lines(path)
    check_written(found, served)
    numbers = [int(each.headers["seq"]) for each in found]
    assert numbers == sorted(set(numbers))


def test_kafka_has_every_change_once_across_restarts(served: SharedShop, kafka: Broker):
    topic = topic_of(served)
    settings = relay_values(served, {"kind": "kafka", "servers": kafka.hosts}, route={"topic": topic})
    for _ in range(2):
        with publishing(settings) as running:
            write(served, running)
    found = in_kafka(kafka, topic)
    check_written(found, served)
    numbers = [int(each.headers["seq"]) for each in found]
    assert numbers == sorted(set(numbers))


def test_rabbitmq_has_every_change_across_restarts(served: SharedShop, rabbit: Broker):
    queue = Queue(rabbit, topic_of(served))
    settings = relay_values(served, {"kind": "rabbitmq", "port": rabbit.port}, route={"topic": queue.name})
    for _ in range(2):
        with publishing(settings) as running:
            write(served, running)
    check_written(queue.take(), served)


def test_a_table_whose_messages_cannot_be_sent_ends_the_relay_by_its_name(served: SharedShop, rabbit: Broker):
    route = {"topic": "t", "dynamic_topic": f"{'x' * 256}:shop.orders"}
    settings = relay_values(served, {"kind": "rabbitmq", "port": rabbit.port}, route=route)
    with publishing(settings) as running:
        served.write_everywhere(1, rows=20)
        running.join()
    assert isinstance(running.error, SinkRefused)
    assert re.search(r"^Of table shop\.orders: .* has 256 bytes", str(running.error))


def test_packets_of_canal_have_an_entry_for_each_change(served: SharedShop, kafka: Broker):
    topic = topic_of(served)
    output = {"kind": "kafka", "servers": kafka.hosts}
    served.write(0, 1)  # the table is known
    settings = relay_values(served, output, route={"topic": topic}, format="protobuf")
    with publishing(settings) as running:
        served.write_everywhere(2, rows=10)
        served.servers[0].execute("ALTER TABLE shop_0.orders ADD COLUMN extra INT")
        served.servers[0].execute("UPDATE shop_0.orders SET extra = 7 WHERE id = 0")

        def rows() -> list[tuple[str, dict[str, str]]]:
            return entries_of(in_kafka(kafka, topic))

        eventually(
            lambda: running.publisher.published and any(kind == "UPDATE" for kind, _ in rows()),
            "the update",
            within_s=DEADLINE_S,
        )
    found = rows()
    assert sorted(int(row["id"]) for kind, row in found if kind == "INSERT") == sorted(
        each for ids in served.written.values() for each in ids
    )
    assert [kind for kind, _ in found if kind not in {"INSERT", "UPDATE"}] == ["ALTER"]
    assert [row["extra"] for kind, row in found if kind == "UPDATE"] == ["7"]


def entries_of(found: list[Published]) -> list[tuple[str, dict[str, str]]]:
    """Return event type and row of each entry, as canal's clients decode them."""
    rows = []
    for each in found:
        packet = Packet.FromString(each.value)
        assert packet.type == PacketType.MESSAGES
        messages = Messages.FromString(packet.body).messages
        assert len(messages) == int(each.headers["rows"])
        for message in messages:
            change = RowChange.FromString(Entry.FromString(message).storeValue)
            row = change.rowDatas[0].afterColumns if change.rowDatas else []
            rows.append((EventType.Name(change.eventType), {column.name: column.value for column in row}))
    return rows


@pytest.mark.soak
def test_the_examples_print_what_was_published(served: SharedShop, kafka: Broker, rabbit: Broker):
    queue = Queue(rabbit, topic_of(served))
    targets = {
        "from_kafka.py": ("--servers", kafka.hosts, "--topic", queue.name),
        "from_rabbitmq.py": ("--port", str(rabbit.port), "--queue", queue.name),
    }
    outputs = {
        "from_kafka.py": {"kind": "kafka", "servers": kafka.hosts},
        "from_rabbitmq.py": {"kind": "rabbitmq", "port": rabbit.port},
    }
    settings = [relay_values(served, output, route={"topic": queue.name}) for output in outputs.values()]
    with publishing(settings[0]) as one, publishing(settings[1]) as other:
        eventually(lambda: len(served.client_ids()) == len(settings), "both to have begun")
        served.write_everywhere(2, rows=5)
        eventually(
            lambda: min(one.publisher.published, other.publisher.published) >= served.rows,
            "the rows to be published",
            within_s=DEADLINE_S,
        )
    for name, options in targets.items():
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / name), *options, "--idle", "5"],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=True,
        )
        lines = done.stdout.splitlines()
        assert len(lines) == served.rows, done.stderr
        assert all("INSERT" in line for line in lines)
