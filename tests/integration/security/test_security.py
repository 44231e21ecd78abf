"""Who may read, who may not, and what nobody gets to see: on real servers, with real certificates."""

# ruff: noqa: F401, F811 - fixtures are imported, and used by name

from __future__ import annotations

import json
import logging
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from integration.processes import listening
from integration.shop import CLIENT, DEADLINE_S, Reading, Shop
from integration.zookeeper_fixtures import DEADLINE_S as WITHIN_S
from integration.zookeeper_fixtures import SESSION_S, coordinate, destination, eventually, zookeeper
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_digest_acl
from support.instance.program import run
from support.instance.secured_gateway import SECRETS, gateway_of
from support.security.certificates import Authority

import canal_group
from canal_group.actors.coordination.embedded import (
    EmbeddedZooKeeper,
    _config,
    _find_jars,
    _find_java,
    _free_port,
)
from canal_group.actors.coordination.switch import ZooKeeperSwitch
from canal_group.actors.coordination.zookeeper import ZooKeeperCoordinator
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.gateway.tls import Tls
from canal_group.merge.calls.call import Call, inside
from canal_group.merge.calls.operators import AddShard, GivePolicy, RemoveShard
from canal_group.merge.errors import AccessDenied, ConfigError, CoordinatorUnavailable, UsageError
from canal_group.merge.values.member import Policy
from canal_group.zookeeper.login import ZooKeeperLogin
from canal_group.zookeeper.stop_mark import StopMark


@inside
class Whatever(Call[None]):
    """A call that no gateway knows."""


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    return SECRETS


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


# ---- the gateway


def test_a_client_reads_what_its_token_is_for_and_nothing_else(
    shop: Shop, authority: Authority, secrets: dict[str, str], tmp_path: Path
):
    """1. the right token reads over TLS; 2. every other one is refused, each with its reason; 3. so are
    consumers that do not speak TLS, or trust somebody else; 4. no refusal tells a secret."""
    with shop.serve(gateway=gateway_of(authority)) as instance:
        assert instance.uri.startswith("grpc+tls://")
        with shop.connect(instance, token=secrets["READER_TOKEN"], tls_ca=authority.ca) as consumer:
            shop.write_everywhere(10)
            reading = Reading(consumer)
            reading.until(shop.rows)
        reading.check(shop)

        refusals = []
        for token, client_id, sentence in (
            (None, CLIENT, "token is missing or wrong"),
            ("", CLIENT, "token is missing or wrong"),
            (secrets["READER_TOKEN"] + "x", CLIENT, "token is missing or wrong"),
            (secrets["READER_TOKEN"], "other", "of reader does not allow client id other"),
            (secrets["STOCK_TOKEN"], CLIENT, f"of stock does not allow destination {shop.destination}"),
        ):
            with pytest.raises(AccessDenied, match=sentence) as denied:
                shop.connect(instance, token=token, tls_ca=authority.ca, client_id=client_id)
            refusals.append(denied.value)
        foreign = Authority(tmp_path, "foreign")
        plain = instance.uri.replace("grpc+tls", "grpc")
        for uri, tls_ca, sentence in (
            (plain, None, "accepts TLS only"),
            (instance.uri, None, "cannot be verified"),
            (instance.uri, foreign.ca, "cannot be verified"),
            (instance.uri.replace("127.0.0.1", "localhost"), authority.ca, r"(?i)hostname mismatch"),
        ):
            with pytest.raises(ConfigError, match=sentence) as mistaken:
                canal_group.connect(
                    uri, destination=shop.destination, token=secrets["READER_TOKEN"], tls_ca=tls_ca
                )
            refusals.append(mistaken.value)
        told = [f"{error!r} {error} {json.dumps(error.to_dict())}" for error in refusals]
        assert not [text for text in told if "s3cret" in text]


