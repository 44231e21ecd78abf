"""Changes: what of an instance may differ while it runs, namely which shards it has."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from conf.admission import admitted
from conf.sentence import first_error
from conf.settings import InstanceSettings
from conf.shard_settings import ShardSettings
from merge.errors import ConfigError

_APPEND = "Equal times are ranked by the shards' order: append new ones, and do not rearrange the others."


@dataclass(frozen=True, slots=True)
class ShardChanges:
    """Shards that are to join, in order, and names of those that are to leave."""

    added: tuple[ShardSettings, ...]
    removed: tuple[str, ...]


def shard_changes(
    running: InstanceSettings, changed: InstanceSettings, *, left: Collection[str] = ()
) -> ShardChanges:
    """Return what has to be done so that a running instance has the shards of changed settings.

    Args:
        running: what runs.
        changed: what should.
        left: shards of `running` that left already, or are about to.

    Raises:
        ConfigError: something else differs, or shards were rearranged or redefined.
    """
    for key in InstanceSettings.model_fields:
        if key != "shards" and getattr(running, key) != getattr(changed, key):
            raise ConfigError(
                f"{key} of {running.destination} changed, which takes a restart.",
                hint="Only shards can be added and removed while it runs.",
                key=key,
            )
    before = {shard.name: shard for shard in running.shards if shard.name not in left}
    after = {shard.name: shard for shard in changed.shards if shard.name not in left}
    for name, shard in after.items():
        if name in before and not is_same_shard(before[name], shard):
            raise ConfigError(
                f"Shard {name} is defined anew, which takes a restart.",
                hint="Add it under another name, and remove this one, to replace it while it runs.",
                shard=name,
            )
    stay = [name for name in before if name in after]
    added = [shard for name, shard in after.items() if name not in before]
    if list(after)[: len(stay)] != stay:
        raise ConfigError(f"The shards of {running.destination} were rearranged.", hint=_APPEND)
    return ShardChanges(tuple(added), tuple(name for name in before if name not in after))


def only_shards_differ(before: InstanceSettings, after: InstanceSettings) -> bool:
    """Return whether settings differ in nothing but shards that were appended or taken out."""
    try:
        shard_changes(before, after)
    except ConfigError:
        return False
    return True


def is_same_shard(one: ShardSettings, other: ShardSettings) -> bool:
    """Return whether two definitions are of one shard; where one began is over once it has a cursor."""
    return one.model_copy(update={"start": None}) == other.model_copy(update={"start": None})


def added_shard(running: InstanceSettings, definition: Mapping[str, Any]) -> ShardSettings:
    """Return a shard that a command adds, if its definition holds beside the others.

    Args:
        running: what runs.
        definition: as in an instance file; its secrets are read, if they are for it.

    Raises:
        ConfigError: it cannot hold, or names what is not for it.
    """
    name = definition.get("name")
    others = [shard for shard in running.shards if shard.name != name]
    try:
        shard = ShardSettings.model_validate(admitted(running, definition))
        InstanceSettings.model_validate({**dict(running), "shards": [*others, shard]})
    except ValidationError as error:
        raise first_error(error, f"shard {name}", InstanceSettings) from None
    return shard
