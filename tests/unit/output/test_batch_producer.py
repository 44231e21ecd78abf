"""A batch that is handed over at once arrives as its messages do one by one, and failures have their reasons.

The broker is the one that librdkafka has inside: it speaks Kafka's protocol on a port.
"""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import count

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition, cimpl
from hypothesis import given, settings
from hypothesis import strategies as st

from canal_group.merge.rows.native.text import Values
from canal_group.programs.output.kafka.batch_producer import BatchProducer

PARTITIONS = 4
OCTETS = st.none() | st.binary(max_size=12) | st.sampled_from([b"", b"\x00", b"\xff" * 70])
TEXTS = st.none() | st.text(st.characters(codec="utf-8"), max_size=5)
MESSAGES = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, PARTITIONS - 1), OCTETS, OCTETS, TEXTS, TEXTS), max_size=20
)
NUMBERS = count()


def client(**options: object) -> dict[str, object]:
    return {"log_level": 0, **{name.replace("_", "."): value for name, value in options.items()}}


@pytest.fixture(scope="module")
def broker():
    """The address of a broker, whose topics have `PARTITIONS` partitions."""
    owner = Producer(client(test_mock_num_brokers=1))
    (found,) = owner.list_topics(timeout=10).brokers.values()
    yield f"{found.host}:{found.port}"
    del owner


def batches(broker: str, **options: object) -> BatchProducer:
    def make(plugin: str) -> Producer:
        return Producer(client(bootstrap_servers=broker, plugin_library_paths=plugin, linger_ms=0, **options))

    return BatchProducer(cimpl.__file__, make)


@pytest.fixture(scope="module")
def producer(broker: str) -> BatchProducer:
    return batches(broker)


def values(items, kind=None) -> Values:
    """Return a column that begins inside its buffers, as a slice does."""
    array = pa.array([None, *items], kind or pa.binary())[1:]
    return Values("text", len(array), array.offset, array.buffers())


def columns(topics, topic, partition, value):
    return topics, np.array(topic, np.int32), np.array(partition, np.int32), value, None, []


