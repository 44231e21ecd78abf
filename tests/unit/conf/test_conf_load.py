"""An instance file becomes settings: presets below, the file above."""

import pickle
from pathlib import Path

import pytest
from pydantic import ValidationError

from canal_group.conf.archive.archive_settings import ArchiveSettings
from canal_group.conf.description import describe
from canal_group.conf.load import PRESETS, build_instance, load_instance, load_preset, merge_over
from canal_group.conf.server_settings import (
    EmbeddedSettings,
    FileCursorSettings,
    LocalSettings,
    MemoryCursorSettings,
    ZookeeperCursorSettings,
    ZookeeperSettings,
)
from canal_group.conf.shard_settings import derive_server_id
from canal_group.conf.stream_settings import FilterSettings, MergeSettings, ReaderSettings
from canal_group.merge.errors import ConfigError
from canal_group.merge.order.dead_shard import WAIT, DeadShard

CONF = Path(__file__).parents[3] / "conf"


def instance(preset="memory", **values):
    shards = [{"name": name, "host": name, "user": "canal"} for name in ("a", "b")]
    return {"preset": preset, "destination": "shop", "shards": shards, **values}


PRESET_PARTS = {
    "memory": (LocalSettings(), MemoryCursorSettings(), None),
    "file": (LocalSettings(folder=Path("data")), FileCursorSettings(folder=Path("data")), None),
    "default": (ZookeeperSettings(hosts="127.0.0.1:2181"), ZookeeperCursorSettings(flush_s=1.0), None),
    "group": (
        EmbeddedSettings(folder=Path("data/zookeeper")),
        ZookeeperCursorSettings(),
        ArchiveSettings(folder=Path("data/archive")),
    ),
}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_chooses_coordination_and_storage_and_keeps_defaults(preset):
    loaded = build_instance(instance(preset))
    assert (loaded.coordination, loaded.cursor, loaded.archive) == PRESET_PARTS[preset]
    decided = {"coordination", "cursor", "archive"}
    without = {key: value for key, value in instance().items() if key != "preset"}
    bare = build_instance({**without, "coordination": {"kind": "local"}, "cursor": {"kind": "memory"}})
    assert loaded.model_dump(exclude=decided) == bare.model_dump(exclude=decided)


def test_a_file_overrides_single_keys_of_its_preset(tmp_path):
    file = tmp_path / "shop.yaml"
    file.write_text(
        "preset: group\n"
        "destination: shop\n"
        "shards:\n"
        "  - {name: a, host: db0, user: canal}\n"
        "  - {name: b, host: db1, user: canal, port: 3307, start: earliest, server_id: 7}\n"
        "coordination: {port: 2181}\n"
        "filter: {white: 'shop\\..*', routes: [{match: 'shop_\\d+\\.o', to: shop.o}]}\n"
        "merge: {dead_shard: skip_after, skip_after_s: 30}\n"
    )
    loaded = load_instance(file)
    assert loaded.coordination == EmbeddedSettings(folder=tmp_path / "data/zookeeper", port=2181)
    assert loaded.merge.skip_after_s == 30.0
    assert loaded.merge.dead_shard_policy == DeadShard("skip_after", 30_000_000)
    assert MergeSettings().dead_shard_policy == WAIT
    assert loaded.reader == ReaderSettings()
    assert [route.to for route in loaded.filter.routes] == ["shop.o"]
    assert [shard.port for shard in loaded.shards] == [3306, 3307]
    assert [loaded.start_of(shard) for shard in loaded.shards] == ["latest", "earliest"]
    assert [loaded.server_id_of(shard) for shard in loaded.shards] == [derive_server_id("shop", "a"), 7]
    assert load_instance(str(file)) == loaded


def test_relative_paths_begin_at_the_files_folder_and_absolute_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "etc").mkdir()
    Path("etc/shop.yaml").write_text(
        "preset: file\ndestination: shop\n"
        "shards: [{name: a, host: db, user: canal, ssl: {ca: tls/ca.pem}}]\n"
        "coordination: {folder: /var/epochs}\n"
        "cursor: {kind: file}\n"
    )
    loaded = load_instance("etc/shop.yaml")
    assert loaded.shards[0].ssl.ca == tmp_path / "etc/tls/ca.pem"
    assert loaded.coordination.folder == Path("/var/epochs")
    assert loaded.cursor.folder == tmp_path / "etc/data"


def test_the_default_folder_of_cursors_begins_at_the_files_folder(tmp_path):
    built = build_instance(instance("memory", cursor={"kind": "file"}), folder=tmp_path)
    assert built.cursor == FileCursorSettings(folder=tmp_path / "data")


def test_mappings_are_merged_at_any_depth_and_all_else_is_replaced():
    below = {"a": {"b": {"c": 1, "d": 2}, "list": [1, 2]}, "e": 3, "f": {"g": 4}}
    above = {"a": {"b": {"d": 5}, "list": [6]}, "f": None, "h": {"i": 7}}
    base = {"a": {"b": {"c": 1, "d": 2}, "list": [1, 2]}, "e": 3, "f": {"g": 4}}
    assert merge_over(below, above) == {
        "a": {"b": {"c": 1, "d": 5}, "list": [6]},
        "e": 3,
        "f": None,
        "h": {"i": 7},
    }
    assert below == base


