"""Relay: canal's message queue mode as the settings of `canal-group relay`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from canal_group.conf.relay.relay_settings import RelaySettings
from canal_group.conf.value import default_of
from canal_group.merge.well_known import GATEWAY
from canal_group.programs.migration.canal_files.properties import Entry
from canal_group.programs.migration.canal_files.view import View
from canal_group.programs.migration.queues.broker import broker_of
from canal_group.programs.migration.queues.kafka import Kafka
from canal_group.programs.migration.report import Report
from canal_group.programs.migration.secrets import Secrets
from canal_group.programs.migration.stream import first_of

_HOST: Final = "rabbitmq.host"
#: canal's keys, the one first that counts first -> key of `output`
_TEXTS: Final = {
    ("rabbitmq.virtual.host", "canal.mq.vhost"): "virtual_host",
    ("rabbitmq.exchange", "canal.mq.exchange"): "exchange",
    ("rabbitmq.username", "canal.mq.username"): "username",
}
_PASSWORDS: Final = ("rabbitmq.password", "canal.mq.password")
_ALIYUN: Final = ("canal.aliyun.accessKey", "canal.aliyun.secretKey")


@dataclass(frozen=True, slots=True)
class RabbitMq:
    """Makes `output` of kind `rabbitmq`.

    Args:
        view: what canal's files say.
        report: takes the answers.
        secrets: takes the password.
    """

    view: View
    report: Report
    secrets: Secrets
    _output: dict[str, Any] = field(default_factory=lambda: {"kind": "rabbitmq"})

    def make(self) -> dict[str, Any]:
        """Return the settings.

        Raises:
            ConfigError: a value cannot be used.
        """
        self._address()
        for keys, name in _TEXTS.items():
            entry = self._given(*keys)
            if entry is not None:
                self._output[name] = self.view.text(entry.key)
                self.report.setting(entry, f"`output.{name}`")
        self._password()
        self._declared()
        return self._output

    def _given(self, *keys: str) -> Entry | None:
        """Return the first entry that has a value; the others of the same meaning do not count."""
        entries = [entry for key in keys if (entry := self.view.given(key)) is not None]
        for entry in entries[1:]:
            self.report.note(entry, f"replaced by `{entries[0].key}`, as in canal")
        return entries[0] if entries else None

    def _address(self) -> None:
        entry = self._given("canal.mq.servers", _HOST)
        text = None if entry is None else self.view.text(entry.key)
        if entry is None or text is None:
            # A relay refuses the file until there is one.
            self._output["host"] = ""
            self.report.act(
                self.view.entry_of(_HOST), "canal's files name no broker: set `output.host` of the relay"
            )
            return
        broker = broker_of(entry, text)
        self._output["host"] = broker.host
        for name in ("port", "virtual_host", "username"):
            value = getattr(broker, name)
            if value is not None:
                self._output[name] = value
        if broker.password is not None:
            self._output["password_file"] = self.secrets.put("rabbitmq.password", broker.password)
        self.report.setting(entry, f"`output.host: {broker.host}`, and what else it says")
        if broker.is_encrypted:
            self.report.act(
                entry, "set `output.ca`: a PEM file of the authorities that sign the broker's certificate"
            )

    def _password(self) -> None:
        entry = self._given(*_PASSWORDS)
        password = None if entry is None else self.view.text(entry.key)
        if entry is not None and password is not None and "username" in self._output:
            self._output.pop("password_file", None)
            variable = self.view.variable(entry.key)
            if variable is not None:
                self._output["password_env"] = variable
                self.report.setting(entry, f"`output.password_env: {variable}`")
            else:
                self._output["password_file"] = self.secrets.put("rabbitmq.password", password)
                self.report.setting(entry, f"`output.password_file: {self._output['password_file']}`")
        keys = [self.view.given(key) for key in _ALIYUN]
        if all(keys):
            self.report.act(
                keys[0],
                "there is no login by access keys: set `output.username` and `password_file`, a name and a"
                " password that Aliyun's console makes of them",
            )

    def _declared(self) -> None:
        """Say what canal declares at the broker when it starts: a relay declares nothing."""
        queue, key, kind = (
            self.view.given(f"rabbitmq.{name}") for name in ("queue", "routingKey", "deliveryMode")
        )
        topic = self.view.text("canal.mq.topic") or "example"
        exchange = self._output.get("exchange", "")
        if queue is not None or key is not None:
            bound = (
                f"queue {queue.raw if queue else topic}, durable, bound to exchange {exchange or '(default)'}"
            )
            self.report.act(
                queue or key,
                "a relay declares nothing at the broker, as canal does when it starts. Let there be:"
                f" {bound} by {key.raw if key else topic}. Messages have their topic as routing key ({topic},"
                " and what `route.dynamic_topic` makes), as canal's have: the binding has to match it",
            )
            self.report.note(key, "the binding: see `rabbitmq.queue`")
        if kind is not None and exchange:
            self.report.act(
                kind,
                f"canal declares exchange {exchange} of type {kind.raw}, durable: let there be such a one. A"
                " relay declares nothing; its messages are persistent, and confirmed",
            )
        else:
            self.report.note(kind, "no setting: it is the type of the exchange, and there is none")


_MODES: Final = {"kafka": "kafka", "rabbitmq": "rabbitmq"}
#: canal's key -> key of `route`
ROUTE: Final = {
    "canal.mq.topic": "topic",
    "canal.mq.dynamicTopic": "dynamic_topic",
    "canal.mq.partition": "partition",
    "canal.mq.partitionsNum": "partitions",
    "canal.mq.partitionHash": "partition_hash",
    "canal.mq.dynamicTopicPartitionNum": "dynamic_topic_partitions",
    "canal.mq.database.hash": "database_hash",
}


def relay_of(
    views: Sequence[View], report: Report, secrets: Secrets, destination: str, settings: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the settings of a relay; None: canal has no message queue, or none that there is a relay to.

    Args:
        views: the instances.
        report: takes the answers.
        secrets: takes the passwords.
        destination: name of the stream.
        settings: of the instance, by path.

    Raises:
        ConfigError: a value cannot be used.
    """
    view = views[0]
    mode = (view.text("canal.serverMode") or "tcp").lower()
    entry = view.given("canal.serverMode")
    if mode not in _MODES:
        if mode != "tcp":
            report.act(
                entry, f"there is no relay to {mode}: use Kafka or RabbitMQ, or let consumers connect here"
            )
        return None
    report.setting(entry, f"a relay to {_MODES[mode]}: `canal-group relay`, with the file of --relay")
    relay: dict[str, Any] = {"destination": destination, "read": _read(settings)}
    flat = view.flag("canal.mq.flatMessage", default=True)
    report.setting(view.entry("canal.mq.flatMessage"), f"`format: {'flat' if flat else 'protobuf'}`")
    if not flat:
        relay["format"] = "protobuf"
    for key in ("canal.mq.canalBatchSize", "canal.mq.canalGetTimeout"):
        report.note(view.entry(key), "no setting: a relay publishes what there is; `batch` bounds it")
    route = _route(views, report)
    if route:
        relay["route"] = route
    maker = Kafka if mode == "kafka" else RabbitMq
    relay["output"] = maker(view, report, secrets).make()
    return relay


def _read(settings: Mapping[str, Any]) -> dict[str, Any]:
    if "coordination.hosts" not in settings:
        return {"gateway": GATEWAY}
    source = {"zookeeper": settings["coordination.hosts"]}
    prefix = settings.get("coordination.prefix")
    return source if prefix is None else {**source, "prefix": prefix}


def _route(views: Sequence[View], report: Report) -> dict[str, Any]:
    route: dict[str, Any] = {}
    for key, name in ROUTE.items():
        default = default_of(RelaySettings, f"route.{name}")
        value = first_of(views, report, key, f"route.{name}", partial(_value, default=default))
        if value is None:
            continue
        if value != default:
            route[name] = value
        for view in views:
            report.setting(view.entry(key), f"`route.{name}`")
    return route


def _value(view: View, key: str, default: Any) -> Any:
    if view.given(key) is None:
        return None
    if isinstance(default, bool):
        return view.flag(key)
    return view.whole(key) if isinstance(default, int) else view.text(key)
