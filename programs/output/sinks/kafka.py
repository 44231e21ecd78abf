"""Kafka: each batch is one transaction, and the position is a record in it.

The producer is idempotent and transactional, under one transactional id for a destination and client id. The
position is the value of a record in the position topic, with that id as its key. So messages and position are
committed together, or not at all, and a `read_committed` consumer sees each change once
(docs/adr/0015-offset-ranges.md#kafkas-transaction).

Opening the id fences an older producer of it: Kafka refuses whatever it still sends, and ends the transaction
that it left open.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer, cimpl
from confluent_kafka.admin import AdminClient

from canal_group.conf.relay.kafka_settings import KafkaSettings
from canal_group.merge.errors import SinkRefused
from canal_group.merge.values.position import GroupPosition
from canal_group.programs.output.kafka.batch_producer import BatchProducer
from canal_group.programs.output.kafka.columns import columns_of
from canal_group.programs.output.kafka.failures import Failures
from canal_group.programs.output.kafka.position_topic import PositionTopic
from canal_group.programs.output.messages import Messages
from canal_group.programs.output.tls import tls_context

#: how long one call to librdkafka waits before signals and deadlines are looked at again, seconds
_SLICE_S: Final = 0.2
#: most messages held by librdkafka, and their bytes
_QUEUED_MAX: Final = 200_000
_QUEUED_KIB_MAX: Final = 64 << 10
_PLUGINS: Final = "plugin.library.paths"


class Kafka:
    """A transactional producer; see the module and `canal_group.programs.output.sink`."""

    keeps_position: ClassVar[bool] = True

    def __init__(self, settings: KafkaSettings, name: str) -> None:
        self._settings = settings
        self._id = settings.transactional_id or f"canal-group-{name.replace('/', '-')}"
        self._producer: Any = None
        self._batches: Any = None
        self._is_in_transaction = False
        self._failures = Failures(settings.address, self._id)
        self._positions = PositionTopic(settings, self._id, self._failures)

    def open(self) -> GroupPosition | None:
        """Fence an older producer, and read the last committed position."""
        self.close()
        trying = self._failures.trying
        tls_context(self._settings, self._settings.address)
        admin = trying(lambda: AdminClient(self._connection()))
        trying(lambda: self._positions.create(admin))
        self._batches = trying(self._batch_producer)
        self._producer = self._batches.producer
        self._failures.watch(self._batches.undelivered)
        trying(lambda: self._producer.init_transactions(self._settings.silence_s))
        return trying(lambda: self._positions.last(admin))

    def write(self, messages: Messages) -> None:
        """Hand messages to librdkafka, which sends them in the background; wait while its queue is full."""
        self._begin()
        self._produce(messages)
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
        self._produce(self._record(position))
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
        producer, self._producer, self._batches = self._producer, None, None
        self._failures.forget()
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

    def _batch_producer(self) -> BatchProducer:
        try:
            return BatchProducer(cimpl.__file__, lambda plugin: Producer(self._options(plugin)))
        except OSError as error:
            raise SinkRefused(
                f"This build of confluent-kafka is not one that we can use: {error}.",
                hint="Install its wheel, `pip install 'canal-group[kafka]'`.",
            ) from error

    def _options(self, plugin: str) -> dict[str, Any]:
        settings = self._settings
        plugins = [str(each) for each in (settings.options.get(_PLUGINS), plugin) if each]
        return {
            "linger.ms": 5,
            "queue.buffering.max.messages": _QUEUED_MAX,
            "queue.buffering.max.kbytes": _QUEUED_KIB_MAX,
            "batch.size": 1 << 20,
            **settings.options,
            **self._connection(),
            "compression.type": settings.compression,
            "enable.idempotence": True,
            "message.max.bytes": settings.message_bytes_max,
            _PLUGINS: ";".join(plugins),
            "transaction.timeout.ms": int(settings.transaction_timeout_s * 1_000),
            "transactional.id": self._id,
        }

    def _begin(self) -> None:
        if not self._is_in_transaction:
            self._failures.trying(self._producer.begin_transaction)
            self._is_in_transaction = True

    def _record(self, position: GroupPosition) -> Messages:
        zero, topics = np.zeros(1, np.int32), (self._settings.position_topic,)
        return Messages(topics, zero, zero, pa.array([position.to_json()]), {}, pa.array([self._id]))

    def _produce(self, messages: Messages) -> None:
        """Hand messages to librdkafka; wait while its queue is full."""
        columns = columns_of(messages)
        row, silent_since_s = 0, time.monotonic()
        while True:
            taken, code, words, is_fatal = self._batches.produce(row, *columns)
            if not code:
                return
            if code != KafkaError._QUEUE_FULL:  # noqa: SLF001  a local error
                error = KafkaError(code, words or None, is_fatal)
                raise self._failures.of(error, messages.topics[messages.topic[taken]])
            silent_since_s = time.monotonic() if taken > row else silent_since_s
            row = taken
            self._failures.trying(lambda: self._producer.poll(_SLICE_S))
            self._failures.check_delivered()
            if time.monotonic() > silent_since_s + self._settings.silence_s:
                raise self._failures.silent("takes no messages")


SETTINGS, SINK = KafkaSettings, Kafka
