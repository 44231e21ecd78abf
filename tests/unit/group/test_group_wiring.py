"""The group's settings are those of the instance."""

from dataclasses import fields

from actors.group.wiring import group_settings
from conf.load import build_instance
from conf.stream_settings import BatchSettings
from merge.delivery.batch_limits import BatchLimits

SHARDS = [{"name": "a", "host": "a", "user": "canal"}]


def test_every_setting_of_a_batch_is_a_limit_of_the_same_name_and_default():
    defaults = {limit.name: limit.default for limit in fields(BatchLimits)}
    assert BatchSettings().model_dump().items() <= defaults.items()


def test_the_settings_of_a_batch_are_its_limits():
    defaults = BatchSettings().model_dump()
    chosen = {name: not value if isinstance(value, bool) else value + 1 for name, value in defaults.items()}
    settings = build_instance({"preset": "memory", "destination": "shop", "shards": SHARDS, "batch": chosen})
    limits = group_settings(settings).limits
    assert {name: getattr(limits, name) for name in chosen} == chosen
