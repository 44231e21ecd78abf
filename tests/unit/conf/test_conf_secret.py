"""Passwords and tokens are read from the environment or a file, and never shown."""

import json

import pytest
from pydantic import ValidationError

from canal_group.conf.description import describe
from canal_group.conf.listeners.gateway_settings import GatewaySettings
from canal_group.conf.load import build_instance, load_instance
from canal_group.conf.secret import Owner
from canal_group.conf.shard_settings import ShardSettings
from canal_group.merge.errors import ConfigError

SECRET = "hunter2-hunter2"


def instance(shard=None, **values):
    shards = [{"name": "a", "host": "db", "user": "canal", **(shard or {})}]
    return {"preset": "memory", "destination": "shop", "shards": shards, **values}


def refused(values, **kwargs):
    with pytest.raises(ConfigError) as caught:
        build_instance(values, **kwargs)
    assert SECRET not in str(caught.value) + json.dumps(caught.value.to_dict())
    return str(caught.value).removeprefix("settings: ")


def test_a_password_is_read_from_the_environment_or_a_nearby_file(tmp_path, monkeypatch):
    monkeypatch.setenv("SHOP_PASSWORD", SECRET)
    (tmp_path / "pw").write_text(f" {SECRET} \r\n\n")
    shards = [
        {"name": "env", "host": "a", "user": "u", "password_env": "SHOP_PASSWORD"},
        {"name": "file", "host": "b", "user": "u", "password_file": "pw"},
        {"name": "none", "host": "c", "user": "u"},
    ]
    (tmp_path / "token").write_text(f"{SECRET}\r\n\n")
    gateway = {"token_file": "token"}
    loaded = build_instance(instance(shards=shards, gateway=gateway), folder=tmp_path)
    passwords = [shard.password.get_secret_value() for shard in loaded.shards]
    assert passwords == [SECRET, f" {SECRET} ", ""]
    assert loaded.gateway.token.get_secret_value() == SECRET


def test_a_password_is_read_once(monkeypatch):
    monkeypatch.setenv("PW", SECRET)
    loaded = build_instance(instance({"password_env": "PW"}))
    monkeypatch.setenv("PW", "other")
    assert loaded.shards[0].password.get_secret_value() == SECRET


def test_secrets_are_shown_nowhere(monkeypatch):
    monkeypatch.setenv("PW", SECRET)
    loaded = build_instance(instance({"password_env": "PW"}, gateway={"token_env": "PW"}))
    shard, gateway = loaded.shards[0], loaded.gateway
    shown = [
        *map(repr, (loaded, shard, gateway, shard.password, gateway.token)),
        *map(str, (loaded, shard, gateway, shard.password, gateway.token)),
        loaded.model_dump_json(),
        str(loaded.model_dump()),
        f"{loaded} {shard} {gateway}",
        str(describe(loaded)),
        json.dumps(loaded.model_json_schema()),
    ]
    assert not [text for text in shown if SECRET in text]
    assert describe(loaded)["shards[0].password_env"] == "PW"


def test_a_variable_that_is_missing_empty_or_no_name_is_refused(monkeypatch):
    monkeypatch.delenv("SHOP_PASSWORD", raising=False)
    expected = "should name an environment variable that holds the secret, but"
    assert refused(instance({"password_env": "SHOP_PASSWORD"})) == (
        f"`shards[0].password_env` {expected} SHOP_PASSWORD is not set."
    )
    monkeypatch.setenv("SHOP_PASSWORD", "")
    assert refused(instance(gateway={"token_env": "SHOP_PASSWORD"})) == (
        f"`gateway.token_env` {expected} SHOP_PASSWORD is empty."
    )
    # The secret itself instead of its variable's name.
    assert refused(instance({"password_env": SECRET})) == (
        f"`shards[0].password_env` {expected} is not a variable name."
    )


