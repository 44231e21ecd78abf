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
import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import repeat
from typing import Any, ClassVar, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from canal_group.output.messages import Messages
from canal_group.output.tls import tls_context
from conf.relay.kafka_settings import KafkaSettings
from merge.errors import CanalGroupError, FencedError, SinkRefused, SinkUnavailable, UsageError
from merge.values.position import GroupPosition

#: how long one call to librdkafka waits before signals and deadlines are looked at again, seconds
_SLICE_S = 0.2
#: records of the position topic that are read first when the last position is looked for; then twice as many
_READ_FIRST = 16
#: messages that librdkafka holds, and their bytes
_QUEUED_MAX, _QUEUED_KIB_MAX = 200_000, 64 << 10

_FENCED = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001  its own name for a local error
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
    }
)
_LOGIN = "Check output.username, its password and output.mechanism."
#: what no retry mends -> what an operator can do
_REFUSALS = {
    KafkaError.MSG_SIZE_TOO_LARGE: "Raise output.message_bytes_max, and max.message.bytes of the topic.",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "Grant WRITE and DESCRIBE on the topic.",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Grant WRITE and DESCRIBE on the transactional id.",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "Grant IDEMPOTENT_WRITE on the cluster.",
    KafkaError.INVALID_CONFIG: "Check output.options.",
    KafkaError.TOPIC_EXCEPTION: "Check the names that route.topic and route.dynamic_topic give to topics.",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "Create the topic, or let the brokers create topics.",
    KafkaError._UNKNOWN_PARTITION: "Lower route.partitions, or add partitions to the topic.",  # noqa: SLF001
    KafkaError._UNKNOWN_TOPIC: "Create the topic, or let the brokers create topics.",  # noqa: SLF001
    KafkaError._AUTHENTICATION: _LOGIN,  # noqa: SLF001
    KafkaError.SASL_AUTHENTICATION_FAILED: _LOGIN,
    KafkaError.INVALID_TRANSACTION_TIMEOUT: "Lower output.transaction_timeout_s.",
}

#: what no retry of a connection mends, as librdkafka and OpenSSL say it -> what that is, what to do
_UNFIT = {
    re.compile(r"SASL (authentication error|\S+ mechanism handshake failed)"): ("refuses the login", _LOGIN),
    re.compile(r"certificate verify failed"): (
        "cannot be verified: its certificate expired, has another name, or is of no authority in output.ca",
        "Name the authorities in output.ca, and the brokers as their certificates do.",
    ),
    re.compile(r"alert ([a-z ]*certificate|unknown ca)"): (
        "refuses our certificate",
        "Set output.cert and output.key to a certificate that the brokers' authorities have signed.",
    ),
}

#: librdkafka repeats what it fails at each second: what matters of it comes back as the error of a call
_QUIET = logging.Logger("librdkafka", logging.CRITICAL + 1)  # noqa: LOG001  part of no tree

T = TypeVar("T")


