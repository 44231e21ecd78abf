"""Descriptions: the settings of an instance as text for operators, without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from canal_group.conf.sentence import shown
from canal_group.conf.settings import InstanceSettings


def describe(instance: InstanceSettings) -> dict[str, str]:
    """Return every effective setting by its key path, defaults and derived values included.

    It contains no secret, only the variable or file that each secret comes from.
    """
    values = instance.model_dump(mode="json")
    for shard, value in zip(instance.shards, values["shards"], strict=True):
        value["server_id"] = instance.server_id_of(shard)
        value["start"] = instance.start_of(shard)
    values["store"]["bytes_max"] = instance.store.bytes_max
    return dict(_flat("", values))


def _flat(path: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        parts = [(f"{path}.{key}" if path else str(key), part) for key, part in value.items()]
    elif isinstance(value, list) and value:
        parts = [(f"{path}[{index}]", part) for index, part in enumerate(value)]
    else:
        return [(path, _text(value))]
    return [pair for key, part in parts for pair in _flat(key, part)]


def _text(value: Any) -> str:
    if value in (None, "", []):
        return "none"
    return value if isinstance(value, str) else shown(value)