def test_a_file_that_is_missing_empty_or_no_text_is_refused(tmp_path):
    expected = "should name a file that holds the secret, but"
    values = instance({"password_file": "pw"})
    file = tmp_path / "pw"
    assert refused(values, folder=tmp_path) == (
        f"`shards[0].password_file` {expected} {file} cannot be read (No such file or directory)."
    )
    file.write_bytes(b"\n")
    assert refused(values, folder=tmp_path) == f"`shards[0].password_file` {expected} {file} is empty."
    file.write_bytes(b"\xff")
    assert (
        refused(values, folder=tmp_path) == f"`shards[0].password_file` {expected} {file} is not UTF-8 text."
    )


COORDINATION_ONLY = frozenset({Owner.COORDINATION})


def test_unused_secrets_are_not_read_and_may_be_missing(tmp_path, monkeypatch):
    """A command that opens no source: 1. those of sources and clients are missing; 2. its own are not."""
    monkeypatch.delenv("NOT_SET", raising=False)
    monkeypatch.setenv("ZOOKEEPER_PASSWORD", SECRET)
    lookup = {"host": "db", "user": "canal", "password_file": "missing"}
    shards = [
        {"name": "a", "host": "db", "user": "canal", "password_env": "NOT_SET"},
        {"name": "b", "host": "db2", "user": "canal", "password_file": "missing"},
        {"name": "c", "files": "binlogs", "lookup": lookup},
        {"name": "d", "host": "db3", "user": "canal"},
    ]
    coordination = {
        "kind": "zookeeper",
        "hosts": "zk:2181",
        "user": "canal",
        "password_env": "ZOOKEEPER_PASSWORD",
    }
    clients = [{"name": "one", "token_env": "NOT_SET"}, {"name": "two", "token_env": "NOT_SET"}]
    gateway = {"host": "0.0.0.0", "token_file": "missing", "clients": clients}
    values = {**instance(shards=shards), "coordination": coordination, "gateway": gateway}
    loaded = build_instance(values, folder=tmp_path, secrets=COORDINATION_ONLY)
    assert loaded.coordination.password.get_secret_value() == SECRET
    unread = [*(shard.password for shard in loaded.shards[:2]), loaded.shards[2].lookup.password]
    for secret in (*unread, loaded.gateway.token, *(client.token for client in loaded.gateway.clients)):
        with pytest.raises(RuntimeError, match="without this secret"):
            secret.get_secret_value()
    assert loaded.shards[3].password.get_secret_value() == ""
    assert loaded.gateway.names_who
    assert "`shards[0].password_env`" in refused(values, folder=tmp_path)
    monkeypatch.delenv("ZOOKEEPER_PASSWORD")
    message = refused(values, folder=tmp_path, secrets=COORDINATION_ONLY)
    assert message.startswith("`coordination.password_env` should name an environment variable")


def test_a_secret_that_is_not_read_is_still_named_as_it_should_be(tmp_path, monkeypatch):
    monkeypatch.delenv("PW", raising=False)
    for shard, what in (
        ({"password_env": SECRET}, "but is not a variable name."),
        ({"password_env": "PW", "password_file": "pw"}, "but `password_env` is given too."),
    ):
        assert refused(instance(shard), folder=tmp_path, secrets=()).endswith(what)


def test_a_file_without_an_end_is_refused():
    message = refused(instance({"password_file": "/dev/zero"}))
    assert message.endswith("but /dev/zero is longer than 65536 bytes.")


def test_a_secret_has_one_source(monkeypatch, tmp_path):
    monkeypatch.setenv("PW", SECRET)
    (tmp_path / "pw").write_text(SECRET)
    both = {"password_env": "PW", "password_file": "pw"}
    expected = "should be the only source of the password, but `password_env` is given too."
    assert refused(instance(both), folder=tmp_path) == f"`shards[0].password_file` {expected}"


@pytest.mark.parametrize("value", [[SECRET], {"of": SECRET}, 12345678])
def test_what_stands_where_a_secret_is_named_is_not_repeated(value):
    assert refused(instance({"password_env": value})) == (
        "`shards[0].password_env` should be text, but is something else."
    )


