"""The server's file: what instance files share, between their presets and what they say themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from canal_group.conf.folder import FolderContent, changes, read_folder
from canal_group.conf.load import load_instance
from canal_group.merge.errors import ConfigError

SHARDS = "shards: [{name: a, host: h, user: u}]\n"


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("A", "B", "C"):
        monkeypatch.setenv(name, f"{name}-s3cret")


def put(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def shop(folder: Path, more: str = "", preset: str = "preset: memory\n") -> Path:
    return put(folder, "shop.yaml", f"{preset}destination: shop\n{SHARDS}{more}")


def refusal(file: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_instance(file)
    return str(caught.value).replace(f"{file.parent}/", "")


def test_values_of_an_instance_go_before_the_server_and_the_preset(tmp_path: Path):
    put(
        tmp_path,
        "server.yaml",
        "coordination: {kind: zookeeper, hosts: 'zk:2181', prefix: /otter/x}\n"
        "gateway: {port: 5000, calls_max: 7, clients: [{name: a, token_env: A}]}\nstart: latest\n",
    )
    file = shop(tmp_path, "coordination: {prefix: /otter/y}\ngateway: {calls_max: 9}\nstart: earliest\n")
    loaded = load_instance(file)
    assert (loaded.coordination.kind, loaded.coordination.hosts) == ("zookeeper", "zk:2181")
    assert (loaded.coordination.prefix, loaded.start, loaded.cursor.kind) == (
        "/otter/y",
        "earliest",
        "memory",
    )
    assert (loaded.gateway.port, loaded.gateway.calls_max) == (5000, 9)
    assert [client.name for client in loaded.gateway.clients] == ["a"]
    (tmp_path / "server.yaml").unlink()
    assert "prefix" in refusal(file), "without it, the preset's kind has no such key"


def test_the_servers_preset_is_that_of_files_that_name_none(tmp_path: Path):
    put(tmp_path, "server.yaml", "preset: file\n")
    assert load_instance(shop(tmp_path, preset="")).cursor.kind == "file"
    assert load_instance(shop(tmp_path)).cursor.kind == "memory"
    put(tmp_path, "server.yaml", "preset: fil\n")
    assert refusal(shop(tmp_path, preset="")) == (
        "server.yaml: `preset` should be a preset (nearest: file), but is 'fil'."
    )


@pytest.mark.parametrize(
    ("server", "instance", "sentence"),
    [
        ("gateway: {port: x}", "", "server.yaml: `gateway.port` should be a whole number, but is 'x'."),
        (
            "gateway: {prot: 1}",
            "gateway: {calls_max: 1}",
            "server.yaml: `gateway.prot` should be a known key",
        ),
        ("gateway: {calls_max: 1}", "gateway: {prot: 1}", "shop.yaml: `gateway.prot` should be a known key"),
        ("gateway: {port: 1}", "gateway: {port: x}", "shop.yaml: `gateway.port` should be a whole number"),
        (
            "gateway: {clients: [{name: a, token_env: A}, {name: a, token_env: B}]}",
            "",
            "server.yaml: `gateway.clients[1].name` should be unique",
        ),
        (
            "coordination: {kind: zookeeper}",
            "",
            "server.yaml: `coordination.hosts` should be given, but is missing.",
        ),
        ("getaway: {}", "", "server.yaml: `getaway` should be a known key (nearest: gateway)"),
        (
            "destination: shop",
            "",
            "server.yaml: `destination` should be in an instance file, but server.yaml has what all",
        ),
        ("shards: []", "", "server.yaml: `shards` should be in an instance file"),
        ("gateway: [", "", "server.yaml: the file should be YAML, but"),
        ("3", "", "server.yaml: the file should be a mapping of settings, but is 3."),
    ],
)
def test_an_error_names_the_file_that_has_it(tmp_path: Path, server: str, instance: str, sentence: str):
    put(tmp_path, "server.yaml", server)
    assert refusal(shop(tmp_path, instance)).startswith(sentence)


def test_the_servers_file_is_not_an_instance_file(tmp_path: Path):
    server = put(tmp_path, "server.yaml", "start: earliest\n")
    file = shop(tmp_path)
    assert list(read_folder(tmp_path).settings) == [file]
    assert "`destination` should be in an instance file" in refusal(server)


def test_a_link_that_leads_nowhere_is_not_a_missing_file(tmp_path: Path):
    """Without what they share, the files would be served otherwise: to everybody, or from other positions."""
    file = shop(tmp_path)
    (tmp_path / "server.yaml").symlink_to("gone.yaml")
    assert "server.yaml: the file should be readable, but is not" in refusal(file)


def test_a_change_of_the_servers_file_is_a_change_of_all(tmp_path: Path):
    put(tmp_path, "server.yaml", "start: latest\n")
    one, two = shop(tmp_path), put(tmp_path, "two.yaml", f"preset: memory\ndestination: two\n{SHARDS}")
    running = changes({}, read_folder(tmp_path)).start
    assert list(running) == [one, two]
    put(tmp_path, "server.yaml", "# a comment\nstart: latest\n")
    assert changes(running, read_folder(tmp_path)).restart == {}
    put(tmp_path, "server.yaml", "start: earliest\n")
    assert list(changes(running, read_folder(tmp_path)).restart) == [one, two]
    put(tmp_path, "server.yaml", "strat: earliest\n")
    broken = changes(running, read_folder(tmp_path))
    assert (broken.stop, broken.restart, list(broken.refused)) == ((), {}, [one, two])


def test_a_destination_admits_some_of_the_servers_clients(tmp_path: Path):
    clients = ", ".join(f"{{name: {name.lower()}, token_env: {name}}}" for name in "ABC")
    put(tmp_path, "server.yaml", f"gateway: {{clients: [{clients}]}}\n")
    admitted = load_instance(shop(tmp_path, "gateway: {only: [a, c]}\n")).gateway.admitted
    assert [client.name for client in admitted] == ["a", "c"]
    assert len(load_instance(shop(tmp_path)).gateway.admitted) == 3
    assert refusal(shop(tmp_path, "gateway: {only: [a, x]}\n")) == (
        "shop.yaml: `gateway.only[1]` should name one of `gateway.clients` (a, b, c), but is 'x'."
    )


# ---- files that share a listener


def together(folder: Path, one: str, two: str) -> dict[Path, ConfigError]:
    """Return the errors of two files with settings of listeners."""
    for name, more in (("one", one), ("two", two)):
        put(folder, f"{name}.yaml", f"preset: memory\ndestination: {name}\n{SHARDS}{more}\n")
    return changes({}, read_folder(folder)).refused


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("", ""),
        ("canal: {}", "canal: {}"),
        ("gateway: {token_env: A}\ncanal: {user: a, password_env: A}", "canal: {}"),
        ("gateway: {calls_max: 1}", "gateway: {calls_max: 2, port: 5}"),
        ("gateway: {calls_max: 1, port: 0}", "gateway: {calls_max: 2, port: 0}"),
        ("canal: {port: 0, idle_s: 1}", "canal: {port: 0, idle_s: 2}"),
        ("gateway: {host: 127.0.0.2, calls_max: 1}", ""),
    ],
)
def test_files_share_a_listener_or_have_their_own(tmp_path: Path, one: str, two: str):
    assert together(tmp_path, one, two) == {}


@pytest.mark.parametrize(
    ("one", "two", "key", "found"),
    [
        ("", "gateway: {calls_max: 2}", "gateway.calls_max", "but is 2 and not 512"),
        ("", "gateway: {advertise: a}", "gateway.advertise", "but is 'a' and not empty"),
        (
            "gateway: {ssl: {cert: c, key: k}}",
            "",
            "gateway.ssl",
            "listens at 127.0.0.1:11113 too, but is empty and not '",
        ),
        ("canal: {}", "canal: {idle_s: 2}", "canal.idle_s", "listens at 127.0.0.1:11111 too, but is 2.0"),
        (
            "canal: {}",
            "canal: {}\ngateway: {port: 5}",
            "canal.port",
            "or `gateway.host` and `gateway.port` the same, but both are 11111",
        ),
        (
            "",
            "gateway: {host: 0.0.0.0, token_env: A}",
            "gateway.host",
            "'127.0.0.1', or `gateway.port` another one, but is '0.0.0.0' at the same port 11113",
        ),
    ],
)
def test_a_difference_is_named_with_both_files_and_the_key(
    tmp_path: Path, one: str, two: str, key: str, found: str
):
    ((file, error),) = together(tmp_path, one, two).items()
    assert file.name == "two.yaml"
    assert str(error).startswith(f"{file}: `{key}` should be ")
    assert str(tmp_path / "one.yaml") in str(error)
    assert found in str(error)


def test_a_file_that_comes_to_differ_keeps_what_it_has(tmp_path: Path):
    assert together(tmp_path, "", "") == {}
    running = changes({}, read_folder(tmp_path)).start
    one, two = sorted(running)
    assert list(together(tmp_path, "", "gateway: {calls_max: 2}")) == [two]
    after = changes(running, read_folder(tmp_path))
    assert (list(after.refused), after.restart, after.stop) == ([two], {}, ())
    # Both change, and differ: the second keeps its settings, so that the first cannot change either.
    together(tmp_path, "gateway: {calls_max: 1}", "gateway: {calls_max: 2}")
    after = changes(running, read_folder(tmp_path))
    assert (sorted(after.refused), after.restart) == ([one, two], {})
    together(tmp_path, "gateway: {calls_max: 2}", "gateway: {calls_max: 2}")
    assert sorted(changes(running, read_folder(tmp_path)).restart) == [one, two]


def test_a_new_destination_of_a_file_is_compared_too(tmp_path: Path):
    assert together(tmp_path, "", "") == {}
    found = read_folder(tmp_path)
    twins = {file: each.model_copy(update={"destination": "same"}) for file, each in found.settings.items()}
    assert list(changes({}, FolderContent(twins)).refused) == [tmp_path / "two.yaml"]
