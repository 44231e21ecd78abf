"""Kafka: each batch is one transaction, and the position is a record in it.

The producer is idempotent and transactional, under one transactional id for a destination and client id. The
position is the value of a record in the position topic, with that id as its key. So messages and position are
committed together, or not at all, and a `read_committed` consumer sees each change once
(docs/adr/0038-a-position-travels-in-kafkas-transaction.md).

Opening the id fences an older producer of it: Kafka refuses whatever it still sends, and ends the transaction
that it left open.
"""

from __future__ import annotations

import contextlib
import time
from itertools import repeat
from typing import Any, ClassVar, Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from canal_group.conf.relay.kafka_settings import KafkaSettings
from canal_group.merge.values.position import GroupPosition
from canal_group.programs.output.kafka.failures import Failures
from canal_group.programs.output.kafka.position_topic import PositionTopic
from canal_group.programs.output.messages import Messages
from canal_group.programs.output.tls import tls_context

#: how long one call to librdkafka waits before signals and deadlines are looked at again, seconds
_SLICE_S: Final = 0.2
#: messages that librdkafka holds, and their bytes
_QUEUED_MAX: Final = 200_000
_QUEUED_KIB_MAX: Final = 64 << 10


class Kafka:
    """A transactional producer; see the module and `canal_group.programs.output.sink`."""

    keeps_position: ClassVar[bool] = True

    def __init__(self, settings: KafkaSettings, name: str) -> None:
        self._settings = settings
        self._id = settings.transactional_id or f"canal-group-{name.replace('/', '-')}"
        self._producer: Any = None
        self._is_in_transaction = False
        self._failures = Failures(settings.address, self._id)
        self._positions = PositionTopic(settings, self._id, self._failures)

    def open(self) -> GroupPosition | None:
        """Fence an older producer, and read the last committed position."""
        self.close()
        self._failures.forget()
        trying = self._failures.trying
        tls_context(self._settings, self._settings.address)
        admin = trying(lambda: AdminClient(self._connection()))
        trying(lambda: self._positions.create(admin))
        self._producer = trying(lambda: Producer(self._options()))
        trying(lambda: self._producer.init_transactions(self._settings.silence_s))
        return trying(lambda: self._positions.last(admin))

    def write(self, messages: Messages) -> None:
        """Hand messages to librdkafka, which sends them in the background; wait while its queue is full."""
        self._begin()
        names = list(messages.headers)
        headers = [messages.headers[name].to_pylist() for name in names]
        each = zip(
            (messages.topics[index] for index in messages.topic.tolist()),
            messages.partition.tolist(),
            messages.value.to_pylist(),
            repeat(None) if messages.key is None else messages.key.to_pylist(),
            zip(*headers, strict=True),
            strict=False,
        )
        lacking = any(texts.null_count for texts in messages.headers.values())
        for topic, partition, value, key, texts in each:
            kafka_headers = list(zip(names, texts, strict=True))
            if lacking:
                kafka_headers = [header for header in kafka_headers if header[1] is not None]
            self._produce(topic, value, key, partition, kafka_headers)
        self._failures.trying(lambda: self._producer.poll(0))
        self._failures.check_delivered()

    def flush(self) -> None:
        """Return when the brokers have all messages."""
        deadline_s = time.monotonic() + self._settings.silence_s
        waiting = len(self._producer)
        while waiting:
            now = self._failures.trying(lambda: self._producer.flush(_SLICE_S))
            if now < waiting:
                deadline_s = time.monotonic() + self._settings.silence_s
            waiting = now
            self._failures.check_delivered()
            if waiting and time.monotonic() > deadline_s:
                raise self._failures.silent(f"has not confirmed {waiting} messages")

    def confirm(self, position: GroupPosition) -> None:
        """Commit the transaction with the position in it."""
        self._begin()
        self._produce(self._settings.position_topic, position.to_json(), self._id, 0, [])
        deadline_s = time.monotonic() + self._settings.transaction_timeout_s
        while True:
            try:
                self._producer.commit_transaction(self._settings.silence_s)
            except KafkaException as error:
                self._failures.check_delivered()
                # The same call again: librdkafka goes on with the commit that it began.
                if error.args[0].retriable() and time.monotonic() < deadline_s:
                    continue
                raise self._failures.of(error.args[0]) from error
            break
        self._is_in_transaction = False
        self._failures.confirmed()

    def close(self) -> None:
        """Abort the transaction, or leave that to the next producer of the id."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        # If we are fenced, or no broker answers, a transaction ends when the id is opened again.
        is_open, self._is_in_transaction = self._is_in_transaction, False
        with contextlib.suppress(KafkaException):
            producer.purge()
            if is_open:
                producer.abort_transaction(_SLICE_S)

    # ---- inside

    def _connection(self) -> dict[str, Any]:
        return {**self._settings.connection(), **self._failures.connection_options}

    def _options(self) -> dict[str, Any]:
        settings = self._settings
        return {
            "linger.ms": 5,
            "queue.buffering.max.messages": _QUEUED_MAX,
            "queue.buffering.max.kbytes": _QUEUED_KIB_MAX,
            "batch.size": 1 << 20,
            **settings.options,
            **self._connection(),
            "compression.type": settings.compression,
            "delivery.report.only.error": True,
            "enable.idempotence": True,
            "message.max.bytes": settings.message_bytes_max,
            "on_delivery": self._failures.note_undelivered,
            "transaction.timeout.ms": int(settings.transaction_timeout_s * 1_000),
            "transactional.id": self._id,
        }

    def _begin(self) -> None:
        if not self._is_in_transaction:
            self._failures.trying(self._producer.begin_transaction)
            self._is_in_transaction = True

    def _produce(
        self, topic: str, value: Any, key: str | None, partition: int, headers: list[tuple[str, str]]
    ) -> None:
        deadline_s: float | None = None
        while True:
            try:
                self._producer.produce(topic, value, key, partition, headers=headers)
            except BufferError:
                # librdkafka's queue is full: it is sending.
                deadline_s = deadline_s or time.monotonic() + self._settings.silence_s
                self._failures.trying(lambda: self._producer.poll(_SLICE_S))
                self._failures.check_delivered()
                if time.monotonic() > deadline_s:
                    raise self._failures.silent("takes no messages") from None
                continue
            except KafkaException as error:
                raise self._failures.of(error.args[0], topic) from error
            return


SETTINGS, SINK = KafkaSettings, Kafka