def held(broker: str, topics: tuple[str, str], number: int):
    """Return `number` messages of two topics, by topic and partition."""
    reader = Consumer(
        client(
            bootstrap_servers=broker,
            group_id="reader",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
    )
    reader.assign(
        [TopicPartition(topic, partition, 0) for topic in topics for partition in range(PARTITIONS)]
    )
    found: dict[tuple[int, int], list[object]] = {}
    try:
        for _ in range(number):
            record = reader.poll(20)
            assert record is not None, "a message is not there"
            assert record.error() is None
            index = topics.index(record.topic())
            found.setdefault((index, record.partition()), []).append(
                (record.key(), record.value(), record.headers())
            )
    finally:
        reader.close()
    return found


@settings(max_examples=15)
@given(MESSAGES)
def test_a_batch_arrives_as_its_messages_do_one_by_one(producer: BatchProducer, broker: str, messages):
    once, each = ([f"{name}-{next(NUMBERS)}" for _ in range(2)] for name in ("once", "each"))
    topic, partition, value, key, seq, moved = zip(*messages, strict=True) if messages else [()] * 6
    headers = [("seq", values(seq, pa.utf8())), ("moved", values(moved, pa.utf8()))]
    topics = np.array(topic, np.int32), np.array(partition, np.int32)
    answer = producer.produce(0, once, *topics, values(value), values(key), headers)
    assert answer == (len(messages), 0, "", False)
    for of_topic, of_partition, one_value, one_key, *texts in messages:
        named = [(name, text) for name, text in zip(("seq", "moved"), texts, strict=True) if text is not None]
        producer.producer.produce(each[of_topic], one_value, one_key, of_partition, headers=named)
    assert producer.producer.flush(20) == 0
    assert producer.undelivered() is None
    assert held(broker, once, len(messages)) == held(broker, each, len(messages))


def test_a_full_queue_takes_the_rest_later(broker: str):
    producer = batches(broker, queue_buffering_max_messages=3)
    topics = (f"full-{next(NUMBERS)}", "none")
    texts = [b"%d" % number for number in range(8)]
    batch = columns(topics, [0] * 8, [1] * 8, values(texts))
    taken, code, *_ = producer.produce(0, *batch)
    assert (taken, code) == (3, KafkaError._QUEUE_FULL)
    while code:
        assert code == KafkaError._QUEUE_FULL
        assert producer.producer.flush(20) == 0
        taken, code, *_ = producer.produce(taken, *batch)
    assert producer.producer.flush(20) == 0
    assert [value for _, value, _ in held(broker, topics, 8)[0, 1]] == texts


@pytest.mark.parametrize("name", ["x" * 600, "a\0b"])
def test_a_topic_that_cannot_be_is_refused_after_the_messages_before_it(producer: BatchProducer, name: str):
    batch = columns(["fine", name], [0, 0, 1, 0], [0] * 4, values([b"1"] * 4))
    assert producer.produce(0, *batch) == (2, KafkaError._INVALID_ARG, "", False)


def test_a_message_that_is_too_large_is_refused_in_words(broker: str):
    producer = batches(broker, message_max_bytes=2_000)
    taken, code, words, is_fatal = producer.produce(
        0, *columns(["large"], [0, 0], [0, 0], values([b"1", b"x" * 3_000]))
    )
    assert (taken, code, is_fatal) == (1, KafkaError.MSG_SIZE_TOO_LARGE, False)
    assert "too large" in words


def test_the_first_message_that_is_not_delivered_is_named(broker: str):
    producer = batches(broker)
    batch = columns(["known", "lacking"], [0, 1, 0], [0, 77, 88], values([b"1"] * 3))
    assert producer.produce(0, *batch)[0] == 3 or producer.undelivered() is not None
    deadline_s = time.monotonic() + 20
    while producer.undelivered() is None:
        producer.producer.poll(0.05)
        assert time.monotonic() < deadline_s
    code, topic = producer.undelivered()
    assert code == KafkaError._UNKNOWN_PARTITION
    assert topic in {"known", "lacking"}


@pytest.mark.parametrize(
    "batch",
    [
        columns(["a"], [1], [0], values([b"1"])),
        columns(["a"], [-1], [0], values([b"1"])),
        columns(["a"], [0, 0], [0], values([b"1"])),
        columns(["a"], [0], [0], values([b"1", b"2"])),
        columns(["a"], [0], [0], Values("int8", 1, 0, pa.array([1], pa.int8()).buffers())),
        (*columns(["a"], [0], [0], values([b"1"]))[:4], values([]), []),
        (*columns(["a"], [0], [0], values([b"1"]))[:4], None, [("seq", values([]))]),
    ],
)
def test_columns_of_different_lengths_are_refused(producer: BatchProducer, batch):
    with pytest.raises(ValueError, match="message"):
        producer.produce(0, *batch)
    with pytest.raises(ValueError, match="message"):
        producer.produce(-1, *batch)


@pytest.mark.parametrize("is_purged", [False, True])
def test_a_client_ends_with_messages_on_their_way(broker: str, *, is_purged: bool):
    """What is remembered of a client outlives its threads; `make asan` sees it if not."""
    batch = columns([f"left-{next(NUMBERS)}"], [0] * 5_000, [0] * 5_000, values([b"x" * 100] * 5_000))
    for _ in range(4):
        left = batches(broker)
        assert left.produce(0, *batch)[0] == 5_000
        if is_purged:
            left.producer.purge()
        del left
    producer = batches(broker)
    assert producer.produce(0, *batch)[0] == 5_000
    assert producer.producer.flush(20) == 0
    assert producer.undelivered() is None


def test_a_setting_that_librdkafka_refuses_is_its_error(broker: str):
    with pytest.raises(KafkaException, match="outside allowed range"):
        batches(broker, message_max_bytes=-1)
    with pytest.raises(KafkaException, match="acks"):
        batches(broker, enable_idempotence=True, acks=1)


def test_a_library_without_librdkafka_is_named():
    """In a process of its own: the functions are looked up once."""
    program = (
        "from canal_group.programs.output.kafka import batch_producer as module\n"
        "try:\n    module.BatchProducer(module.__file__, None)\n"
        "except OSError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("has no function rd_kafka_produceva")
