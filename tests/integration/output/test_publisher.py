"""A destination's changes in each output: all of them, in order, where the rules say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from contextlib import ExitStack
from pathlib import Path

import pytest
from integration.output.published import Published, Queue, Running, in_kafka, in_lines, publishing
from integration.output.relay_values import relay_values
from integration.shared_servers import SharedShop
from integration.shop import DEADLINE_S
from integration.zookeeper_fixtures import eventually

import canal_group
from benchmarks._brokers import PASSWORD, USER
from benchmarks._kafka_broker import KafkaBroker
from benchmarks._rabbit_broker import RabbitBroker
from canal_group.canal_protocol.entry_pb2 import Entry, EventType, RowChange
from canal_group.canal_protocol.packet_pb2 import Messages, Packet, PacketType
from canal_group.merge.errors import FencedError, SinkRefused
from canal_group.operator import Operator, calls
from canal_group.programs.output.kinds import sink_of

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


def test_an_output_knows_where_it_began_before_it_has_a_batch(served: SharedShop, tmp_path: Path):
    """1. A relay opens its output; 2. rows come, and the cursor passes them, as it does if a group begins
    again while a range is read ahead; 3. they are published nevertheless.
    """
    path = tmp_path / "lines"
    settings = relay_values(served, {"kind": "lines", "path": str(path)})
    with publishing(settings) as running:
        eventually(
            lambda: running.publisher.counters.describe()["publishing"], "the relay", within_s=DEADLINE_S
        )
    served.write_everywhere(2)
    with served.connect(
        client_id=settings["read"]["client_id"], filter=settings["read"]["filter"]
    ) as consumer:
        batch = consumer.get_without_ack(1, timeout=DEADLINE_S)
        assert batch is not None
        consumer.ack(batch.batch_id)
    with publishing(settings) as running:
        write(served, running)
    check_written(in_lines(path), served)


def test_kafka_has_every_change_once_across_restarts(served: SharedShop, kafka: KafkaBroker):
    topic = topic_of(served)
    settings = relay_values(served, kafka.output, route={"topic": topic})
    for _ in range(2):
        with publishing(settings) as running:
            write(served, running)
    found = in_kafka(kafka, topic)
    check_written(found, served)
    numbers = [int(each.headers["seq"]) for each in found]
    assert numbers == sorted(set(numbers))


def test_the_active_publisher_takes_its_transactions_back_once(served: SharedShop, kafka: KafkaBroker):
    """A predecessor that was paused opens the sink when it wakes; the group has the other one as active."""
    topic = topic_of(served)
    settings = relay_values(served, kafka.output, route={"topic": topic})
    before = served.rows
    with publishing(settings) as running:
        for _ in range(2):
            served.write_everywhere(5, rows=20)
            count = served.rows - before
            eventually(lambda: running.publisher.published >= count, "all rows", within_s=DEADLINE_S)  # noqa: B023
            stale = sink_of(running.publisher.settings.output, running.publisher.settings.name)
            stale.open()
            stale.close()
        served.write_everywhere(5)
        eventually(lambda: running.ended, "the end of one that is taken over again", within_s=DEADLINE_S)
    assert isinstance(running.error, FencedError)
    with publishing(settings) as running:
        write(served, running)
    found = in_kafka(kafka, topic)
    check_written(found, served)
    numbers = [int(each.headers["seq"]) for each in found]
    assert numbers == sorted(set(numbers))


def test_rabbitmq_has_every_change_across_restarts(served: SharedShop, rabbit: RabbitBroker):
    queue = Queue(rabbit, topic_of(served))
    settings = relay_values(served, rabbit.output, route={"topic": queue.name})
    for _ in range(2):
        with publishing(settings) as running:
            write(served, running)
    check_written(queue.take(), served)


def test_a_table_with_messages_that_cannot_be_sent_ends_the_relay(served: SharedShop, rabbit: RabbitBroker):
    route = {"topic": "t", "dynamic_topic": f"{'x' * 256}:shop.orders"}
    settings = relay_values(served, rabbit.output, route=route)
    with publishing(settings) as running:
        served.write_everywhere(1, rows=20)
        running.join()
    assert isinstance(running.error, SinkRefused)
    assert re.search(r"^Of table shop\.orders: .* has 256 bytes", str(running.error))


def test_packets_of_canal_have_an_entry_for_each_change(served: SharedShop, kafka: KafkaBroker):
    topic = topic_of(served)
    served.write(0, 1)  # the table is known
    settings = relay_values(served, kafka.output, route={"topic": topic}, format="protobuf")
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
def test_the_examples_print_what_was_published(served: SharedShop, kafka: KafkaBroker, rabbit: RabbitBroker):
    queue = Queue(rabbit, topic_of(served))
    targets = {
        "from_kafka.py": (
            *("--servers", kafka.hosts, "--topic", queue.name),
            *("--username", USER, "--mechanism", "PLAIN", "--protocol", "SASL_PLAINTEXT"),
        ),
        "from_rabbitmq.py": ("--port", str(rabbit.port), "--queue", queue.name, "--username", USER),
    }
    outputs = kafka.output, rabbit.output
    settings = [relay_values(served, output, route={"topic": queue.name}) for output in outputs]
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
            env={**os.environ, "KAFKA_PASSWORD": PASSWORD, "RABBITMQ_PASSWORD": PASSWORD},
        )
        lines = done.stdout.splitlines()
        assert len(lines) == served.rows, done.stderr
        assert all("INSERT" in line for line in lines)


@pytest.mark.soak
def test_the_mark_of_an_event_that_was_left_out_reaches_every_output(
    unshared: SharedShop, kafka: KafkaBroker, rabbit: RabbitBroker, tmp_path: Path
):
    queue, path = Queue(rabbit, topic_of(unshared)), tmp_path / "lines"
    outputs = kafka.output, rabbit.output, {"kind": "lines", "path": str(path)}
    operator = Operator(unshared.instance.uri, unshared.destination)

    def stopped_at() -> str | None:
        shard = next(each for each in operator.status()["shards"] if each["shard"] == "s0")
        named = re.search(r"--at (\S+:\d+)$", str(shard["error"]))
        return None if named is None else named[1]

    settings = [relay_values(unshared, output, route={"topic": queue.name}) for output in outputs]
    for count, each in enumerate(settings, 1):
        with publishing(each):
            eventually(lambda count=count: len(unshared.client_ids()) == count, "it to have begun")
    unshared.servers[0].execute(
        "SET SESSION binlog_format = 'STATEMENT'",
        "INSERT INTO shop_0.orders VALUES (-1, 'a secret', 1)",
        "SET SESSION binlog_format = 'ROW'",
    )
    eventually(stopped_at, "the statement to stop its shard", within_s=DEADLINE_S)
    at = stopped_at()
    assert at is not None
    operator.ask(calls.SkipEvent("s0", at))

    def group_waits() -> bool:
        return any(shard["error"] for shard in operator.status()["group"]["shards"])

    # A relay that asks before the group knows that the shard goes on ends with the shard's error.
    eventually(lambda: not group_waits(), "the shard to go on", within_s=DEADLINE_S)
    with ExitStack() as stack:
        for running in [stack.enter_context(publishing(each)) for each in settings]:
            write(unshared, running, transactions=1)
    for found in (in_kafka(kafka, queue.name), queue.take(), in_lines(path)):
        marks = [mark for each in found if (mark := canal_group.SkipMark.of_sql(each.json["sql"]))]
        assert [(mark.shard, f"{mark.file}:{mark.from_offset}", mark.verb) for mark in marks] == [
            ("s0", at, "INSERT")
        ]
        assert not any(b"secret" in each.value for each in found)
