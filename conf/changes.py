"""Changes of a running instance: only its shards may change."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from canal_group.conf.listeners.admission import admitted
from canal_group.conf.sentence import in_a_sentence
from canal_group.conf.settings import InstanceSettings
from canal_group.conf.shard_settings import ShardSettings
from canal_group.merge.errors import ConfigError

_APPEND = "The order of the shards ranks equal times: append new shards, and do not rearrange the others."


@dataclass(frozen=True, slots=True)
class ShardChanges:
    """Shards to add, in order, and names of the shards to remove."""

    added: tuple[ShardSettings, ...]
    removed: tuple[str, ...]


def shard_changes(
    running: InstanceSettings, changed: InstanceSettings, *, without: Collection[str] = ()
) -> ShardChanges:
    """Return the shards to add and to remove so that a running instance has the changed settings.

    Args:
        running: settings of the running instance.
        changed: the settings that it should have.
        without: shards of `running` that have left already, or are about to.

    Raises:
        ConfigError: something other than shards differs, or shards were rearranged or redefined.
    """
    for key in InstanceSettings.model_fields:
        if key != "shards" and getattr(running, key) != getattr(changed, key):
            raise ConfigError(
                f"{key} of {running.destination} changed, which takes a restart.",
                hint="While an instance runs, only its shards can be added and removed.",
                key=key,
            )
    before = {shard.name: shard for shard in running.shards if shard.name not in without}
    after = {shard.name: shard for shard in changed.shards if shard.name not in without}
    for name, shard in after.items():
        if name in before and not is_same_shard(before[name], shard):
            raise ConfigError(
                f"The definition of shard {name} changed, which takes a restart.",
                hint="To replace it while the instance runs, add it under another name and remove this one.",
                shard=name,
            )
    stay = [name for name in before if name in after]
    added = [shard for name, shard in after.items() if name not in before]
    if list(after)[: len(stay)] != stay:
        raise ConfigError(f"The shards of {running.destination} were rearranged.", hint=_APPEND)
    return ShardChanges(tuple(added), tuple(name for name in before if name not in after))


def only_shards_differ(before: InstanceSettings, after: InstanceSettings) -> bool:
    """Return whether settings differ only in shards that were appended or removed."""
    try:
        shard_changes(before, after)
    except ConfigError:
        return False
    return True


def is_same_shard(one: ShardSettings, other: ShardSettings) -> bool:
    """Return whether two definitions are of one shard; `start` is ignored, as a cursor replaces it."""
    return one.model_copy(update={"start": None}) == other.model_copy(update={"start": None})


def added_shard(running: InstanceSettings, definition: Mapping[str, Any]) -> ShardSettings:
    """Return the shard that a command adds, after checking it together with the other shards.

    Args:
        running: settings of the running instance.
        definition: as in an instance file; its secrets are read, if it may use them.

    Raises:
        ConfigError: the definition is invalid, or names a file or secret that it may not use.
    """
    name = definition.get("name")
    others = [shard for shard in running.shards if shard.name != name]
    with in_a_sentence(f"shard {name}", InstanceSettings):
        shard = ShardSettings.model_validate(admitted(running, definition))
        InstanceSettings.model_validate({**dict(running), "shards": [*others, shard]})
    return shard