def test_rows_and_operations_are_guarded_as_subscriptions_are(
    shop: Shop, authority: Authority, secrets: dict[str, str]
):
    """1. ops has a batch outstanding; 2. another client's token does not read its rows; 3. readers do not
    operate, whatever the operation; 4. who operates is heard."""
    with shop.serve(gateway=gateway_of(authority)) as instance:
        options = {"token": secrets["OPS_TOKEN"], "tls_ca": authority.ca, "client_id": "ops"}
        with shop.connect(instance, **options) as consumer:
            shop.write(0, 5)
            batch = consumer.get_without_ack(timeout=DEADLINE_S)
            assert batch is not None
            ticket = {"client_id": "ops", "epoch": consumer.epoch, "batch_id": batch.batch_id}
            for token in ("READER_TOKEN", "STOCK_TOKEN"):
                gateway_client = GatewayClient(
                    instance.uri, shop.destination, secrets[token], Tls(ca=authority.ca)
                )
                with pytest.raises(AccessDenied, match="does not allow"):
                    gateway_client.rows(format="envelope", **ticket)
                hold = GivePolicy("s0", Policy.HOLD)
                for operation in (AddShard({}), RemoveShard("s0"), hold, Whatever()):
                    with pytest.raises(AccessDenied, match="does not allow"):
                        gateway_client.ask(operation)
                gateway_client.close()
            gateway_client = GatewayClient(
                instance.uri, shop.destination, secrets["OPS_TOKEN"], Tls(ca=authority.ca)
            )
            with pytest.raises(UsageError, match="no action 'Whatever'"):
                gateway_client.ask(Whatever())
            gateway_client.close()
            asked = ["hold", "s0", "-d", shop.destination, "-g", instance.uri, "--tls-ca", str(authority.ca)]
            held = run("shard", *asked, "--token-env", "OPS_TOKEN")
            assert "s0 holds the group" in held.stdout
            denied = run("shard", *asked, "--token-env", "READER_TOKEN", status=1)
            assert "AccessDenied" in denied.stderr
            assert batch.envelope().num_rows == batch.rows


def test_a_gateway_may_ask_consumers_for_certificates(
    shop: Shop, authority: Authority, secrets: dict[str, str], tmp_path: Path
):
    consumers = Authority(tmp_path, "consumers-ca")
    ours = consumers.pair("ours")
    with shop.serve(gateway=gateway_of(authority, client_ca=str(consumers.ca))) as instance:
        options = {"token": secrets["READER_TOKEN"], "tls_ca": authority.ca}
        with pytest.raises(ConfigError, match="requires a client certificate"):
            shop.connect(instance, **options)
        with shop.connect(instance, **options, tls_cert=ours.cert, tls_key=ours.key) as consumer:
            assert consumer.status()["destination"] == shop.destination


def test_a_gateway_with_an_unusable_certificate_does_not_start(
    shop: Shop, authority: Authority, secrets: dict[str, str]
):
    gateway = gateway_of(authority)
    gateway["ssl"]["key"] = str(authority.pair("another").key)
    with (
        pytest.raises(ConfigError, match=r"gateway\.ssl\.key: .* \(key values mismatch\)"),
        shop.serve(gateway=gateway),
    ):
        pytest.fail("it started")


# ---- ZooKeeper


def login(secrets: dict[str, str]) -> ZooKeeperLogin:
    return ZooKeeperLogin("canal", secrets["ZOOKEEPER_PASSWORD"])


@pytest.fixture
def anybody(zookeeper: EmbeddedZooKeeper) -> Iterator[KazooClient]:
    """A session without a login."""
    client = KazooClient(zookeeper.hosts)
    client.start()
    yield client
    client.stop()
    client.close()


def nodes_below(client: KazooClient, path: str) -> list[str]:
    found = [path]
    for name in client.get_children(path):
        found += nodes_below(client, f"{path}/{name}")
    return found


