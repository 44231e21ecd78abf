"""Who may change a running instance, and what that makes it show to a server that asks for passwords."""

from __future__ import annotations

from pathlib import Path

import pytest
from integration.shared_servers import state_of
from integration.shop import CLIENT, DEADLINE_S, Reading, Shop
from integration.zookeeper_fixtures import eventually
from support.instance.program import run
from support.security.certificates import Authority
from support.security.rogue_server import PUBLIC_KEY, RogueServer, Trick, Wire, rogue
from support.security.rogue_server import login as let_in

from canal_group.actors.driver.instance import Instance
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.gateway.operator_token import find_token
from canal_group.gateway.tls import Tls
from canal_group.merge.calls.consumers import Status
from canal_group.merge.calls.operators import (
    AddShard,
    GivePolicy,
    RebuildSchema,
    RemoveShard,
    Resolve,
    ShowJoined,
    ShowSchema,
    SkipEvent,
)
from canal_group.merge.errors import AccessDenied, ConfigError
from canal_group.merge.values.member import Policy
from canal_group.operator import Operator, calls

OPERATIONS = (
    RemoveShard("s0"),
    GivePolicy("s0", Policy.SKIP),
    SkipEvent("s0", "mysql-bin.000001:4"),
    ShowSchema(),
    RebuildSchema("s0"),
    ShowJoined("shop.orders"),
    Resolve("shop.orders", "note", "text"),
)


def clear(wire: Wire) -> None:
    wire.switch("mysql_clear_password", b"")
    let_in(wire)


def by_key(wire: Wire) -> None:
    wire.switch("caching_sha2_password")
    if wire.more(b"\x04") == b"\x02":
        wire.decrypted(wire.more(PUBLIC_KEY))
    let_in(wire)


def shard_at(server: RogueServer, **named: object) -> dict[str, object]:
    return {"name": "new", "host": "127.0.0.1", "port": server.port, "user": "canal", **named}


def test_any_loopback_client_reads_and_only_this_user_operates(shop: Shop, tmp_path: Path):
    """1. without tokens a consumer reads; 2. who shows no token changes nothing, and nobody is told a
    secret; 3. the command line of this user finds the token, and so does Python, while the instance runs.
    """
    secret = tmp_path / "token"
    secret.write_text("ray-s3cret-9")
    with shop.serve() as instance, shop.connect(instance) as consumer, rogue(clear) as server:
        shop.write_everywhere(5)
        reading = Reading(consumer)
        reading.until(shop.rows)
        reading.check(shop)
        gateway_client = GatewayClient(instance.uri, shop.destination)
        add = AddShard(shard_at(server, password_file=str(secret)))
        for operation in (add, *OPERATIONS):
            for token in (None, "guessed"):
                asked = GatewayClient(instance.uri, shop.destination, token)
                with pytest.raises(AccessDenied, match="A token is needed"):
                    asked.ask(operation)
                asked.close()
        gateway_client.close()
        assert server.heard == []
        where = ["-d", shop.destination, "-g", instance.uri]
        assert "s0 holds the group" in run("shard", "hold", "s0", *where).stdout
        operator = Operator(instance.uri, shop.destination)
        assert operator.ask(calls.GivePolicy("s0", Policy.RESUME))["policy"] is None
        operator.close()
        assert find_token(instance.uri)
    assert find_token(instance.uri) is None


def _operator(instance: Instance, shop: Shop) -> Operator:
    """Return an operator of an instance whose server is active."""
    eventually(lambda: state_of(instance)["active"], "the server to be active", within_s=DEADLINE_S)
    return Operator(instance.uri, shop.destination)


def _tried(instance: Instance, shop: Shop, server: RogueServer) -> str:
    """Wait until the new shard has met the server, and return its sentence about it."""

    gateway_client = GatewayClient(instance.uri, shop.destination)

    def told() -> str:
        shards = {shard["shard"]: shard for shard in gateway_client.ask(Status())["shards"]}
        return str((shards.get("new") or {}).get("error") or "")

    eventually(told, "the new shard to say why it cannot begin", within_s=DEADLINE_S)
    assert server.heard
    error = told()
    gateway_client.close()
    return error


@pytest.mark.parametrize(
    "trick", [clear, *(pytest.param(trick, marks=pytest.mark.soak) for trick in (by_key, let_in))]
)
def test_an_operator_cannot_have_a_secret_sent_to_another_host(shop: Shop, tmp_path: Path, trick: Trick):
    """1. neither a file that no shard names nor the password that shards have is used for a host that the
    instance file does not name for it: nobody connects, so nobody has an answer to pass on; 2. without a
    password the host is free, and is told nothing."""
    secret = tmp_path / "token"
    secret.write_text("ray-s3cret-9")
    password_file, password = tmp_path / "source", "source-s3cret-5"
    password_file.write_text(password)
    for one in shop.servers:
        one.execute(
            f"CREATE OR REPLACE USER guarded@'127.0.0.1' IDENTIFIED BY '{password}'",
            "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO guarded@'127.0.0.1'",
        )
    guarded = {"user": "guarded", "password_file": str(password_file)}
    with shop.serve(each_shard=guarded) as instance, rogue(trick) as server:
        operator = _operator(instance, shop)
        for named in (
            {"password_file": str(secret)},
            {"password_file": str(password_file)},
            {"password_env": "HOME"},
        ):
            with pytest.raises(ConfigError, match=r"should be for a host in `shard_add\.hosts`"):
                operator.ask(calls.AddShard(shard_at(server, **named)))
        assert server.heard == []
        operator.ask(calls.AddShard(shard_at(server)))
        assert _tried(instance, shop, server)
        assert not server.knows(password)
        operator.close()