def test_a_mapping_of_another_kind_replaces_the_whole():
    below = {"kind": "embedded", "folder": "data", "port": 0}
    assert merge_over({"c": below}, {"c": {"kind": "local"}}) == {"c": {"kind": "local"}}
    assert merge_over({"c": below}, {"c": {"kind": "embedded", "port": 1}})["c"]["folder"] == "data"
    loaded = build_instance(instance("group", coordination={"kind": "local"}, cursor={"kind": "memory"}))
    assert loaded.coordination == LocalSettings()


def test_building_leaves_the_given_values_alone():
    values = instance("group", merge={"margin_ms": 1})
    build_instance(values)
    assert values == instance("group", merge={"margin_ms": 1})


def test_the_example_is_an_instance_of_four_shards(monkeypatch):
    monkeypatch.setenv("SHOP_PASSWORD", "pw")
    example = load_instance(CONF / "instance.example.yaml")
    assert [shard.name for shard in example.shards] == ["shop-0", "shop-1", "shop-2", "shop-3"]
    assert {shard.password.get_secret_value() for shard in example.shards} == {"pw"}
    assert len({example.server_id_of(shard) for shard in example.shards}) == 4
    assert example.merge.dead_shard == "skip_after"


def test_derived_server_ids_are_stable_and_avoid_small_numbers():
    assert derive_server_id("shop", "shop-0") == 3_451_646_384
    ids = {derive_server_id("shop", f"shop-{number}") for number in range(1000)}
    assert len(ids) == 1000
    assert all(2**31 <= server_id <= 2**32 - 2 for server_id in ids)
    assert derive_server_id("other", "shop-0") not in ids


def test_settings_cannot_be_changed():
    loaded = build_instance(instance())
    with pytest.raises(ValidationError):
        loaded.destination = "other"
    with pytest.raises(ValidationError):
        loaded.shards[0].port = 1
    with pytest.raises(TypeError):
        loaded.shards[0] = loaded.shards[1]


def test_settings_survive_pickling_with_their_secrets(monkeypatch):
    monkeypatch.setenv("PW", "s3cr3t")
    shards = [{"name": "a", "host": "a", "user": "canal", "password_env": "PW"}]
    loaded = build_instance(instance(shards=shards, gateway={"token_env": "PW"}))
    monkeypatch.delenv("PW")
    again = pickle.loads(pickle.dumps(loaded))
    assert again == loaded
    assert again.shards[0].password.get_secret_value() == "s3cr3t"
    assert again.gateway.token.get_secret_value() == "s3cr3t"


def test_a_ring_holds_size_times_memunit():
    assert build_instance(instance()).store.bytes_max == 16 << 20
    assert build_instance(instance(store={"size": 2, "memunit_bytes": 3})).store.bytes_max == 6


def test_an_address_has_brackets_around_ipv6():
    shards = [{"name": "a", "host": "::1", "user": "u"}, {"name": "b", "host": "db", "port": 1, "user": "u"}]
    assert [shard.address for shard in build_instance(instance(shards=shards)).shards] == [
        "[::1]:3306",
        "db:1",
    ]


def test_a_description_has_every_setting_in_force_and_what_was_derived():
    described = describe(build_instance(instance("group", filter={"white": "shop\\..*"})))
    assert described["destination"] == "shop"
    assert described["shards[1].name"] == "b"
    assert described["shards[1].server_id"] == str(derive_server_id("shop", "b"))
    assert described["shards[1].start"] == "latest"
    assert described["shards[0].ssl"] == "none"
    assert described["filter.white"] == "shop\\..*"
    assert described["filter.routes"] == "none"
    assert described["batch.ddl_isolation"] == "false"
    assert described["store.bytes_max"] == "16777216"
    assert described["coordination.folder"] == "data/zookeeper"


def test_an_empty_filter_means_all_tables():
    assert build_instance(instance()).filter == FilterSettings(white="", black="", routes=())


def test_a_key_of_a_yaml_anchor_may_be_overridden(tmp_path):
    file = tmp_path / "shop.yaml"
    file.write_text(
        "preset: memory\ndestination: shop\n"
        "shards:\n"
        "  - &first {name: a, host: db, user: canal}\n"
        "  - {<<: *first, name: b, port: 3307}\n"
    )
    assert [(s.name, s.host, s.port) for s in load_instance(file).shards] == [
        ("a", "db", 3306),
        ("b", "db", 3307),
    ]


def test_presets_are_read_each_time_anew():
    load_preset("group")["coordination"]["port"] = 1
    assert load_preset("group")["coordination"]["port"] == 0


@pytest.mark.parametrize("address", ["auto", "10.0.0.1:6379", "head.example.com:1", "[::1]:65535", "h:65535"])
def test_a_ray_to_join_is_auto_or_host_and_port(address):
    assert build_instance(instance(ray={"address": address})).ray.address == address


@pytest.mark.parametrize("address", ["", "head", "h:0", "h:65536", "h:", ":1", "::1:1", "h:1:2", "a,b:1"])
def test_an_address_without_host_or_a_port_that_exists_is_refused(address):
    with pytest.raises(ConfigError, match=r"`ray\.address` should be `auto` or `host:port`, but is"):
        build_instance(instance(ray={"address": address}))


def test_several_zookeeper_hosts_are_parted_by_commas():
    hosts = "zk0:2181,10.0.0.1:2181,[::1]:2181"
    coordination = {"kind": "zookeeper", "hosts": hosts}
    assert build_instance(instance("group", coordination=coordination)).coordination.hosts == hosts
