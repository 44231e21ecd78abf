"""Where a consumer turns when a server is away, and how often it tries."""

import json
import pickle

import pytest
from pyarrow import flight

from canal_group.gateway.gateway_client import GatewayClient
from canal_group.gateway.gateway_uri import gateway_uri, is_endpoint, split_uris
from canal_group.gateway.retry import PAUSE_MAX_S, keep_trying
from canal_group.merge.calls.consumers import Status, Touch
from canal_group.merge.errors import ConfigError, CoordinatorUnavailable, NotSubscribed, ServerUnavailable


class Gateway(flight.FlightServerBase):
    """Answers every request with the value or error that it was given."""

    def __init__(self, answer):
        super().__init__("grpc://127.0.0.1:0")
        self.answer = answer
        self.asked = 0
        self.uri = f"grpc://127.0.0.1:{self.port}"

    def do_action(self, _context, _action):
        self.asked += 1
        return [json.dumps(self.answer).encode()]


@pytest.fixture
def gateway():
    made = []

    def make(answer):
        made.append(Gateway(answer))
        return made[-1]

    yield make
    for server in made:
        server.shutdown()


STANDBY = {"error": ServerUnavailable("standing by").to_dict()}


def test_addresses_share_a_scheme_or_have_their_own():
    assert split_uris("grpc://a:1") == ["grpc://a:1"]
    assert split_uris("grpc://a:1, b:2,grpc+tls://c:3") == ["grpc://a:1", "grpc://b:2", "grpc+tls://c:3"]
    assert split_uris(" GRPC://a:1/,Grpc+Tcp://b:2") == ["grpc://a:1", "grpc://b:2"]
    assert split_uris("grpc+TLS://[fe80::1%eth0]:1,h_-.x:65535") == [
        "grpc+tls://[fe80::1%eth0]:1",
        "grpc+tls://h_-.x:65535",
    ]
    for wrong in ("", "a:1", "grpc://", "://a:1"):
        with pytest.raises(ConfigError, match="is not a gateway address"):
            split_uris(wrong)
    assert split_uris("grpc://a:1,,") == ["grpc://a:1"]


@pytest.mark.parametrize(
    "wrong",
    [
        "grpc+unix:///tmp/socket",
        "grpc+unix://a:1",
        "ucx://a:1",
        "http://a:1",
        "grpc://a",
        "grpc://a:0",
        "grpc://a:65536",
        "grpc://a:1/path",
        "grpc://a:1?disable_server_verification=true",
        "grpc://user@a:1",
        "grpc://a b:1",
        "grpc://-a:1",
        "grpc://[::1:1",
    ],
)
def test_a_malformed_gateway_address_is_refused_before_a_connection(wrong):
    for tls in (False, True):
        with pytest.raises(ConfigError, match="is not a gateway address"):
            gateway_uri(wrong, tls=tls)
    with pytest.raises(ConfigError, match="is not a gateway address"):
        GatewayClient(wrong, "shop", "s3cret")
    gateway_client = GatewayClient(lambda: [wrong], "shop", "s3cret")
    with pytest.raises(ConfigError, match="is not a gateway address"):
        gateway_client.ask(Status())


def test_an_endpoint_is_a_host_and_a_port_and_nothing_else():
    assert all(map(is_endpoint, ("a:1", "10.0.0.1:11113", "[::1]:65535", "db_1.example:1")))
    assert not any(
        map(is_endpoint, ("", "a", ":1", "a:", "a:1\n", "a:1,b:2", "a:1/", "u@a:1", "\0a:1", "a:0"))
    )


def test_a_door_turns_from_a_standby_to_the_active_server_and_stays(gateway):
    standby, active = gateway(STANDBY), gateway({"value": 7})
    gateway_client = GatewayClient(f"{standby.uri},{active.uri}", "shop")
    with pytest.raises(ServerUnavailable):
        gateway_client.ask(Status())
    assert [gateway_client.ask(Status()), gateway_client.ask(Status())] == [7, 7]
    assert (standby.asked, active.asked) == (1, 2)
    gateway_client.close()


def test_a_door_turns_from_a_server_that_is_gone(gateway):
    active = gateway({"value": 7})
    gateway_client = GatewayClient(f"grpc://127.0.0.1:1,{active.uri}", "shop")
    with pytest.raises(ServerUnavailable):
        gateway_client.ask(Status())
    assert gateway_client.ask(Status()) == 7
    gateway_client.close()


