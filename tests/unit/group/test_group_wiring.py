"""The group's settings are those of the instance."""

from canal_group.actors.group.wiring import group_settings
from canal_group.conf.load import build_instance
from canal_group.conf.stream_settings import BatchSettings

SHARDS = [{"name": "a", "host": "a", "user": "canal"}]


def test_the_settings_of_a_batch_are_its_limits():
    defaults = BatchSettings().model_dump()
    values = {name: not value if isinstance(value, bool) else value + 1 for name, value in defaults.items()}
    settings = build_instance({"preset": "memory", "destination": "shop", "shards": SHARDS, "batch": values})
    limits = group_settings(settings).limits
    assert {name: getattr(limits, name) for name in values} == values
