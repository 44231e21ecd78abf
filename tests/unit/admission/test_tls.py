"""Gateways with certificates, and what a consumer is told that does not fit them."""

import contextlib
import json
import pickle
import socket
import threading

import pytest
from pyarrow import flight
from support.security.certificates import Authority

import canal_group
from canal_group.actors.admission.access import READER, Grant, Grants, token_digest
from canal_group.actors.admission.gateway_tls import GatewayTls
from canal_group.actors.admission.token_middleware import TokenMiddleware, caller_of
from canal_group.conf.listeners.gateway_settings import GatewayBounds
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.gateway.tls import Tls
from canal_group.merge.calls.consumers import Status
from canal_group.merge.errors import AccessDenied, ConfigError, ServerUnavailable
from canal_group.operator import Operator, Policy, calls
from canal_group.spark.options import Options


class Gateway(flight.FlightServerBase):
    """Answers every request with the name of its caller's grant."""

    def __init__(self, tls=None, *tokens, grants=None):
        options = tls.server_options() if tls is not None else {}
        scheme = "grpc" if tls is None else "grpc+tls"
        if grants is None:
            by_token = Grants.of((token, Grant(token.upper())) for token in tokens)
            grants = by_token if tokens else Grants(anybody=READER)
        middleware = TokenMiddleware(lambda: grants, GatewayBounds().calls_max).middleware
        super().__init__(f"{scheme}://127.0.0.1:0", middleware=middleware, **options)
        self.plain, self.encrypted = f"grpc://127.0.0.1:{self.port}", f"grpc+tls://127.0.0.1:{self.port}"

    def do_action(self, context, _action):
        return [json.dumps({"value": caller_of(context).grant.name}).encode()]


@pytest.fixture
def gateway():
    made = []

    def make(*options, **keywords):
        made.append(Gateway(*options, **keywords))
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
    gateway_client = GatewayClient(uri, "shop", token, tls or Tls())
    try:
        return gateway_client.ask(Status())
    finally:
        gateway_client.close()


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


class Listener:
    """Accepts connections and keeps the first bytes of each."""

    def __init__(self):
        self.heard = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                with connection:
                    connection.settimeout(10)
                    self.heard.append(connection.recv(1 << 16))

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()


@pytest.fixture
def listener():
    made = Listener()
    yield made
    made.close()


SCHEMES = ("grpc", "grpc+tcp", "grpc+tls", "GRPC", "Grpc+Tcp", "GRPC+TLS")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_authority_means_tls_by_every_way_in(scheme, listener, authority):
    """A listener that is not a gateway hears the begin of a TLS handshake, and nothing else: no token."""
    uri, settings = f"{scheme}://127.0.0.1:{listener.port}", Tls(ca=authority.ca)
    options = {"gateway": uri, "destination": "shop", "client": "1", "token": "s3cret"}
    ways = [
        lambda: canal_group.connect(
            uri, destination="shop", token="s3cret", tls_ca=authority.ca, wait_s=0, retry_s=0
        ),
        lambda: Operator(uri, "shop", "s3cret", settings).ask(calls.GivePolicy("s0", Policy.HOLD)),
        lambda: GatewayClient(lambda: [uri], "shop", "s3cret", settings).ask(Status()),
        lambda: pickle.loads(pickle.dumps(GatewayClient(uri, "shop", "s3cret", settings))).rows(
            format="envelope"
        ),
        lambda: Options.from_spark({**options, "tlsCa": str(authority.ca)}).gateway_client().ask(Status()),
    ]
    for way in ways:
        with pytest.raises((ServerUnavailable, ConfigError)):
            way()
    assert len(listener.heard) >= len(ways)
    assert not [heard for heard in listener.heard if heard and not heard.startswith(b"\x16\x03")]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_schemes_are_taken_in_any_case_with_and_without_tls(scheme, gateway, authority):
    server = gateway(tls_of(authority.pair("server")), "a")
    assert asked(f"{scheme}://127.0.0.1:{server.port}", Tls(ca=authority.ca), "a") == "A"
    if not scheme.lower().endswith("tls"):
        assert asked(f"{scheme}://127.0.0.1:{gateway().port}") == "everybody"


