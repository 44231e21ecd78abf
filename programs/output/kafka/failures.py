"""Failures of Kafka's client library: which a retry mends, and what an operator does about the others."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from canal_group.merge.errors import CanalGroupError, FencedError, SinkRefused, SinkUnavailable

_FENCED: Final = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001  its own name for a local error
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
    }
)
_LOGIN: Final = "Check output.username, its password and output.mechanism."
#: what no retry mends -> what an operator can do
_REFUSALS: Final = {
    KafkaError.MSG_SIZE_TOO_LARGE: "Raise output.message_bytes_max, and max.message.bytes of the topic.",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "Grant WRITE and DESCRIBE on the topic.",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Grant WRITE and DESCRIBE on the transactional id.",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "Grant IDEMPOTENT_WRITE on the cluster.",
    KafkaError.INVALID_CONFIG: "Check output.options.",
    KafkaError.TOPIC_EXCEPTION: "Check the names that route.topic and route.dynamic_topic give to topics.",
    KafkaError._INVALID_ARG: "Check the names that route.topic and route.dynamic_topic give to topics.",  # noqa: SLF001
    KafkaError.INVALID_RECORD: "Check the topic's settings: it does not take such messages.",
    KafkaError.POLICY_VIOLATION: "Check the brokers' policies for topics.",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "Create the topic, or let the brokers create topics.",
    KafkaError._UNKNOWN_PARTITION: "Lower route.partitions, or add partitions to the topic.",  # noqa: SLF001
    KafkaError._UNKNOWN_TOPIC: "Create the topic, or let the brokers create topics.",  # noqa: SLF001
    KafkaError._AUTHENTICATION: _LOGIN,  # noqa: SLF001
    KafkaError.SASL_AUTHENTICATION_FAILED: _LOGIN,
    KafkaError.INVALID_TRANSACTION_TIMEOUT: "Lower output.transaction_timeout_s.",
}
#: text of librdkafka or OpenSSL for a lasting failure -> its meaning, and the remedy
_UNFIT: Final = {
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
_QUIET: Final = logging.Logger("librdkafka", logging.CRITICAL + 1)  # noqa: LOG001  part of no tree

T = TypeVar("T")


class Failures:
    """What went wrong between a producer and its brokers since it was opened.

    Args:
        address: the brokers, for messages.
        transactional_id: the producer's.
    """

    def __init__(self, address: str, transactional_id: str) -> None:
        self._address, self._id = address, transactional_id
        self._undelivered: Callable[[], tuple[int, str] | None] = lambda: None
        #: the last failure of a connection since something was confirmed
        self._connection_error: KafkaError | None = None

    def forget(self) -> None:
        """Begin anew: the producer is opened."""
        self._undelivered, self._connection_error = lambda: None, None

    def watch(self, undelivered: Callable[[], tuple[int, str] | None]) -> None:
        """Take a function that returns the code and topic of the first message that was not delivered."""
        self._undelivered = undelivered

    def confirmed(self) -> None:
        """Forget connection errors: the brokers confirmed something."""
        self._connection_error = None

    # ---- what librdkafka is told to call

    @property
    def connection_options(self) -> dict[str, Any]:
        """Options of each client: what it logs comes here instead."""
        return {"error_cb": self._note_connection, "logger": _QUIET}

    def _note_connection(self, error: KafkaError) -> None:
        # "All brokers are down" is not a reason: each broker reports its own.
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
            self._connection_error = error

    # ---- errors of ours

    def trying(self, call: Callable[[], T]) -> T:
        """Call librdkafka; raise our error for its."""
        try:
            return call()
        except KafkaException as error:
            raise self.of(error.args[0]) from error

    def check_connection(self) -> None:
        """Raise if the brokers and we do not admit each other: librdkafka would try again for ever."""
        for words, (what, hint) in _UNFIT.items():
            if self._connection_error is not None and words.search(self._connection_error.str()):
                raise SinkRefused(f"{self._address} {what}.", hint=hint)

    def check_delivered(self) -> None:
        """Raise if a message was not delivered."""
        found = self._undelivered()
        if found is not None:
            raise self.of(KafkaError(found[0]))

    def of(self, error: KafkaError, topic: str = "") -> CanalGroupError:
        """Return our error for one of librdkafka's; `topic`: of the message that it is about, if known."""
        found = self._undelivered()
        if found is not None:
            # An error of the transaction hides that of the message which caused it.
            error = error if error.fatal() else KafkaError(found[0])
            topic = topic or found[1]
        if error.code() in _FENCED:
            return FencedError(
                f"Another publisher took over the transactional id {self._id}.", hint="Stop this one."
            )
        hint = _REFUSALS.get(error.code())
        if hint is not None:
            about = f" a message for topic {topic}" if topic else ""
            return SinkRefused(f"{self._address} refuses{about}: {error.str()}.", hint=hint, topic=topic)
        return self.silent(f"failed ({error.name()}: {error.str()})")

    def silent(self, what: str) -> CanalGroupError:
        """Return the error of brokers that do not answer, or the reason why they never will."""
        try:
            self.check_connection()
        except SinkRefused as refused:
            return refused
        last = self._connection_error
        reason = "" if last is None else f"; a connection failed ({last.str()})"
        return SinkUnavailable(f"{self._address} {what}{reason}.", retry_after_s=1.0)
