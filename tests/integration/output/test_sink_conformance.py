"""Every kind of output passes the tests of sinks, and says in a sentence what an operator must change."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from integration.output.published import Queue, in_kafka, in_lines

from benchmarks._kafka_broker import KafkaBroker
from benchmarks._rabbit_broker import RabbitBroker
from canal_group.conf.relay.kafka_settings import KafkaSettings
from canal_group.conf.relay.rabbitmq_settings import RabbitSettings
from canal_group.merge.errors import SinkRefused
from canal_group.programs.conformance.sink import SinkConformance, Target, after, messages, publish
from canal_group.programs.output.kinds import kinds, sink_of
from canal_group.programs.output.sink import Sink
from canal_group.programs.output.sinks.lines import LinesSettings


class LinesTarget(Target):
    topic = "orders"

    def __init__(self, folder: Path) -> None:
        self.path = folder / "lines"

    def sink(self, name: str = "shop/1001") -> Sink:
        return sink_of(LinesSettings(path=self.path), name)

    def held(self) -> Sequence[tuple[int, str, dict[str, str]]]:
        return [
            (each.partition, each.value.decode().replace(" ", ""), each.headers)
            for each in in_lines(self.path)
        ]


class KafkaTarget(Target):
    def __init__(self, broker: KafkaBroker) -> None:
        self._broker = broker
        self.topic = f"conform-{uuid.uuid4().hex[:8]}"
        admin = AdminClient(broker.client)
        admin.create_topics([NewTopic(self.topic, 2, 1)])[self.topic].result()

    def sink(self, name: str = "shop/1001") -> Sink:
        more = {
            "transactional_id": f"{self.topic}-{name}",
            "silence_s": 5.0,
            "transaction_timeout_s": 10.0,
        }
        return sink_of(KafkaSettings.model_validate({**self._broker.output, **more}), name)

    def held(self) -> Sequence[tuple[int, str, dict[str, str]]]:
        found = in_kafka(self._broker, self.topic)
        return [(each.partition, each.value.decode(), each.headers) for each in found]

    def fail(self) -> None:
        self._broker.kill()

    def recover(self) -> None:
        self._broker.start()


class RabbitTarget(Target):
    def __init__(self, broker: RabbitBroker) -> None:
        self._broker = broker
        self._queue = Queue(broker, f"conform-{uuid.uuid4().hex[:8]}")
        self.topic = self._queue.name

    def sink(self, name: str = "shop/1001") -> Sink:
        return sink_of(RabbitSettings.model_validate({**self._broker.output, "silence_s": 5.0}), name)

    def held(self) -> Sequence[tuple[int, str, dict[str, str]]]:
        return [(each.partition, each.value.decode(), each.headers) for each in self._queue.take()]

    def fail(self) -> None:
        self._broker.kill()

    def recover(self) -> None:
        self._broker.start()


class BrokerConformance(SinkConformance):
    """A broker takes long to start again."""

    @pytest.mark.soak
    def test_an_unreachable_output_is_unavailable_and_returns_with_its_data(self, target: Target, sink: Sink):
        super().test_an_unreachable_output_is_unavailable_and_returns_with_its_data(target, sink)


def killed(sink: Sink, target: LinesTarget, numbers: range) -> None:
    """Write, and leave the file as a writer does that was killed inside a line."""
    sink.write(messages(target.topic, numbers))
    sink.flush()
    sink.close()
    os.truncate(target.path, target.path.stat().st_size - 7)


class TestLines(SinkConformance):
    @pytest.fixture
    def target(self, tmp_path: Path) -> Target:
        return LinesTarget(tmp_path)

    def test_a_file_with_something_in_it_is_left_alone(self, target: LinesTarget, sink: Sink):
        target.path.write_text("mine\n")
        with pytest.raises(SinkRefused, match="holds something already"):
            sink.open()
        assert target.path.read_text() == "mine\n"

    def test_a_file_that_lost_what_was_confirmed_is_refused(self, target: LinesTarget, sink: Sink):
        sink.open()
        publish(sink, target.topic, range(4))
        sink.close()
        target.path.write_text("")
        with pytest.raises(SinkRefused, match="shorter than"):
            sink.open()

    @pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
    def test_leftovers_of_a_killed_writer_are_not_part_of_a_confirmation(
        self, target: LinesTarget, sink: Sink, *, again: bool
    ):
        """A batch without messages comes first: its confirmation must not count the torn rest."""
        sink.open()
        publish(sink, target.topic, range(5))
        killed(sink, target, range(5, 900))
        sink.open()
        publish(sink, target.topic, range(5, 5))
        if again:
            killed(sink, target, range(5, 20))
            assert sink.open() == after(5)
        publish(sink, target.topic, range(5, 26))
        assert [value for _, value, _ in target.held()] == [f'{{"n":{n}}}' for n in range(26)]

    def test_a_confirmed_part_that_was_changed_is_refused_and_left(self, target: LinesTarget, sink: Sink):
        sink.open()
        publish(sink, target.topic, range(4))
        sink.close()
        changed = target.path.read_text().replace('"n":2', '"n":7')
        target.path.write_text(changed + "torn")
        with pytest.raises(SinkRefused, match="was changed: its first"):
            sink.open()
        assert target.path.read_text() == changed + "torn"

    def test_a_file_that_another_program_writes_to_or_replaces_is_refused(
        self, target: LinesTarget, sink: Sink
    ):
        sink.open()
        publish(sink, target.topic, range(4))
        with target.path.open("a") as other:
            other.write("mine\n")
        with pytest.raises(SinkRefused, match=r"has \d+ bytes, and \d+ were written"):
            sink.confirm(after(4))
        sink.close()
        sink.open()
        target.path.rename(target.path.with_name("old"))
        target.path.write_text("new\n")
        sink.write(messages(target.topic, range(4, 6)))
        with pytest.raises(SinkRefused, match="was replaced"):
            sink.confirm(after(6))
        assert target.path.read_text() == "new\n"


@pytest.mark.soak
class TestKafka(BrokerConformance):
    @pytest.fixture
    def target(self, kafka: KafkaBroker) -> Target:
        return KafkaTarget(kafka)

    def test_a_partition_that_the_topic_lacks_is_refused(self, target: Target, sink: Sink):
        sink.open()
        made = messages(target.topic, range(2))
        with pytest.raises(SinkRefused, match=r"Lower route\.partitions"):
            _publish(sink, replace(made, partition=made.partition + 7))
        sink.close()
        sink.open()
        publish(sink, target.topic, range(2))
        assert len(target.held()) == 2

    def test_a_message_that_is_too_large_is_refused_and_named(self, target: Target, sink: Sink):
        sink.open()
        with pytest.raises(SinkRefused, match=f"{target.topic}.*message_bytes_max"):
            _publish(sink, replace(messages(target.topic, [0]), value=pa.array(["x" * 2_000_000])))

    def test_a_position_is_found_before_many_of_others(self, target: Target, sink: Sink):
        """The topic of the positions is read backward, in longer and longer pieces."""
        sink.open()
        publish(sink, target.topic, range(2))
        sink.close()
        other = target.sink("shop/other")
        other.open()
        for number in range(40):
            publish(other, target.topic, range(number, number + 1))
        other.close()
        found = sink.open()
        assert found is not None
        assert found.sequence == 2


@pytest.mark.soak
class TestRabbit(BrokerConformance):
    @pytest.fixture
    def target(self, rabbit: RabbitBroker) -> Target:
        return RabbitTarget(rabbit)

    def test_a_message_that_reaches_no_queue_is_refused(self, sink: Sink):
        sink.open()
        with pytest.raises(SinkRefused, match="no queue for the routing key nowhere"):
            publish(sink, "nowhere", range(2))

    def test_a_message_that_cannot_be_encoded_is_refused_and_not_tried_again(
        self, target: Target, sink: Sink
    ):
        sink.open()
        made = messages(target.topic, range(2))
        with pytest.raises(SinkRefused, match=r"cannot be encoded \(ShortStringTooLong"):
            _publish(sink, replace(made, headers={**made.headers, "x" * 300: made.headers["seq"]}))
        sink.close()
        sink.open()
        publish(sink, target.topic, range(2))
        assert len(target.held()) == 2

    def test_an_exchange_that_is_missing_is_refused(self, rabbit: RabbitBroker):
        sink = sink_of(RabbitSettings.model_validate({**rabbit.output, "exchange": "none"}), "shop/1001")
        with pytest.raises(SinkRefused, match="no exchange 'none'"):
            sink.open()
        sink.close()


def test_a_routing_key_that_amqp_cannot_hold_is_refused_before_it_is_sent():
    sink = sink_of(RabbitSettings(partition_keys=True), "shop/1001")
    with pytest.raises(SinkRefused, match=r"its routing key has 257 bytes, and AMQP takes 255") as caught:
        sink.write(messages("ä" * 127 + "x", range(2)))
    assert caught.value.details["topic"] == "ä" * 127 + "x"


def test_every_kind_is_tested_here():
    tested = {name.removeprefix("Test").lower() for name in globals() if name.startswith("Test")}
    assert tested == {kind.removesuffix("mq") for kind in kinds()}


def _publish(sink: Sink, made) -> None:
    sink.write(made)
    sink.flush()
    sink.confirm(after(1))