@pytest.mark.parametrize(
    "text",
    [
        f"shards: [{{name: a, password: {SECRET}}}]",
        f"password: {SECRET}",
        f"password: *{SECRET}",
        f"password: !{SECRET} x",
        f"password: @{SECRET}",
        f"password: %{SECRET}",
        f"password: '{SECRET}",
        f"password: {SECRET}: {SECRET}",
        f"{{password: [{SECRET}",
    ],
)
def test_a_password_written_into_the_file_is_refused_and_not_repeated(tmp_path, text):
    file = tmp_path / "shop.yaml"
    file.write_text(f"preset: memory\ndestination: d\n{text}\n")
    with pytest.raises(ConfigError) as caught:
        load_instance(file)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("model", [ShardSettings, GatewaySettings])
def test_an_error_of_a_model_does_not_repeat_what_it_was_given(model):
    with pytest.raises(ValidationError) as caught:
        model.model_validate({"password": SECRET, "token": SECRET, "password_env": [SECRET], "port": SECRET})
    assert SECRET not in str(caught.value)


def test_settings_without_a_password_have_an_empty_one():
    assert ShardSettings(name="a", host="h", user="u").password.get_secret_value() == ""


TLS = {"ca": "ca.pem"}


def test_a_password_that_is_renewed_is_not_read_with_the_settings(tmp_path):
    (tmp_path / "token").write_text(SECRET)
    file = {"password_file": "token", "password_lifetime_s": 0, "ssl": TLS}
    command = {"password_command": ["/no/such/program", "x"], "ssl": TLS}
    for shard, renews in ((file, True), (command, True), ({"password_file": "token"}, False)):
        loaded = build_instance(instance(shard), folder=tmp_path).shards[0]
        assert loaded.renews_password is renews


@pytest.mark.parametrize(
    ("shard", "sentence"),
    [
        (
            {"password_command": ["aws"]},
            (
                "`shards[0].password_command` should be given only with `ssl` that verifies the server, "
                "but `ssl` is missing."
            ),
        ),
        (
            {"password_command": ["aws"], "ssl": {"verify": False}},
            (
                "`shards[0].password_command` should be given only with `ssl` that verifies the server, "
                "but `ssl.verify` is false."
            ),
        ),
        (
            {"password_file": "token", "password_lifetime_s": 60},
            (
                "`shards[0].password_lifetime_s` should be given only with `ssl` that verifies the server, "
                "but `ssl` is missing."
            ),
        ),
        (
            {"clear_password": True, "ssl": {"verify": False}},
            (
                "`shards[0].clear_password` should be given only with `ssl` that verifies the server, "
                "but `ssl.verify` is false."
            ),
        ),
        (
            {"password_command": ["aws"], "password_file": "token", "ssl": TLS},
            (
                "`shards[0].password_command` should be the only source of the password, "
                "but `password_file` is given too."
            ),
        ),
        (
            {"password_command": ["bin/token"], "ssl": TLS},
            (
                "`shards[0].password_command` should begin with the full path of a program, or one that "
                "PATH has, "
                "but begins with 'bin/token'."
            ),
        ),
        (
            {"password_command": [], "ssl": TLS},
            "`shards[0].password_command` should have at least one entry, but is something else.",
        ),
        (
            {"password_timeout_s": 3, "ssl": TLS},
            (
                "`shards[0].password_timeout_s` should be given only with `password_command`, "
                "but that is missing."
            ),
        ),
        (
            {"password_env": "PW", "password_lifetime_s": 3, "ssl": TLS},
            (
                "`shards[0].password_lifetime_s` should be given only with `password_command` or "
                "`password_file`, "
                "but both are missing."
            ),
        ),
    ],
)
def test_a_renewed_password_goes_to_a_verified_server_only(shard, sentence, tmp_path, monkeypatch):
    monkeypatch.setenv("PW", SECRET)
    (tmp_path / "token").write_text(SECRET)
    assert refused(instance(shard), folder=tmp_path) == sentence
