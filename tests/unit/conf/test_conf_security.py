"""Settings of who may come in, and cautions about what others could read."""

import pytest

from canal_group.actors.admission.access import Grant
from canal_group.actors.admission.gateway_tls import GatewayTls
from canal_group.actors.group import wiring
from canal_group.conf.cautions import cautions
from canal_group.conf.load import build_instance
from canal_group.merge.errors import AccessDenied, ConfigError
from canal_group.zookeeper.login import ZooKeeperLogin

SECRET = "hunter2-hunter2"
SHARD = {"name": "a", "host": "db", "user": "canal"}


@pytest.fixture(autouse=True)
def secrets(monkeypatch):
    monkeypatch.setenv("A", SECRET)
    monkeypatch.setenv("B", f"{SECRET}-2")


def built(**values):
    return build_instance({"preset": "memory", "destination": "shop", "shards": [SHARD], **values})


def refused(**values):
    with pytest.raises(ConfigError) as caught:
        built(**values)
    assert SECRET not in str(caught.value)
    return str(caught.value).removeprefix("settings: ")


def client(**values):
    return {"name": "billing", "token_env": "A", **values}


def test_clients_become_grants_of_their_tokens():
    clients = [client(), client(name="ops", token_env="B", destinations=["stock"], operate=True)]
    settings = built(gateway={"clients": clients})
    grants = wiring.grants(settings)
    assert grants.find(SECRET) == Grant("billing", destinations=frozenset({"shop"}))
    assert grants.find(f"{SECRET}-2") == Grant("ops", destinations=frozenset({"stock"}), operate=True)
    assert grants.find("") is None
    assert SECRET not in repr(settings) + settings.model_dump_json()


def test_the_gateway_s_own_token_allows_everything():
    grants = wiring.grants(built(gateway={"token_env": "A"}))
    grants.find(SECRET).check("whatever", "1001", operation="shard_add")


SSL = {"cert": "c", "key": "k", "client_ca": "ca"}


@pytest.mark.parametrize("gateway", [{}, {"ssl": SSL}, {"ssl": SSL, "host": "0.0.0.0"}])
def test_without_named_clients_all_read_and_the_operator_token_operates(gateway):
    grants = wiring.grants(built(gateway=gateway), "made")
    for shown in (("", ""), ("", "anyone.example.com"), ("wrong", "anyone.example.com")):
        grant = grants.find(*shown)
        grant.check("shop", "1001")
        with pytest.raises(AccessDenied):
            grant.check("shop", operation="shard_add")
    grants.find("made").check("shop", operation="shard_add")
    with pytest.raises(AccessDenied):
        wiring.grants(built(gateway=gateway)).find("").check("shop", operation="shard_add")


def test_with_named_clients_a_bare_certificate_is_a_stranger():
    for gateway in ({"token_env": "A"}, {"clients": [client()]}):
        grants = wiring.grants(built(gateway={**gateway, "ssl": SSL}), "made")
        assert grants.find("", "anyone.example.com") is None
        assert grants.find("made") is None


def test_certificates_become_grants():
    clients = [
        {"name": "mirror", "certificate": "mirror.example.com"},
        {"name": "ops", "certificate": "ops.example.com", "token_env": "A", "operate": True},
    ]
    grants = wiring.grants(built(gateway={"clients": clients, "ssl": SSL}))
    shop = frozenset({"shop"})
    assert grants.find("", "mirror.example.com") == Grant("mirror", shop, shows="certificate")
    assert grants.find(SECRET, "ops.example.com") == Grant("ops", shop, operate=True)
    assert grants.find(SECRET, "mirror.example.com") is None
    assert grants.find("", "ops.example.com") is None


def test_a_certificate_without_an_authority_or_of_two_clients_is_refused():
    client_settings = {"name": "x", "certificate": "x"}
    alone = refused(gateway={"clients": [client_settings]})
    assert alone == (
        "`gateway.clients[0].certificate` should be given only with `gateway.ssl.client_ca`, but that is "
        "missing."
    )
    twice = refused(gateway={"clients": [client_settings, {**client_settings, "name": "y"}], "ssl": SSL})
    assert twice == ("`gateway.clients[1].certificate` should be unique, but clients[0] has the same.")


def test_clients_that_cannot_be_are_refused():
    missing = refused(gateway={"clients": [{"name": "x"}]})
    assert missing == (
        "`gateway.clients[0].token_env` should be given, or `token_file`, or `certificate`, but is missing."
    )
    twice = refused(gateway={"clients": [client(), client(token_env="B")]})
    assert twice == "`gateway.clients[1].name` should be unique, but clients[0] is 'billing' too."
    same = refused(gateway={"clients": [client(), client(name="x")]})
    assert same == ("`gateway.clients[1].token_env` should hold a unique token, but clients[0] has the same.")
    shared = refused(gateway={"token_env": "A", "clients": [client()]})
    assert shared.endswith("but the gateway has the same.")