def assert_private(hosts: str, path: str, secrets: dict[str, str]) -> list[str]:
    """Every node belongs to the user alone: nobody else reads, writes, removes, or lists it."""
    password = secrets["ZOOKEEPER_PASSWORD"]
    # What kazoo writes at DEBUG is under test elsewhere.
    quiet = logging.getLogger("quiet")
    quiet.setLevel(logging.INFO)
    owner = KazooClient(hosts, auth_data=[("digest", f"canal:{password}")], logger=quiet)
    stranger = KazooClient(hosts, auth_data=[("digest", "canal:guessed")], logger=quiet)
    acl = [make_digest_acl("canal", password, all=True)]
    try:
        owner.start()
        stranger.start()
        nodes = nodes_below(owner, path)
        for node in nodes:
            assert owner.get_acls(node)[0] == acl, node
            for forbidden in (
                lambda node=node: stranger.get(node),
                lambda node=node: stranger.set(node, b"x"),
                lambda node=node: stranger.get_children(node),
                lambda node=node: stranger.create(f"{node}/mine"),
            ):
                with pytest.raises(NoAuthError):
                    forbidden()
            if node != path:
                with pytest.raises(NoAuthError):
                    stranger.delete(node)
    finally:
        for client in (owner, stranger):
            client.stop()
            client.close()
    return nodes


@pytest.mark.soak
def test_nodes_belong_to_the_instances_user_and_consumers_need_the_login(
    shop: Shop, one_zookeeper: EmbeddedZooKeeper, secrets: dict[str, str], caplog: pytest.LogCaptureFixture
):
    """1. a consumer reads and acks through a guarded ZooKeeper; 2. no node of it can be read, changed or
    removed without the login; 3. consumers without it, or with a wrong one, are told; 4. no log tells it."""
    prefix = f"/{shop.destination}"
    coordination = {
        "kind": "zookeeper",
        "hosts": one_zookeeper.hosts,
        "session_timeout_s": 4,
        "prefix": prefix,
        "user": "canal",
        "password_env": "ZOOKEEPER_PASSWORD",
    }
    auth = f"canal:{secrets['ZOOKEEPER_PASSWORD']}"
    find = {"zookeeper": one_zookeeper.hosts, "prefix": prefix, "destination": shop.destination}
    caplog.set_level(logging.DEBUG)
    with shop.serve(coordination=coordination):
        with canal_group.connect(
            **find, client_id=CLIENT, wait_s=DEADLINE_S, zookeeper_auth=auth
        ) as consumer:
            shop.write_everywhere(5)
            reading = Reading(consumer)
            reading.until(shop.rows)
            nodes = {
                node.removeprefix(prefix) for node in assert_private(one_zookeeper.hosts, prefix, secrets)
            }
        root = f"/destinations/{shop.destination}"
        assert {"/cluster", f"{root}/running", f"{root}/epoch", f"{root}/{CLIENT}/cursor"} <= nodes
        for wrong in (None, "canal:guessed"):
            with pytest.raises(ConfigError, match="refuses access"):
                canal_group.connect(**find, client_id="other", zookeeper_auth=wrong)
        by = ["--zookeeper", one_zookeeper.hosts, "--prefix", prefix]
        refused = run("stop", shop.destination, *by, status=1)
        assert "refuses a client without a user access" in refused.stderr
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ZOOKEEPER_AUTH", auth)
            by += ["--zookeeper-auth-env", "ZOOKEEPER_AUTH"]
            assert "stopped by" in run("stop", shop.destination, *by).stdout
            assert "may be served again" in run("start", shop.destination, *by).stdout
    reading.check(shop)
    assert "s3cret" not in caplog.text


def test_a_server_with_another_login_changes_nothing_and_says_so(
    zookeeper: EmbeddedZooKeeper, destination: str, secrets: dict[str, str]
):
    """A prefix of its own: the nodes above are made with it, and are as private."""
    options = {"prefix": f"/{destination}", "session_timeout_s": SESSION_S}

    def coordinator(who: ZooKeeperLogin) -> ZooKeeperCoordinator:
        return ZooKeeperCoordinator(zookeeper.hosts, destination, "a:1", "a", login=who, **options)

    first = coordinator(login(secrets))
    assert first.campaign() == 1
    for wrong, sentence in (
        (ZooKeeperLogin("canal", "guessed"), "refuses user canal access"),
        (ZooKeeperLogin(), "refuses a client without a user access"),
    ):
        second = coordinator(wrong)
        with pytest.raises(ConfigError, match=sentence) as caught:
            second.campaign()
        assert "guessed" not in str(caught.value)
        second.close()
        with pytest.raises(ConfigError, match="refuses"):
            ZooKeeperSwitch(zookeeper.hosts, destination, options["prefix"], wrong).stop(
                StopMark("x", "y"), 0
            )
    assert first.check_active() > 0
    first.close()
    again = coordinator(login(secrets))
    assert again.campaign() == 2
    again.close()