class Kafka:
    """A transactional producer; see the module and `canal_group.output.sink`."""

    keeps_position: ClassVar[bool] = True

    def __init__(self, settings: KafkaSettings, name: str) -> None:
        self._settings = settings
        self._id = settings.transactional_id or f"canal-group-{name.replace('/', '-')}"
        self._producer: Any = None
        self._is_in_transaction = False
        #: the first message that was not delivered since `open`
        self._undelivered: KafkaError | None = None
        self._undelivered_topic = ""
        #: the last failure of a connection since something was confirmed
        self._connection_error: KafkaError | None = None

    def open(self) -> GroupPosition | None:
        """Fence an older producer, and read the last committed position."""
        self.close()
        self._undelivered = self._connection_error = None
        tls_context(self._settings, self._settings.address)
        admin = self._trying(lambda: AdminClient(self._connection()))
        self._trying(lambda: self._create(admin, self._settings.position_topic))
        self._producer = self._trying(lambda: Producer(self._options()))
        self._trying(lambda: self._producer.init_transactions(self._settings.silence_s))
        found: GroupPosition | None = self._trying(lambda: self._last_position(admin))
        return found

    def write(self, messages: Messages) -> None:
        """Hand messages to librdkafka, which sends them in the background; wait while its queue is full."""
        self._begin()
        names = list(messages.headers)
        headers = [messages.headers[name].to_pylist() for name in names]
        each = zip(
            (messages.topics[place] for place in messages.topic.tolist()),
            messages.partition.tolist(),
            messages.value.to_pylist(),
            repeat(None) if messages.key is None else messages.key.to_pylist(),
            zip(*headers, strict=True),
            strict=False,
        )
        lacking = any(texts.null_count for texts in messages.headers.values())
        for topic, partition, value, key, texts in each:
            said = list(zip(names, texts, strict=True))
            if lacking:
                said = [header for header in said if header[1] is not None]
            self._produce(topic, value, key, partition, said)
        self._trying(lambda: self._producer.poll(0))
        self._check_delivered()

    def flush(self) -> None:
        """Return when the brokers have all messages."""
        deadline_s = time.monotonic() + self._settings.silence_s
        left = len(self._producer)
        while left:
            now = self._trying(lambda: self._producer.flush(_SLICE_S))
            if now < left:
                deadline_s = time.monotonic() + self._settings.silence_s
            left = now
            self._check_delivered()
            if left and time.monotonic() > deadline_s:
                raise self._silent(f"has not confirmed {left} messages")

    def confirm(self, position: GroupPosition) -> None:
        """Commit the transaction with the position in it."""
        self._begin()
        self._produce(self._settings.position_topic, position.to_json(), self._id, 0, [])
        deadline_s = time.monotonic() + self._settings.transaction_timeout_s
        while True:
            try:
                self._producer.commit_transaction(self._settings.silence_s)
            except KafkaException as error:
                self._check_delivered()
                # The same call again: librdkafka goes on with the commit that it began.
                if error.args[0].retriable() and time.monotonic() < deadline_s:
                    continue
                raise self._failure(error.args[0]) from error
            break
        self._is_in_transaction = False
        self._connection_error = None

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
        return {**self._settings.connection(), "error_cb": self._note_connection, "logger": _QUIET}

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
            "on_delivery": self._note_undelivered,
            "transaction.timeout.ms": int(settings.transaction_timeout_s * 1_000),
            "transactional.id": self._id,
        }

    def _begin(self) -> None:
        if not self._is_in_transaction:
            self._trying(self._producer.begin_transaction)
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
                self._trying(lambda: self._producer.poll(_SLICE_S))
                self._check_delivered()
                if time.monotonic() > deadline_s:
                    raise self._silent("takes no messages") from None
                continue
            except KafkaException as error:
                self._undelivered_topic = topic
                raise self._failure(error.args[0]) from error
            return

    def _note_undelivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._undelivered is None:
            self._undelivered, self._undelivered_topic = error, message.topic() or ""

    def _note_connection(self, error: KafkaError) -> None:
        # That all are down is no reason: each of them has one of its own.
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
            self._connection_error = error

    def _check_connection(self) -> None:
        """Raise if the brokers and we do not admit each other: librdkafka would try again for ever."""
        for words, (what, hint) in _UNFIT.items():
            if self._connection_error is not None and words.search(self._connection_error.str()):
                raise SinkRefused(f"{self._settings.address} {what}.", hint=hint)

    def _check_delivered(self) -> None:
        if self._undelivered is not None:
            raise self._failure(self._undelivered)

    def _trying(self, call: Callable[[], T]) -> T:
        """Call librdkafka; raise our error for its."""
        try:
            return call()
        except KafkaException as error:
            raise self._failure(error.args[0]) from error

    def _failure(self, error: KafkaError) -> CanalGroupError:
        """Return our error for one of librdkafka's."""
        # An error of the transaction hides that of the message which caused it.
        error = self._undelivered if self._undelivered is not None and not error.fatal() else error
        if error.code() in _FENCED:
            return FencedError(
                f"Another publisher took over the transactional id {self._id}.", hint="Stop this one."
            )
        hint = _REFUSALS.get(error.code())
        if hint is not None:
            topic = self._undelivered_topic
            about = f" a message for topic {topic}" if topic else ""
            return SinkRefused(
                f"{self._settings.address} refuses{about}: {error.str()}.", hint=hint, topic=topic
            )
        return self._silent(f"failed ({error.name()}: {error.str()})")

    def _silent(self, what: str) -> CanalGroupError:
        """Return the error of brokers that do not answer."""
        try:
            self._check_connection()
        except SinkRefused as refused:
            return refused
        known = self._connection_error
        reason = "" if known is None else f"; a connection failed ({known.str()})"
        return SinkUnavailable(f"{self._settings.address} {what}{reason}.", retry_after_s=1.0)

    def _create(self, admin: AdminClient, topic: str) -> None:
        """Create the position topic unless it is there."""
        timeout_s = self._settings.silence_s
        try:
            self._answer(
                admin, admin.describe_topics(TopicCollection([topic]), request_timeout=timeout_s)[topic]
            )
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
        else:
            return
        compacted = {"cleanup.policy": "compact", "segment.ms": "600000", "min.cleanable.dirty.ratio": "0.1"}
        wanted = NewTopic(topic, num_partitions=1, replication_factor=-1, config=compacted)
        try:
            self._answer(admin, admin.create_topics([wanted], operation_timeout=timeout_s)[topic])
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    def _answer(self, admin: AdminClient, asked: Future[Any]) -> Any:
        """Wait for an answer, as long as connections can still succeed; librdkafka bounds the time."""
        while not asked.done():
            admin.poll(_SLICE_S)
            self._check_connection()
        return asked.result()

    def _last_position(self, admin: AdminClient) -> GroupPosition | None:
        """Return the position that was committed last under our id.

        No transaction of ours is open any more, but those of other publishers may hide what was committed
        after they began: the end that is read up to is waited for.
        """
        partition = TopicPartition(self._settings.position_topic, 0)
        begin = _offset(admin, partition, OffsetSpec.earliest(), self._settings.silence_s)
        end = _offset(admin, partition, OffsetSpec.latest(), self._settings.silence_s)
        reader = Consumer(
            {
                **self._connection(),
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "group.id": self._id,
                "isolation.level": "read_committed",
            }
        )
        try:
            count = _READ_FIRST
            while True:
                first = max(begin, end - count)
                found = None
                for record in self._records(reader, partition.topic, first, end):
                    if record.key() == self._id.encode():
                        found = record.value()
                if found is not None or first == begin:
                    return None if found is None else self._position(found)
                count *= 2
        finally:
            reader.close()

    def _records(self, reader: Consumer, topic: str, begin: int, end: int) -> Iterator[Message]:
        """Yield the committed records from offset `begin` to `end`."""
        if begin >= end:
            return
        reader.assign([TopicPartition(topic, 0, begin)])
        deadline_s = time.monotonic() + self._settings.transaction_timeout_s + self._settings.silence_s
        while True:
            record = reader.poll(_SLICE_S)
            if time.monotonic() > deadline_s:
                raise self._silent(f"did not deliver the positions in {topic}, up to offset {end}")
            if record is None:
                continue
            error = record.error()
            if error is None and int(record.offset() or 0) < end:
                yield record
                continue
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                raise KafkaException(error)
            # What follows is not committed yet, or there is nothing.
            where = record.offset()
            if where is not None and int(where) >= end:
                return

    def _position(self, said: bytes) -> GroupPosition:
        try:
            return GroupPosition.from_json(said.decode())
        except (UsageError, ValueError, json.JSONDecodeError) as error:
            raise SinkRefused(
                f"The last record of {self._id} in {self._settings.position_topic} is no position.",
                hint="Another program wrote it. Name another position_topic, or another transactional_id.",
                topic=self._settings.position_topic,
            ) from error


def _offset(admin: AdminClient, partition: TopicPartition, spec: OffsetSpec, timeout_s: float) -> int:
    """Return an offset of a partition, whatever is committed."""
    uncommitted = IsolationLevel.READ_UNCOMMITTED
    found = admin.list_offsets({partition: spec}, isolation_level=uncommitted, request_timeout=timeout_s)
    return int(found[partition].result().offset)


SETTINGS, SINK = KafkaSettings, Kafka