def test_what_does_not_fit_a_gateway_with_tls_is_said(gateway, authority, other):
    server = gateway(tls_of(authority.pair("server")))
    elsewhere = gateway(tls_of(authority.pair("elsewhere", "127.0.0.2")))
    expired = gateway(tls_of(authority.pair("expired", days=-0.01)))
    for uri, tls, sentence in (
        (server.plain, None, r"accepts TLS only.*grpc\+tls"),
        (server.encrypted, None, "cannot be verified: .*certificate.*tls_ca"),
        (server.encrypted, Tls(ca=other.ca), "cannot be verified"),
        (elsewhere.encrypted, Tls(ca=authority.ca), r"(?i)IP address mismatch"),
        (expired.encrypted, Tls(ca=authority.ca), "certificate that has expired.*operator renew it"),
        (gateway().encrypted, Tls(ca=authority.ca), "failed the TLS handshake"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            asked(uri, tls)


def test_a_gateway_that_wants_a_certificate_says_so(gateway, authority, other):
    server = gateway(tls_of(authority.pair("server"), authority.ca))
    ours, foreign = authority.pair("ours"), other.pair("foreign")
    assert asked(server.encrypted, Tls(authority.ca, ours.cert, ours.key)) == "everybody"
    with pytest.raises(ConfigError, match="accepts TLS only"):
        asked(server.plain)
    for tls in (Tls(authority.ca), Tls(authority.ca, foreign.cert, foreign.key)):
        with pytest.raises(ConfigError, match=r"requires a client certificate that it trusts.*tls_cert"):
            asked(server.encrypted, tls)


def test_certificates_are_known_by_name_and_have_only_their_own_grants(gateway, authority, other):
    """1. a listed certificate is let in as its client; 2. any other one that the authority signed is not, nor
    is one with a token that is for another certificate; 3. a wrong token does not lead back to that."""
    grants = Grants(
        tokens=((token_digest("s3cret"), "both", Grant("BOTH")), (token_digest("free"), "", Grant("FREE"))),
        certificates=(("mirror", Grant("MIRROR", shows="certificate")),),
    )
    server = gateway(tls_of(authority.pair("server"), authority.ca), grants=grants)

    def asked_as(name, token=None):
        pair = authority.pair(name, of_consumer=True)
        return asked(server.encrypted, Tls(authority.ca, pair.cert, pair.key), token)

    assert asked_as("mirror") == "MIRROR"
    assert asked_as("both", "s3cret") == "BOTH"
    assert asked_as("whoever", "free") == "FREE"
    for name, token in (("whoever", None), ("both", None), ("mirror", "s3cret"), ("mirror", "wrong")):
        with pytest.raises(AccessDenied, match="token is missing or wrong"):
            asked_as(name, token)


def test_a_certificate_is_known_by_its_first_alternative_or_common_name(gateway, authority):
    """1. a common name alone is its name; 2. the first of two alternative names is, and the second is not;
    3. a common name beside an alternative one is not."""
    grants = Grants(certificates=(("mirror", Grant("MIRROR")), ("billing", Grant("BILLING"))))
    server = gateway(tls_of(authority.pair("server"), authority.ca), grants=grants)

    def asked_as(common, *alternatives):
        pair = authority.pair(common, alternatives=alternatives)
        return asked(server.encrypted, Tls(authority.ca, pair.cert, pair.key))

    assert asked_as("mirror") == "MIRROR"
    assert asked_as("whoever", "billing", "mirror") == "BILLING"
    assert asked_as("mirror", "billing") == "BILLING"
    for names in (("whoever", "another", "mirror"), ("mirror", "another"), ("mirror", "another", "mirror")):
        with pytest.raises(AccessDenied, match="token is missing or wrong"):
            asked_as(*names)


def test_an_unrequested_certificate_names_no_client(gateway, authority):
    grants = Grants(certificates=(("mirror", Grant("MIRROR")),))
    server = gateway(tls_of(authority.pair("server")), grants=grants)
    pair = authority.pair("mirror", of_consumer=True)
    with pytest.raises(AccessDenied):
        asked(server.encrypted, Tls(authority.ca, pair.cert, pair.key))


def test_a_gateway_that_answered_once_is_away_and_not_mistaken(gateway, authority):
    server = gateway(tls_of(authority.pair("server")))
    gateway_client = GatewayClient(server.encrypted, "shop", tls=Tls(ca=authority.ca))
    assert gateway_client.ask(Status()) == "everybody"
    server.shutdown()
    with pytest.raises(ServerUnavailable):
        gateway_client.ask(Status())
    gateway_client.close()


def test_an_unanswered_address_is_inactive_and_not_misconfigured(authority):
    for uri in ("grpc://127.0.0.1:1", "grpc+tls://127.0.0.1:1"):
        with pytest.raises(ServerUnavailable):
            asked(uri, Tls(ca=authority.ca))


def test_files_that_cannot_be_are_refused(authority, tmp_path):
    with pytest.raises(ConfigError, match="cannot be sent") as caught:
        GatewayClient("grpc://127.0.0.1:1", "shop", "s3cret\n")
    assert "s3cret" not in str(caught.value)
    with pytest.raises(ConfigError, match="go together"):
        Tls(cert=authority.ca)
    with pytest.raises(ConfigError, match=r"none cannot be read \(No such file"):
        GatewayClient("grpc://127.0.0.1:1", "shop", tls=Tls(ca=tmp_path / "none"))