def test_nodes_that_stood_open_become_private(
    zookeeper: EmbeddedZooKeeper, destination: str, secrets: dict[str, str], anybody: KazooClient, coordinate
):
    """1. a server without a login leaves nodes; 2. one with a login takes them over; the epoch goes on."""
    open_to_all = coordinate("a")
    assert open_to_all.campaign() == 1
    open_to_all.lease_consumer(CLIENT, "me")
    open_to_all.close()
    root = f"/otter/canal/destinations/{destination}"
    assert anybody.get(f"{root}/{CLIENT}/lease")
    guarded = coordinate("b", login=login(secrets))
    assert guarded.campaign() == 2
    assert len(assert_private(zookeeper.hosts, root, secrets)) >= 5
    with pytest.raises(NoAuthError):
        anybody.get(f"{root}/epoch")


@dataclass
class TlsZooKeeper:
    """A ZooKeeper that speaks TLS only."""

    hosts: str
    authority: Authority


@pytest.fixture
def tls_zookeeper(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[TlsZooKeeper]:
    authority = Authority(tmp_path, "zookeeper-ca")
    pair = authority.pair("zookeeper")
    # ZooKeeper's PEM store wants key and chain in one file.
    store = tmp_path / "store.pem"
    store.write_bytes(pair.key.read_bytes() + pair.cert.read_bytes())
    port = _free_port()
    lines = [
        line
        for line in _config(tmp_path / "data", port, 200).splitlines()
        if not line.startswith("clientPort")
    ]
    lines += [
        f"secureClientPort={port}",
        "secureClientPortAddress=127.0.0.1",
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        f"ssl.keyStore.location={store}",
        "ssl.keyStore.type=PEM",
        f"ssl.trustStore.location={authority.ca}",
        "ssl.trustStore.type=PEM",
        f"ssl.clientAuth={getattr(request, 'param', 'none')}",
    ]
    config = tmp_path / "zoo.cfg"
    config.write_text("\n".join(lines) + "\n")
    log = tmp_path / "zookeeper.log"
    main = "org.apache.zookeeper.server.ZooKeeperServerMain"
    command = [_find_java(), "-Xmx128m", "-cp", f"{_find_jars()}/*", main, str(config)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        eventually(
            lambda: (
                ("127.0.0.1", port) in {(a.removeprefix("::ffff:"), p) for a, p in listening({process.pid})}
            ),
            f"ZooKeeper to listen: {log}",
            within_s=WITHIN_S,
        )
        yield TlsZooKeeper(f"127.0.0.1:{port}", authority)
    finally:
        process.terminate()
        process.wait()


def test_a_server_is_elected_over_verified_tls_only(
    tls_zookeeper: TlsZooKeeper, secrets: dict[str, str], tmp_path: Path
):
    """1. over TLS, with a login too; 2. not without TLS; 3. not where another authority signed; 4. not where
    the certificate is of another host."""
    hosts, ca = tls_zookeeper.hosts, str(tls_zookeeper.authority.ca)
    foreign = str(Authority(tmp_path, "foreign").ca)
    secret = secrets["ZOOKEEPER_PASSWORD"]

    def coordinator(who: ZooKeeperLogin, at: str = hosts, **options: float) -> ZooKeeperCoordinator:
        return ZooKeeperCoordinator(at, "shop", "a:1", "a", session_timeout_s=SESSION_S, login=who, **options)

    elected = coordinator(ZooKeeperLogin("canal", secret, tls=True, ca=ca))
    assert elected.campaign() == 1
    for who, at in (
        (ZooKeeperLogin("canal", secret), hosts),
        (ZooKeeperLogin("canal", secret, tls=True, ca=foreign), hosts),
        (ZooKeeperLogin("canal", secret, tls=True, ca=ca), hosts.replace("127.0.0.1", "localhost")),
    ):
        refused = coordinator(who, at, connect_timeout_s=1.0)
        with pytest.raises(CoordinatorUnavailable) as caught:
            refused.campaign()
        assert secret not in str(caught.value)
        refused.close()
    assert elected.check_active() > 0
    elected.close()


@pytest.mark.soak
@pytest.mark.parametrize("tls_zookeeper", ["need"], indirect=True)
def test_a_zookeeper_asks_for_certificates_as_it_does_by_default(
    tls_zookeeper: TlsZooKeeper, shop: Shop, tmp_path: Path
):
    """1. an instance with a certificate is served; 2. a consumer with one finds it, and reads; 3. a server
    and a consumer without one are refused.
    """
    authority = tls_zookeeper.authority
    ca, ours = str(authority.ca), authority.pair("ours")
    shown = {"ca": ca, "cert": str(ours.cert), "key": str(ours.key)}
    coordination = {"kind": "zookeeper", "hosts": tls_zookeeper.hosts, "session_timeout_s": 4, "ssl": shown}
    find = {"zookeeper": tls_zookeeper.hosts, "destination": shop.destination, "client_id": CLIENT}
    with shop.serve(coordination=coordination):
        with canal_group.connect(
            **find,
            zookeeper_ca=ca,
            zookeeper_cert=ours.cert,
            zookeeper_key=ours.key,
            wait_s=DEADLINE_S,
        ) as consumer:
            shop.write(0, 5)
            Reading(consumer).until(5)
        bare = ZooKeeperCoordinator(
            tls_zookeeper.hosts,
            shop.destination,
            "a:1",
            "a",
            session_timeout_s=SESSION_S,
            login=ZooKeeperLogin(tls=True, ca=ca),
            connect_timeout_s=1.0,
        )
        with pytest.raises(CoordinatorUnavailable):
            bare.campaign()
        bare.close()
        with pytest.raises(CoordinatorUnavailable):
            canal_group.connect(**find, zookeeper_ca=ca, wait_s=0)
        at = ["--zookeeper", tls_zookeeper.hosts, "--zookeeper-ca", ca]
        proof = ["--zookeeper-cert", str(ours.cert), "--zookeeper-key", str(ours.key)]
        assert "was not stopped" in run("start", shop.destination, *at, *proof).stdout


def test_a_gateway_serves_on_an_address_of_its_own_by_tls(
    shop: Shop, authority: Authority, secrets: dict[str, str], one_zookeeper: EmbeddedZooKeeper
):
    """1. it listens there only, and ZooKeeper says so; 2. a consumer that goes by ZooKeeper reads over TLS;
    3. one that trusts another address's certificate is told.
    """
    gateway = gateway_of(authority)
    pair = authority.pair("elsewhere", "127.0.0.2")
    gateway |= {"host": "127.0.0.2", "ssl": {"cert": str(pair.cert), "key": str(pair.key)}}
    with shop.serve(gateway=gateway) as instance:
        assert instance.uri.startswith("grpc+tls://127.0.0.2:")
        port = int(instance.uri.rpartition(":")[2])
        options = {"destination": shop.destination, "client_id": CLIENT, "token": secrets["READER_TOKEN"]}
        with canal_group.connect(
            **options, zookeeper=one_zookeeper.hosts, tls_ca=authority.ca, wait_s=DEADLINE_S
        ) as consumer:
            # Another process may listen on the same port of 127.0.0.1.
            heard = listening({int(consumer.status()["gateway"]["pid"])})
            assert {address.removeprefix("::ffff:") for address, at in heard if at == port} == {"127.0.0.2"}
            shop.write_everywhere(5)
            reading = Reading(consumer)
            reading.until(shop.rows)
        reading.check(shop)
    wrong = gateway | gateway_of(authority) | {"host": "127.0.0.2"}
    with (
        shop.serve(gateway=wrong) as instance,
        pytest.raises(ConfigError, match=r"(?i)IP address mismatch"),
    ):
        canal_group.connect(instance.uri, **options, tls_ca=authority.ca)
