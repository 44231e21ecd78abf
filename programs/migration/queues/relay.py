"""Relay: canal's message queue mode as the settings of `canal-group relay`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from canal_group.conf.relay.relay_settings import RelaySettings
from canal_group.conf.value import default_of
from canal_group.merge.well_known import GATEWAY
from canal_group.programs.migration.canal_files.view import View
from canal_group.programs.migration.queues.kafka import Kafka
from canal_group.programs.migration.queues.rabbitmq import RabbitMq
from canal_group.programs.migration.report import Report
from canal_group.programs.migration.secrets import Secrets
from canal_group.programs.migration.stream import first_of

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
