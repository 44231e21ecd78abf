"""Plug-ins: found by their entry points, never run unless settings name them, and refused in sentences."""

from __future__ import annotations

import pickle
import subprocess
import sys
import uuid

import pytest
from support.plug_ins import put_package

from canal_group.conf.load import build_instance
from canal_group.conf.plugins.entry_points import Group, load, names, refuse_a_namesake
from canal_group.conf.relay.relay_settings import build_relay
from canal_group.merge.errors import ConfigError, SinkRefused
from canal_group.programs.output.kinds import kinds, settings_of, sink_of

STORE = """
from canal_group.conf.value import AnchoredPath, Count, Settings
class Own(Settings):
    path: AnchoredPath
    size: Count = 3
class Store:
    def __init__(self, settings, destination):
        self.made_of = settings, destination
        settings.path.read_text()
SETTINGS, STORE, FUNCTION, SINK = Own, Store, Store, Store
"""
SINK = """
from typing import Literal
from canal_group.conf.value import Settings
class Own(Settings):
    kind: Literal["pigeon"] = "pigeon"
class Pigeon:
    keeps_position = False
    def __init__(self, settings, name):
        pass
    def open(self):
        return None
    def flush(self):
        {}["feather"]
    def close(self):
        raise OSError("flown")
SETTINGS, SINK = Own, Pigeon
"""


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """A folder of packages, on the path."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


@pytest.fixture
def module():
    """The name of a module that no other test has."""
    return f"m{uuid.uuid4().hex}"


def values(**changes):
    shards = [{"name": "a", "host": "db", "user": "canal"}]
    return {"preset": "memory", "destination": "shop", "shards": shards, **changes}


def refused(changes, **keywords):
    with pytest.raises(ConfigError) as caught:
        build_instance(values(**changes), **keywords)
    return str(caught.value).removeprefix("settings: ")


def processing(**process):
    return {"filter": {"tables": [{"match": "shop.orders", "process": process}]}}


def test_what_is_not_installed_is_refused_with_what_there_is(packages, module):
    assert refused({"cursor": {"kind": "redis"}}) == (
        "`cursor.kind` should be one of 'memory', 'file', 'zookeeper', or name a plug-in "
        "(installed plug-ins of canal_group.stores: none), but is 'redis'."
    )
    put_package(packages, "more", {Group.PROCESSING: {"geo": module, "join": module}}, **{module: STORE})
    assert refused(processing(function="jion")) == (
        "`filter.tables[0].process.function` should name a plug-in "
        "(installed plug-ins of canal_group.processing: geo, join), but is 'jion'."
    )


def test_a_plug_in_has_its_settings_and_their_errors_have_its_key(packages, module, tmp_path):
    put_package(
        packages,
        "more",
        {Group.STORES: {"redis": module}, Group.PROCESSING: {"geo": module}},
        **{module: STORE},
    )
    assert module not in sys.modules, "nothing is imported before settings name it"
    cursor = {"kind": "redis", "path": "here", "flush_s": 2.0}
    built = build_instance(values(cursor=cursor), folder=tmp_path)
    assert (built.cursor.plug_in.settings.path, built.cursor.flush_s) == (tmp_path / "here", 2.0)
    assert built == build_instance(values(cursor=cursor), folder=tmp_path)
    assert built != build_instance(values(cursor={**cursor, "size": 4}), folder=tmp_path)
    assert refused({"cursor": {"kind": "redis"}}) == "`cursor.path` should be given, but is missing."
    assert refused({"cursor": {**cursor, "size": 0}}) == "`cursor.size` should be at least 1, but is 0."
    assert refused({"cursor": {**cursor, "pth": 1}}) == (
        "`cursor.pth` should be a known key (nearest: path), but is unknown."
    )
    assert refused(processing(function="geo", path=3)) == (
        "`filter.tables[0].process.path` should be a path, but is 3."
    )
    assert refused({**processing(function="geo", path="x"), "cursor": {"kind": "redis"}}).startswith(
        "`cursor."
    )


def test_a_plug_in_is_made_of_its_settings_where_it_is_used(packages, module, tmp_path):
    put_package(packages, "more", {Group.STORES: {"redis": module}}, **{module: STORE})
    settings = build_instance(values(cursor={"kind": "redis", "path": "here"}), folder=tmp_path)
    with pytest.raises(
        ConfigError, match=r"Plug-in 'redis' of canal_group.stores cannot begin: FileNotFound"
    ):
        settings.cursor.plug_in.make("shop")
    (tmp_path / "here").write_text("")
    sent = pickle.loads(pickle.dumps(settings))
    assert sent == settings
    assert sent.cursor.plug_in.make("shop").made_of == (settings.cursor.plug_in.settings, "shop")


def test_a_machine_without_a_plug_in_gets_the_settings_and_says_so(packages, module, tmp_path):
    """As a shard's process on another node does: not when it begins, but when the plug-in is needed."""
    put_package(packages, "more", {Group.STORES: {"redis": module}}, **{module: STORE})
    settings = build_instance(values(cursor={"kind": "redis", "path": "here"}), folder=tmp_path)
    (tmp_path / "settings").write_bytes(pickle.dumps(settings))
    code = """
import pickle, sys
settings = pickle.load(open(sys.argv[1], "rb"))
pickle.dumps(settings)
try:
    settings.cursor.plug_in.make("shop")
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "settings"], capture_output=True, text=True, check=True
    )
    assert done.stdout == (
        "ConfigError There is no plug-in 'redis' on this machine (installed plug-ins of canal_group.stores: "
        "none). Install its package into the environment of every process that reads the settings.\n"
    )


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (
            "import no_such_module",
            "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'.",
        ),
        ("", "has no SETTINGS that inherit canal_group.conf.value.Settings."),
        ("SETTINGS = dict", "has no SETTINGS that inherit canal_group.conf.value.Settings."),
        (
            "from canal_group.conf.value import Settings as SETTINGS\nFUNCTION = 3",
            "has no class FUNCTION.",
        ),
    ],
)
def test_a_module_that_lacks_something_is_named_with_its_package(code, why, packages, module):
    put_package(packages, "more-geo", {Group.PROCESSING: {"geo": module}}, **{module: code})
    with pytest.raises(ConfigError) as caught:
        load(Group.PROCESSING, "geo")
    assert caught.value.message == f"Plug-in 'geo' of canal_group.processing, from more-geo 1.0, {why}"


def test_two_packages_with_one_name_are_refused(packages, module):
    for package in ("one", "two"):
        put_package(packages, package, {Group.STORES: {"redis": module}}, **{module: STORE})
    assert names(Group.STORES) == ["redis"]
    assert "is in two packages: one 1.0 and two 1.0" in refused({"cursor": {"kind": "redis", "path": "x"}})


def test_a_plug_in_with_the_name_of_what_is_built_in_is_refused(tmp_path, module):
    """In processes of their own: what is installed is asked once."""
    put_package(tmp_path, "more", {Group.STORES: {"file": module}, Group.OUTPUTS: {"lines": module}})
    code = """
