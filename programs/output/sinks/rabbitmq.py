"""RabbitMQ: persistent messages with publisher confirms, at least once.

The topic is the routing key, as in canal, or with `partition_keys` topic.partition, so that each partition
can have a queue of its own. A message that reaches no queue is an error. After a failure the last batches are
published again: their message ids and headers say which changes they hold.

One connection, used by a thread of its own: confirms arrive while more messages are sent.
"""

from __future__ import annotations

import logging
import re
import ssl
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import pika
import pika.exceptions

from canal_group.conf.relay.rabbitmq_settings import RabbitSettings
from canal_group.merge.errors import CanalGroupError, SinkRefused, SinkUnavailable
from canal_group.merge.values.position import GroupPosition
from canal_group.programs.output.confirms import Confirms
from canal_group.programs.output.messages import Messages
from canal_group.programs.output.tls import tls_context

#: messages that are handed to the connection's thread at once
_HANDED = 256
#: how long the connection's thread may take to end, seconds
_END_S = 5.0
_PERSISTENT = 2
#: bytes of a routing key, and of each other text of a message besides its body
_SHORT_BYTES_MAX = 255
#: characters of a topic that a message shows
_SHOWN_CHARS = 80
#: in OpenSSL's words: the server ends the handshake because of our certificate
_REFUSED_BY_IT = re.compile(r"ALERT_([A-Z_]*CERTIFICATE|UNKNOWN_CA)")

# It logs each failed attempt with a traceback; what matters of it is the error of a call.
logging.getLogger("pika").setLevel(logging.CRITICAL + 1)


