"""What docs/operating.md says may change live, beside what the code takes for a change of shards only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from canal_group.actors.driver.server import Server
from canal_group.conf.changes import only_shards_differ
from canal_group.conf.load import build_instance
from canal_group.conf.settings import InstanceSettings
from canal_group.merge.errors import ConfigError

SECTION = (
    (Path(__file__).parents[3] / "docs" / "operating.md")
    .read_text()
    .partition("## What may change live")[2]
    .partition("\n## ")[0]
)
ROWS = [line.strip("| ").split(" | ") for line in SECTION.splitlines() if line.startswith("| `")]
#: the keys that any change of has the same effect, and what that takes
TAKES = {
    key: takes
    for keys, change, takes in ROWS
    if change == "any"
    for key in re.findall(r"`(\w+)`( of)?", keys)
}


def settings(*names: str, **more: object) -> InstanceSettings:
    shards = [{"name": name, "host": name, "user": "canal"} for name in names]
    return build_instance({"preset": "memory", "destination": "shop", "shards": shards, **more})


def takes(key: str) -> str:
    return TAKES[key, ""]


def test_each_setting_is_in_the_table():
    assert {key for key, of in TAKES if not of} == set(InstanceSettings.model_fields) - {"shards"}


@pytest.mark.parametrize("key", sorted(InstanceSettings.model_fields.keys() - {"shards"}))
def test_a_change_of_each_other_setting_takes_what_the_table_says(key: str):
    before = settings("a")
    assert not only_shards_differ(before, before.model_copy(update={key: object()}))
    assert takes(key).startswith("a new server" if key == "ray" else "a restart of the instance")


def test_another_ray_takes_a_new_server():
    server = Server()
    server._ray = settings("a")
    with pytest.raises(ConfigError, match="restart the server"):
        server._join(Path("shop.yaml"), settings("a", ray={"num_cpus": 7}))


def test_shards_change_as_the_table_says():
    said = [takes for keys, _, takes in ROWS if keys == "`shards`"]
    assert [each.partition(":")[0].partition(";")[0] for each in said] == [
        "nothing",
        "a restart of the instance",
    ]
    before = settings("a", "b")
    assert only_shards_differ(before, settings("a", "b", "c"))
    assert only_shards_differ(before, settings("b"))
    assert not only_shards_differ(before, settings("b", "a"))
    redefined = before.shards[0].model_copy(update={"port": 7})
    assert not only_shards_differ(before, before.model_copy(update={"shards": (redefined, before.shards[1])}))
    started = before.shards[0].model_copy(update={"start": "earliest"})
    assert only_shards_differ(before, before.model_copy(update={"shards": (started, before.shards[1])}))
    assert TAKES["start", " of"].startswith("nothing")