import sys
sys.path.insert(0, sys.argv[1])
from canal_group.conf.load import build_instance
from canal_group.programs.output.kinds import settings_of
shard = {"name": "a", "host": "db", "user": "canal"}
settings = {"preset": "memory", "destination": "shop", "shards": [shard]}
build_instance(settings)
for run in (lambda: build_instance({**settings, "cursor": {"kind": "file"}}), lambda: settings_of("lines")):
    try:
        run()
    except Exception as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        f"{name!r} is built in, and a plug-in of {group} in more 1.0 has the same name."
        " Give that another name, or uninstall it."
        for name, group in (("file", "canal_group.stores"), ("lines", "canal_group.outputs"))
    ]
    refuse_a_namesake(Group.STORES, "file")


def test_an_output_is_a_kind_like_those_that_are_built_in(packages, module):
    put_package(packages, "loft", {Group.OUTPUTS: {"pigeon": module}}, **{module: SINK})
    assert "pigeon" in kinds()
    relay = {"destination": "shop", "read": {"gateway": "grpc://127.0.0.1:1"}}
    built = build_relay({**relay, "output": {"kind": "pigeon"}}, settings_of)
    sink = sink_of(built.output, "shop/1001")
    assert sink.open() is None
    with pytest.raises(
        SinkRefused, match=rf"'pigeon' failed in `flush` \(KeyError at {module}\.py:13: 'feather'"
    ):
        sink.flush()
    sink.close()
    with pytest.raises(ConfigError, match=r"`output\.kind` should be one of kafka, lines, pigeon, rabbitmq"):
        build_relay({**relay, "output": {"kind": "dove"}}, settings_of)


def test_an_output_without_its_kind_among_its_settings_is_refused(packages, module):
    put_package(packages, "loft", {Group.OUTPUTS: {"hawk": module}}, **{module: STORE})
    with pytest.raises(
        ConfigError, match=r"SETTINGS of plug-in 'hawk' of canal_group.outputs have no field `kind`"
    ):
        settings_of("hawk")