def test_what_a_listed_host_asks_for_is_a_secret_that_is_named_for_shards(shop: Shop, tmp_path: Path):
    """1. the host may have passwords, and no other file or variable as one; 2. nor the password in clear."""
    secret = tmp_path / "token"
    secret.write_text("ray-s3cret-9")
    with shop.serve(shard_add={"hosts": ["127.0.0.1"]}) as instance, rogue(clear) as server:
        operator = _operator(instance, shop)
        with pytest.raises(ConfigError, match=r"`password_file` should name a file in `shard_add\.secrets`"):
            operator.ask(calls.AddShard(shard_at(server, password_file=str(secret))))
        with pytest.raises(ConfigError, match=r"`password_env` should be one of `shard_add\.variables`"):
            operator.ask(calls.AddShard(shard_at(server, password_env="HOME")))
        assert server.heard == []
        used = shop.settings().shards[0].password_file
        operator.ask(calls.AddShard(shard_at(server, password_file=str(used))))
        assert "asks for the password itself" in _tried(instance, shop, server)
        operator.close()


def test_a_certificate_alone_reads_and_never_operates(shop: Shop, tmp_path: Path):
    """1. only `client_ca` is set: a certificate of it reads; 2. it operates nothing; 3. this user does."""
    ours, theirs = Authority(tmp_path), Authority(tmp_path, "consumers-ca")
    pair, anyone = ours.pair("gateway"), theirs.pair("anyone.example.com", of_consumer=True)
    ssl = {"cert": str(pair.cert), "key": str(pair.key), "client_ca": str(theirs.ca)}
    with shop.serve(gateway={"port": 0, "ssl": ssl}) as instance:
        files = {"tls_ca": ours.ca, "tls_cert": anyone.cert, "tls_key": anyone.key}
        with shop.connect(instance, **files) as consumer:
            shop.write(0, 5)
            assert consumer.get(timeout=DEADLINE_S)
        tls = Tls(ours.ca, anyone.cert, anyone.key)
        gateway_client = GatewayClient(instance.uri, shop.destination, tls=tls)
        for operation in (AddShard({}), *OPERATIONS):
            with pytest.raises(AccessDenied, match="A token is needed"):
                gateway_client.ask(operation)
        gateway_client.close()
        operator = Operator(instance.uri, shop.destination, tls=tls)
        assert operator.ask(calls.GivePolicy("s0", Policy.HOLD))["policy"] == "hold"
        operator.close()


def test_certificates_have_the_grants_that_the_settings_say(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """1. a listed certificate reads under its client ids; 2. one that may operate does; 3. others do not come
    in, though the authority signed them."""
    ours, theirs = Authority(tmp_path), Authority(tmp_path, "consumers-ca")
    pair = ours.pair("gateway")
    gateway = {
        "port": 0,
        "ssl": {"cert": str(pair.cert), "key": str(pair.key), "client_ca": str(theirs.ca)},
        "clients": [
            {"name": "mirror", "certificate": "mirror.example.com", "client_ids": [CLIENT]},
            {"name": "ops", "certificate": "ops.example.com", "operate": True},
        ],
    }

    def tls(name: str) -> Tls:
        signed = theirs.pair(name, of_consumer=True)
        return Tls(ours.ca, signed.cert, signed.key)

    with shop.serve(gateway=gateway) as instance:
        mirror = tls("mirror.example.com")
        files = {"tls_ca": mirror.ca, "tls_cert": mirror.cert, "tls_key": mirror.key}
        with shop.connect(instance, **files) as consumer:
            shop.write(0, 5)
            assert consumer.get(timeout=DEADLINE_S)
        with pytest.raises(AccessDenied, match="The certificate of mirror does not allow client id other"):
            shop.connect(instance, client_id="other", **files)
        for name, sentence in (
            ("mirror.example.com", "The certificate of mirror does not allow the operation shard_policy"),
            ("anyone.example.com", "token is missing or wrong"),
        ):
            with pytest.raises(AccessDenied, match=sentence):
                Operator(instance.uri, shop.destination, tls=tls(name)).ask(
                    calls.GivePolicy("s0", Policy.HOLD)
                )
        assert Operator(instance.uri, shop.destination, tls=tls("ops.example.com")).ask(
            calls.GivePolicy("s0", Policy.HOLD)
        )