def test_a_refusal_of_the_active_server_does_not_redirect(gateway):
    active, other = gateway({"error": NotSubscribed("no").to_dict()}), gateway({"value": 7})
    gateway_client = GatewayClient(f"{active.uri},{other.uri}", "shop")
    for _ in range(2):
        with pytest.raises(NotSubscribed):
            gateway_client.ask(Touch("a", 1))
    assert other.asked == 0
    gateway_client.close()


def test_a_client_asks_again_for_the_active_server_and_continues(gateway):
    old, new = gateway(STANDBY), gateway({"value": 7})
    uris = [[old.uri]]

    def find():
        if uris[0] is None:
            raise CoordinatorUnavailable("away")
        return uris[0]

    gateway_client = GatewayClient(find, "shop")
    known_then = [None, [new.uri]]
    with pytest.raises(ServerUnavailable):
        gateway_client.ask(Status())
    for uris[0] in known_then:
        with pytest.raises(ServerUnavailable):
            gateway_client.ask(Status())
    assert gateway_client.ask(Status()) == 7
    gateway_client.close()


def test_no_known_gateway_is_reported():
    gateway_client = GatewayClient(list, "shop")
    with pytest.raises(ServerUnavailable, match="No server of shop"):
        gateway_client.ask(Status())


def test_a_stream_without_a_server_is_refused_in_our_words():
    gateway_client = GatewayClient("grpc://127.0.0.1:1", "shop")
    with pytest.raises(ServerUnavailable):
        gateway_client.rows(batch_id=1)


class Attempts:
    """Fails so often; notes the pauses."""

    def __init__(self, failures, error):
        self.left, self.error, self.pauses = failures, error, []

    def __call__(self):
        if self.left:
            self.left -= 1
            raise self.error
        return "done"

    def wait(self, pause_s):
        self.pauses.append(pause_s)
        return False


def test_pauses_grow_up_to_a_bound():
    attempts = Attempts(12, ServerUnavailable("away", retry_after_s=0.1))
    assert keep_trying(attempts, (ServerUnavailable,), None, attempts.wait) == "done"
    assert 0.1 <= attempts.pauses[0] <= 0.2, "not before the error says"
    limits = [min(0.2 * 2**failures, PAUSE_MAX_S) for failures in range(12)]
    assert all(limit / 2 <= pause <= limit for pause, limit in zip(attempts.pauses, limits, strict=True))
    assert len(set(attempts.pauses)) == 12, "consumers do not reconnect together"


def test_what_is_not_retried_and_what_comes_too_late_is_raised():
    attempts = Attempts(1, NotSubscribed("no"))
    with pytest.raises(NotSubscribed):
        keep_trying(attempts, (ServerUnavailable,), None, attempts.wait)
    late = Attempts(1, ServerUnavailable("away", retry_after_s=5))
    with pytest.raises(ServerUnavailable):
        keep_trying(late, (ServerUnavailable,), 0.0, late.wait)
    assert late.pauses == []


def test_a_closed_client_stops_waiting():
    attempts = Attempts(9, ServerUnavailable("away"))
    with pytest.raises(ServerUnavailable):
        keep_trying(attempts, (ServerUnavailable,), None, lambda _: True)
    assert attempts.left == 8


def test_a_copy_in_another_process_knows_the_active_gateway_and_others(gateway):
    """The token goes with it, and is in no text that people see."""
    standby, active = gateway(STANDBY), gateway({"value": 7})
    gateway_client = GatewayClient(f"{standby.uri},{active.uri}", "shop", "secret")
    with pytest.raises(ServerUnavailable):
        gateway_client.ask(Status())
    copy = pickle.loads(pickle.dumps(gateway_client))
    assert copy.ask(Status()) == 7
    assert (standby.asked, active.asked) == (1, 1)
    assert copy._token == gateway_client._token
    assert "secret" not in f"{copy!r}{copy}"
    active.answer = STANDBY
    for _ in range(2):
        with pytest.raises(ServerUnavailable):
            copy.ask(Status())
    assert standby.asked == 2
    gateway_client.close()
    copy.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[",
        b"7",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b'{"error": 7}',
        b'{"error": {"message": 1, "details": 7}}',
    ],
    ids=lambda answer: answer[:20],
)
def test_an_answer_that_cannot_be_is_a_sentence(answer):
    class Odd(Gateway):
        def do_action(self, _context, _action):
            return [answer]

    with Odd(None) as odd:
        gateway_client = GatewayClient(odd.uri, "shop")
        with pytest.raises(ServerUnavailable, match="cannot be read"):
            gateway_client.ask(Status())
        gateway_client.close()