class Rabbit:
    """A channel with confirms; see the module and `canal_group.programs.output.sink`."""

    keeps_position: ClassVar[bool] = False

    def __init__(self, settings: RabbitSettings, name: str) -> None:
        self._settings, self._name = settings, name
        self._connection: Any = None
        self._channel: Any = None
        self._thread: threading.Thread | None = None
        self._confirms = Confirms()

    def open(self) -> GroupPosition | None:
        """Connect, and check the exchange."""
        self.close()
        self._confirms = Confirms()
        self._connection = pika.SelectConnection(
            self._parameters(),
            on_open_callback=self._connected,
            on_open_error_callback=lambda _, error: self._confirms.fail(self._failure(error)),
            on_close_callback=lambda _, error: self._confirms.fail(self._failure(error)),
        )
        self._thread = threading.Thread(
            target=_run, args=(self._connection, self._confirms), name="rabbitmq", daemon=True
        )
        self._thread.start()
        self._confirms.wait_open(self._settings.silence_s, self._silent("does not answer"))
        return None

    def write(self, messages: Messages) -> None:
        """Hand messages to the connection's thread; wait while as many as the bound are not confirmed."""
        made = self._made(messages)
        for begin in range(0, len(made), _HANDED):
            part = made[begin : begin + _HANDED]
            self._confirms.reserve(
                len(part),
                self._settings.in_flight_max,
                self._settings.silence_s,
                self._silent("confirms nothing"),
            )
            self._call(partial(self._publish, part))

    def flush(self) -> None:
        """Return when the server has confirmed all messages."""
        self._confirms.wait_all(self._settings.silence_s, self._silent("confirms nothing"))

    def confirm(self, position: GroupPosition) -> None:
        """Do nothing: what is flushed lasts, and the position is the cursor."""

    def close(self) -> None:
        """Disconnect."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._call(self._leave)
        thread.join(_END_S)

    # ---- on the thread of the caller

    def _parameters(self) -> pika.ConnectionParameters:
        """Return how to connect."""
        settings = self._settings
        login = pika.PlainCredentials("guest", "guest", erase_on_connect=True)
        if settings.username is not None and settings.password is not None:
            login = pika.PlainCredentials(settings.username, settings.password, erase_on_connect=True)
        context = tls_context(settings, settings.address)
        return pika.ConnectionParameters(
            host=settings.host,
            port=settings.open_port,
            virtual_host=settings.virtual_host,
            credentials=login,
            ssl_options=None if context is None else pika.SSLOptions(context, settings.host),
            heartbeat=max(2, int(settings.silence_s)),
            socket_timeout=settings.silence_s,
            stack_timeout=settings.silence_s,
            blocked_connection_timeout=settings.silence_s,
        )

    def _made(self, messages: Messages) -> list[tuple[str, Any, pika.BasicProperties]]:
        """Return routing key, body and properties of each message."""
        names = list(messages.headers)
        columns = [messages.headers[name].to_pylist() for name in names]
        kind = "application/json" if str(messages.value.type) == "string" else "application/octet-stream"
        made = []
        each = zip(
            messages.topic.tolist(),
            messages.partition.tolist(),
            messages.value.to_pylist(),
            *columns,
            strict=True,
        )
        for topic, partition, value, *texts in each:
            headers = {name: text for name, text in zip(names, texts, strict=True) if text is not None}
            key = messages.topics[topic]
            key = f"{key}.{partition}" if self._settings.partition_keys else key
            message_id = f"{headers['shard']}/{headers['position']}"
            self._check_length("routing key", key, messages.topics[topic], message_id)
            self._check_length("message id", message_id, messages.topics[topic], message_id)
            properties = pika.BasicProperties(
                content_type=kind,
                delivery_mode=_PERSISTENT,
                headers={**headers, "partition": partition},
                message_id=message_id,
            )
            made.append((key, value, properties))
        return made

    def _check_length(self, what: str, text: str, topic: str, message_id: str) -> None:
        if (size := len(text.encode())) > _SHORT_BYTES_MAX:
            raise SinkRefused(
                f"A message for topic {topic[:_SHOWN_CHARS]} cannot be sent to {self._settings.address}: "
                f"its {what} has {size} bytes, and AMQP takes {_SHORT_BYTES_MAX}.",
                hint="Change route.topic and route.dynamic_topic, or leave the table out.",
                topic=topic,
                of=message_id,
            )

    def _call(self, call: Callable[[], None]) -> None:
        """Let the connection's thread do something."""
        self._connection.ioloop.add_callback_threadsafe(call)

    def _failure(self, error: BaseException) -> CanalGroupError:
        where, error = self._settings.address, _cause(error)
        if isinstance(error, pika.exceptions.ProbableAuthenticationError):
            return SinkRefused(f"{where} refuses the login.", hint="Check output.username and its password.")
        if isinstance(error, pika.exceptions.ProbableAccessDeniedError):
            return SinkRefused(
                f"{where} refuses access to the virtual host {self._settings.virtual_host}.",
                hint="Create it, and set the user's permissions.",
            )
        if isinstance(error, pika.exceptions.ChannelClosedByBroker):
            return SinkRefused(
                f"{where} refuses: {error.reply_text}.",
                hint="Declare the exchange, and set the user's permissions.",
            )
        if isinstance(error, ssl.SSLCertVerificationError):
            return SinkRefused(
                f"{where} cannot be verified: {error.verify_message}.",
                hint="Name its certificate's authorities in output.ca, and as output.host a name in it.",
            )
        if _REFUSED_BY_IT.search(str(error)):
            return SinkRefused(
                f"{where} refuses our certificate.",
                hint="Set output.cert and output.key to a certificate that its authorities have signed.",
            )
        text = str(error) or type(error).__name__
        return SinkUnavailable(f"{where} failed ({text}).", retry_after_s=1.0)

    def _silent(self, what: str) -> SinkUnavailable:
        return SinkUnavailable(f"{self._settings.address} {what}.", retry_after_s=1.0)

    # ---- on the connection's thread

    def _connected(self, connection: Any) -> None:
        connection.channel(on_open_callback=self._channel_opened)

    def _channel_opened(self, channel: Any) -> None:
        self._channel = channel
        channel.add_on_close_callback(lambda _, error: self._confirms.fail(self._failure(error)))
        channel.add_on_return_callback(self._returned)
        channel.confirm_delivery(self._confirms.answered, callback=self._confirming)

    def _confirming(self, _: Any) -> None:
        if not self._settings.exchange:
            self._confirms.opened()
            return
        self._channel.exchange_declare(
            self._settings.exchange, passive=True, callback=lambda _: self._confirms.opened()
        )

    def _returned(self, _channel: Any, method: Any, _properties: Any, _body: bytes) -> None:
        self._confirms.fail(
            SinkRefused(
                f"RabbitMQ has no queue for the routing key {method.routing_key}.",
                hint="Bind a queue to it, or change route.topic and route.dynamic_topic.",
                topic=method.routing_key,
            )
        )

    def _publish(self, part: list[tuple[str, Any, pika.BasicProperties]]) -> None:
        if self._confirms.has_failed:
            return
        try:
            for key, value, properties in part:
                self._channel.basic_publish(self._settings.exchange, key, value, properties, mandatory=True)
        except (pika.exceptions.AMQPConnectionError, pika.exceptions.AMQPChannelError) as error:
            self._confirms.fail(self._failure(error))
        except Exception as error:  # noqa: BLE001  whatever its encoder finds, another attempt finds again
            self._confirms.fail(
                SinkRefused(
                    f"A message for the routing key {key[:_SHOWN_CHARS]} cannot be encoded "
                    f"({type(error).__name__}: {error}).",
                    hint="Leave the table out, and please report it.",
                    topic=key,
                )
            )

    def _leave(self) -> None:
        if self._connection.is_open:
            self._connection.close()
        else:
            self._connection.ioloop.stop()


def _cause(error: BaseException) -> BaseException:
    """Return the cause of an error: pika wraps it in errors of the phases of a connection."""
    while True:
        inner = getattr(error, "exception", None) or next(iter(getattr(error, "exceptions", ())[-1:]), None)
        if inner is None and isinstance(error, pika.exceptions.AMQPError) and error.args:
            inner = error.args[0]
        if not isinstance(inner, BaseException):
            return error
        error = inner


def _run(connection: Any, confirms: Confirms) -> None:
    connection.add_on_close_callback(lambda *_: connection.ioloop.stop())
    connection.add_on_open_error_callback(lambda *_: connection.ioloop.stop(), remove_default=False)
    try:
        connection.ioloop.start()
    except OSError as error:
        confirms.fail(SinkUnavailable(f"The connection to RabbitMQ failed ({error}).", retry_after_s=1.0))
    finally:
        connection.ioloop.close()


SETTINGS, SINK = RabbitSettings, Rabbit