def test_a_token_that_no_header_can_carry_is_refused(tmp_path):
    for text in (f"{SECRET}é", f" {SECRET}", f"{SECRET}\nmore"):
        (tmp_path / "token").write_text(text)
        message = refused(gateway={"token_file": str(tmp_path / "token")})
        assert message == (
            "`gateway.token_file` should point to a token of printable ASCII characters, but it has others."
        )


def test_clients_or_certificates_open_a_gateway_to_other_machines():
    ssl = {"cert": "c", "key": "k"}
    for settings in ({"clients": [client()]}, {"ssl": {**ssl, "client_ca": "ca"}}):
        assert built(gateway={"host": "0.0.0.0", **settings})
    assert "loopback" in refused(gateway={"host": "0.0.0.0", "ssl": ssl})


def test_a_zookeeper_user_needs_a_password_and_no_colon():
    def coordination(**values):
        return {"coordination": {"kind": "zookeeper", "hosts": "zk:2181", **values}}

    missing = refused(**coordination(user="canal"))
    assert missing == (
        "`coordination.password_env` should be given with `user`, or `password_file`, but is missing."
    )
    alone = refused(**coordination(password_env="A"))
    assert alone == "`coordination.password_env` should be given only with `user`, but that is missing."
    colon = refused(**coordination(user="a:b", password_env="A"))
    assert colon == "`coordination.user` should be a name without a colon, but is 'a:b'."
    settings = built(**coordination(user="canal", password_env="A", ssl={"ca": "ca.pem"})).coordination
    login = wiring.zookeeper_login(settings)
    assert login == ZooKeeperLogin("canal", SECRET, tls=True, ca="ca.pem")
    assert SECRET not in repr(login) + repr(settings)
    assert login.client_options()["check_hostname"]
    assert ZooKeeperLogin().client_options() == {}


def test_a_malformed_credential_is_refused_without_being_repeated():
    assert ZooKeeperLogin.parse("canal:a:b") == ZooKeeperLogin("canal", "a:b")
    assert ZooKeeperLogin.parse(None, "ca.pem") == ZooKeeperLogin(tls=True, ca="ca.pem")
    assert ZooKeeperLogin.parse(None, "a", "b", "c") == ZooKeeperLogin(tls=True, ca="a", cert="b", key="c")
    for files in (("a", "b"), ("a", None, "c"), (None, "b", "c")):
        with pytest.raises(ConfigError, match="needs its key"):
            ZooKeeperLogin.parse(None, *files)
    for wrong in (SECRET, f":{SECRET}", f"{SECRET}:", ""):
        with pytest.raises(ConfigError) as caught:
            ZooKeeperLogin.parse(wrong)
        assert SECRET not in str(caught.value)


def test_what_others_could_read_is_said():
    assert cautions(built()) == []
    assert cautions(built(gateway={"host": "::1"})) == []
    remote = {"kind": "zookeeper", "hosts": "127.0.0.1:1,zk:2", "user": "u", "password_env": "A"}
    shard = {**SHARD, "ssl": {"verify": False}}
    sentences = cautions(
        built(gateway={"host": "0.0.0.0", "token_env": "A"}, coordination=remote, shards=[shard])
    )
    assert [sentence.split()[0] for sentence in sentences] == [
        "gateway.host",
        "coordination.user",
        "shards[0].ssl.verify",
    ]
    assert "zk:2" in sentences[1]
    shared_memory = {**remote, "hosts": "127.0.0.1:1,[::1]:2,localhost:3"}
    assert cautions(built(coordination=shared_memory)) == []
    assert cautions(built(coordination={**remote, "ssl": {}})) == []
    blind = cautions(built(coordination={**remote, "ssl": {"verify": False}}))
    assert blind == ["coordination.ssl.verify is false: any server can pose as ZooKeeper."]


def test_an_archive_in_clear_is_named_where_filters_mask():
    masked = {"tables": [{"match": "a", "masks": [{"column": "c", "kind": "null"}]}]}
    archive = {"folder": "/a", "clear_text": True}
    (sentence,) = cautions(built(filter=masked, archive=archive))
    assert sentence.startswith("archive.clear_text is true")
    assert cautions(built(filter=masked, archive={"folder": "/a", "key_file": "/k"})) == []
    assert cautions(built(archive={"folder": "/a"})) == []


def test_a_certificate_that_cannot_be_used_is_named(tmp_path):
    from support.security.certificates import Authority

    authority = Authority(tmp_path)
    good, other = authority.pair("good"), authority.pair("other")
    junk = tmp_path / "junk"
    junk.write_text("no PEM")
    GatewayTls(good.cert, good.key, authority.ca).check()
    for tls, sentence in (
        (
            GatewayTls(tmp_path / "none", good.key, None),
            r"gateway\.ssl\.cert: .*none cannot be read \(No such",
        ),
        (GatewayTls(junk, good.key, None), r"gateway\.ssl\.cert: .*junk cannot be used"),
        (GatewayTls(good.cert, other.key, None), r"gateway\.ssl\.key: .* \(key values mismatch\)"),
        (GatewayTls(good.cert, good.key, junk), r"gateway\.ssl\.client_ca: .*junk cannot be used"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            tls.check()
