"""Gateways with certificates, and what a consumer is told that does not fit them."""

import json

import pytest
from certificates import Authority
from pyarrow import flight

from actors.gateway_tls import GatewayTls
from actors.token_door import TokenDoor, grant_of
from canal_group.door import GatewayDoor
from canal_group.tls import Tls
from merge.access import Grant, Grants
from merge.errors import AccessDenied, ConfigError, ServerUnavailable


class Gateway(flight.FlightServerBase):
    """Answers every request with the name of its caller's grant."""

    def __init__(self, tls=None, *tokens):
        options = tls.server_options() if tls is not None else {}
        scheme = "grpc" if tls is None else "grpc+tls"
        middleware = TokenDoor(Grants.of((token, Grant(token.upper())) for token in tokens)).middleware
        super().__init__(f"{scheme}://127.0.0.1:0", middleware=middleware, **options)
        self.plain, self.encrypted = f"grpc://127.0.0.1:{self.port}", f"grpc+tls://127.0.0.1:{self.port}"

    def do_action(self, context, _action):
        return [json.dumps({"value": grant_of(context).name}).encode()]


@pytest.fixture
def gateway():
    made = []

    def make(*options):
        made.append(Gateway(*options))
        return made[-1]

    yield make
    for server in made:
        server.shutdown()


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def other(tmp_path):
    return Authority(tmp_path, "other-ca")


def tls_of(pair, client_ca=None):
    return GatewayTls(pair.cert, pair.key, client_ca)


def asked(uri, tls=None, token=None):
    door = GatewayDoor(uri, "shop", token, tls or Tls())
    try:
        return door.ask("status")
    finally:
        door.close()


def test_each_token_is_known_by_its_own_name_and_no_other_comes_in(gateway):
    server = gateway(None, "a", "b")
    assert [asked(server.plain, token=token) for token in "ab"] == ["A", "B"]
    for wrong in (None, "", "c", "A"):
        with pytest.raises(AccessDenied, match="token is missing or wrong"):
            asked(server.plain, token=wrong)
    assert asked(gateway().plain) == "everybody"


def test_a_consumer_that_trusts_the_authority_is_answered(gateway, authority):
    server = gateway(tls_of(authority.pair("server")), "a")
    trusting = Tls(ca=authority.ca)
    # Who names an authority means TLS, whatever the address says.
    assert [asked(uri, trusting, "a") for uri in (server.encrypted, server.plain)] == ["A", "A"]


def test_what_does_not_fit_a_gateway_with_tls_is_said(gateway, authority, other):
    server = gateway(tls_of(authority.pair("server")))
    elsewhere = gateway(tls_of(authority.pair("elsewhere", "127.0.0.2")))
    for uri, tls, sentence in (
        (server.plain, None, r"speaks TLS only.*grpc\+tls"),
        (server.encrypted, None, "does not prove who it is: .*certificate.*tls_ca"),
        (server.encrypted, Tls(ca=other.ca), "does not prove who it is"),
        (elsewhere.encrypted, Tls(ca=authority.ca), r"(?i)IP address mismatch"),
        (gateway().encrypted, Tls(ca=authority.ca), "does not speak TLS as we do"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            asked(uri, tls)


def test_a_gateway_that_wants_a_certificate_says_so(gateway, authority, other):
    server = gateway(tls_of(authority.pair("server"), authority.ca))
    ours, foreign = authority.pair("ours"), other.pair("foreign")
    assert asked(server.encrypted, Tls(authority.ca, ours.cert, ours.key)) == "everybody"
    with pytest.raises(ConfigError, match="speaks TLS only"):
        asked(server.plain)
    for tls in (Tls(authority.ca), Tls(authority.ca, foreign.cert, foreign.key)):
        with pytest.raises(ConfigError, match=r"asks for a certificate that it trusts.*tls_cert"):
            asked(server.encrypted, tls)


def test_a_gateway_that_answered_once_is_away_and_not_mistaken(gateway, authority):
    server = gateway(tls_of(authority.pair("server")))
    door = GatewayDoor(server.encrypted, "shop", tls=Tls(ca=authority.ca))
    assert door.ask("status") == "everybody"
    server.shutdown()
    with pytest.raises(ServerUnavailable):
        door.ask("status")
    door.close()


def test_nobody_at_an_address_is_away_and_not_mistaken(authority):
    for uri in ("grpc://127.0.0.1:1", "grpc+tls://127.0.0.1:1"):
        with pytest.raises(ServerUnavailable):
            asked(uri, Tls(ca=authority.ca))


def test_files_that_cannot_be_are_refused(authority, tmp_path):
    with pytest.raises(ConfigError, match="cannot be sent") as caught:
        GatewayDoor("grpc://127.0.0.1:1", "shop", "s3cret\n")
    assert "s3cret" not in str(caught.value)
    with pytest.raises(ConfigError, match="go together"):
        Tls(cert=authority.ca)
    with pytest.raises(ConfigError, match=r"none cannot be read \(No such file"):
        GatewayDoor("grpc://127.0.0.1:1", "shop", tls=Tls(ca=tmp_path / "none"))
