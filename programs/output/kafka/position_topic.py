"""The position topic: compacted, with the last committed position of each transactional id."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from canal_group.conf.relay.kafka_settings import KafkaSettings
from canal_group.merge.errors import SinkRefused, UsageError
from canal_group.merge.values.position import GroupPosition
from canal_group.programs.output.kafka.failures import Failures

#: how long one call to librdkafka waits before deadlines are looked at again, seconds
_SLICE_S: Final = 0.2
#: records that are read first when the last position is looked for; then twice as many
_READ_FIRST: Final = 16


class PositionTopic:
    """Where the positions of transactional ids are kept.

    Args:
        settings: of the output.
        transactional_id: the key of our records.
        failures: what goes wrong meanwhile.
    """

    def __init__(self, settings: KafkaSettings, transactional_id: str, failures: Failures) -> None:
        self._settings, self._id, self._failures = settings, transactional_id, failures
        self._topic = settings.position_topic

    def create(self, admin: AdminClient) -> None:
        """Create it unless it is there.

        Raises:
            KafkaException: the brokers refuse.
        """
        timeout_s = self._settings.silence_s
        try:
            descriptions = admin.describe_topics(TopicCollection([self._topic]), request_timeout=timeout_s)
            self._answer(admin, descriptions[self._topic])
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
        else:
            return
        compacted = {"cleanup.policy": "compact", "segment.ms": "600000", "min.cleanable.dirty.ratio": "0.1"}
        topic = NewTopic(self._topic, num_partitions=1, replication_factor=-1, config=compacted)
        try:
            self._answer(admin, admin.create_topics([topic], operation_timeout=timeout_s)[self._topic])
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    def _answer(self, admin: AdminClient, answer: Future[Any]) -> Any:
        """Wait for an answer, as long as connections can still succeed; librdkafka bounds the time."""
        while not answer.done():
            admin.poll(_SLICE_S)
            self._failures.check_connection()
        return answer.result()

    def last(self, admin: AdminClient) -> GroupPosition | None:
        """Return the position that was committed last under our id; None if there is none.

        No transaction of ours is open any more, but those of other publishers may hide what was committed
        after they began: the end that is read up to is waited for.

        Raises:
            KafkaException: the brokers refuse.
            SinkRefused: our last record is not a position.
            SinkUnavailable: what was committed cannot be read in time.
        """
        begin = self._offset(admin, OffsetSpec.earliest())
        end = self._offset(admin, OffsetSpec.latest())
        reader = Consumer(
            {
                **self._settings.connection(),
                **self._failures.connection_options,
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
                value = None
                for record in self._records(reader, first, end):
                    if record.key() == self._id.encode():
                        value = record.value()
                if value is not None or first == begin:
                    return None if value is None else self._position(value)
                count *= 2
        finally:
            reader.close()

    def _offset(self, admin: AdminClient, spec: OffsetSpec) -> int:
        partition = TopicPartition(self._topic, 0)
        offsets = admin.list_offsets(
            {partition: spec},
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=self._settings.silence_s,
        )
        return int(offsets[partition].result().offset)

    def _records(self, reader: Consumer, begin: int, end: int) -> Iterator[Message]:
        """Yield the committed records from offset `begin` to `end`."""
        if begin >= end:
            return
        reader.assign([TopicPartition(self._topic, 0, begin)])
        deadline_s = time.monotonic() + self._settings.transaction_timeout_s + self._settings.silence_s
        while True:
            record = reader.poll(_SLICE_S)
            if time.monotonic() > deadline_s:
                raise self._failures.silent(
                    f"did not deliver the positions in {self._topic}, up to offset {end}"
                )
            if record is None:
                continue
            error = record.error()
            if error is None and int(record.offset() or 0) < end:
                yield record
                continue
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  a local error
                raise KafkaException(error)
            # What follows is not committed yet, or there is nothing.
            where = record.offset()
            if where is not None and int(where) >= end:
                return

    def _position(self, value: bytes) -> GroupPosition:
        try:
            return GroupPosition.from_json(value.decode())
        except (UsageError, ValueError, json.JSONDecodeError) as error:
            raise SinkRefused(
                f"The last record of {self._id} in {self._topic} is not a position.",
                hint="Another program wrote it. Name another position_topic, or another transactional_id.",
                topic=self._topic,
            ) from error
