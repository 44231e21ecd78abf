"""The token that `serve` makes for commands of its own user."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.security.second_user import NOBODY

from canal_group.actors.gateway.address import GatewayAddress
from canal_group.conf.listeners.gateway_settings import GatewaySettings
from canal_group.gateway import operator_token
from canal_group.gateway.operator_token import OperatorToken, find_token
from canal_group.merge.errors import ConfigError

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    return tmp_path / "cache" / "canal-group"


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


@contextmanager
def listening(host="127.0.0.1", port=0, *, as_user=None, **options) -> Iterator[int]:
    """Listen, as another user if one is named; the port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if as_user is not None:
        os.seteuid(as_user)
    try:
        listener = socket.create_server((host, port), family=family, **options)
    finally:
        if as_user is not None:
            os.seteuid(0)
    with listener:
        yield listener.getsockname()[1]


@pytest.fixture
def port():
    with listening() as port:
        yield port


def published(host, port) -> OperatorToken:
    token = OperatorToken(host, port)
    token.publish()
    return token


def test_a_token_is_this_user_s_alone_and_found_by_the_address(cache, port):
    made = OperatorToken("127.0.0.1", port)
    assert find_token(f"grpc://127.0.0.1:{port}") is None
    assert not cache.exists(), "it is in no file before the gateway answers"
    made.publish()
    assert (mode(cache), mode(made.file)) == (0o700, 0o600)
    assert find_token(f"grpc://127.0.0.1:{port}") == made.token
    assert len(made.token) >= 32
    assert published("127.0.0.1", port - 1).token != made.token
    assert len(list(cache.iterdir())) == 2, "nothing else is left"
    made.close()
    assert find_token(f"grpc://127.0.0.1:{port}") is None


@pytest.mark.parametrize(
    "uri",
    [
        "grpc://localhost:{0}",
        "grpc+tls://localhost:{0}",
        "grpc://[::1]:{0}",
        "grpc://127.0.0.2:{0}",
        "grpc://127.0.0.1:1",
        "grpc://evil.example.com:{0}",
        "grpc://127.0.0.1",
        "grpc://127.0.0.1:x",
        "",
    ],
)
def test_it_is_shown_to_no_other_address(uri):
    with listening("0.0.0.0") as port:
        made = published("127.0.0.1", port)
        assert find_token(f"grpc://127.0.0.1:{port}") == made.token
        assert find_token(uri.format(port)) is None


def test_it_goes_to_addresses_beyond_loopback_by_tls_only(monkeypatch):
    with listening("0.0.0.0") as port:
        made = published("10.0.0.5", port)
        assert find_token(f"grpc://10.0.0.5:{port}") is None
        assert find_token(f"grpc+tls://10.0.0.5:{port}") == made.token


@pytest.mark.parametrize(("host", "uri"), [("0.0.0.0", "grpc://127.0.0.1:{0}"), ("::", "grpc://[::1]:{0}")])
def test_a_gateway_on_every_address_is_operated_from_its_own_machine(host, uri):
    with listening(host) as port:
        made = published(host, port)
        assert find_token(uri.format(port)) == made.token


def test_a_restart_makes_another_one_and_an_older_server_leaves_it(port):
    old, new = published("127.0.0.1", port), published("127.0.0.1", port)
    assert old.token != new.token
    old.close()
    assert find_token(f"grpc://127.0.0.1:{port}") == new.token


def test_the_token_is_not_shown_without_a_listener():
    """The gateway crashed: whoever comes first has the port."""
    shown = []
    for _ in range(3):
        with listening() as port:
            made = published("127.0.0.1", port)
            assert find_token(f"grpc://127.0.0.1:{port}") == made.token
        # Other tests of this user may have taken one of the ports meanwhile.
        shown.append(find_token(f"grpc://127.0.0.1:{port}"))
    assert None in shown
    with listening() as port:
        made = published("127.0.0.1", port)
        assert find_token(f"grpc://127.0.0.1:{port}") == made.token


@as_root
@pytest.mark.parametrize(
    ("host", "options"),
    [
        ("127.0.0.1", {}),
        ("0.0.0.0", {}),
        ("::", {"dualstack_ipv6": True}),
        ("::ffff:127.0.0.1", {"dualstack_ipv6": True}),
    ],
)
def test_another_account_that_takes_the_port_is_shown_nothing(host, options):
    with listening(host, as_user=NOBODY, **options) as port:
        published("127.0.0.1", port)
        assert find_token(f"grpc://127.0.0.1:{port}") is None


@as_root
def test_the_one_that_connections_come_to_counts():
    """1. another account listens on all addresses of IPv6 alone: ours come to us; 2. those of IPv6 do not."""
    for host in ("127.0.0.1", "0.0.0.0"):
        with listening(host) as port, listening("::", port, as_user=NOBODY):
            made = published("127.0.0.1", port)
            assert find_token(f"grpc://127.0.0.1:{port}") == made.token
            published("::1", port)
            assert find_token(f"grpc://[::1]:{port}") is None


def test_machines_and_containers_with_one_home_have_a_file_each(monkeypatch, port):
    here = published("127.0.0.1", port)
    machine = os.uname()
    elsewhere = os.uname_result((machine.sysname, "elsewhere", *machine[2:]))
    with monkeypatch.context() as patch:
        patch.setattr(operator_token.os, "uname", lambda: elsewhere)
        there = published("127.0.0.1", port)
        assert find_token(f"grpc://127.0.0.1:{port}") == there.token
    assert find_token(f"grpc://127.0.0.1:{port}") == here.token
    assert str(Path("/proc/self/ns/net").stat().st_ino) in here.file.name


def test_a_folder_or_file_of_others_is_not_used(cache, tmp_path, port):
    uri = f"grpc://127.0.0.1:{port}"
    made = published("127.0.0.1", port)
    made.file.chmod(0o640)
    assert find_token(uri) is None
    made.file.chmod(0o600)
    cache.chmod(0o750)
    assert find_token(uri) is None
    with pytest.raises(ConfigError, match="chmod 700"):
        published("127.0.0.1", 2)
    cache.chmod(0o700)
    assert find_token(uri) == made.token
    cache.rename(tmp_path / "elsewhere")
    cache.symlink_to(tmp_path / "elsewhere")
    assert find_token(uri) is None
    with pytest.raises(ConfigError, match="no link"):
        published("127.0.0.1", 2)


def test_without_such_a_folder_the_session_s_own_is_used(cache, tmp_path, monkeypatch, port):
    cache.mkdir(parents=True)
    cache.chmod(0o750)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    made = published("127.0.0.1", port)
    assert made.file.parent == tmp_path / "run" / "canal-group"
    assert find_token(f"grpc://127.0.0.1:{port}") == made.token


@as_root
def test_a_folder_that_another_user_made_is_not_used(cache):
    cache.mkdir(parents=True, mode=0o700)
    os.chown(cache, NOBODY, NOBODY)
    with pytest.raises(ConfigError, match="not private to this user"):
        published("127.0.0.1", 2)


def test_a_link_at_its_path_is_replaced_and_not_followed(cache, tmp_path, port):
    file = published("127.0.0.1", port).file
    file.unlink()
    (tmp_path / "target").write_text("mine")
    file.symlink_to(tmp_path / "target")
    assert find_token(f"grpc://127.0.0.1:{port}") is None
    made = published("127.0.0.1", port)
    assert (tmp_path / "target").read_text() == "mine"
    assert find_token(f"grpc://127.0.0.1:{port}") == made.token


def test_a_gateway_without_operators_starts(monkeypatch, caplog):
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    with GatewayAddress(GatewaySettings(port=0)) as address:
        address.publish_operator_token()
    assert "has no operator token" in caplog.text
    assert address.operator_token not in caplog.text


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_token_is_found_from_when_it_is_published_until_it_is_withdrawn(host, cache):
    with GatewayAddress(GatewaySettings(host=host, port=0)) as address:
        port = int(address.uri.rpartition(":")[2])
        with listening(port=port):
            assert find_token(f"grpc://127.0.0.1:{port}") is None
            for _ in range(2):
                address.publish_operator_token()
                assert find_token(f"grpc://127.0.0.1:{port}") == address.operator_token
                address.withdraw_operator_token()
                assert find_token(f"grpc://127.0.0.1:{port}") is None
                assert list(cache.iterdir()) == []
        address.publish_operator_token()
    with listening(port=port):
        assert find_token(f"grpc://127.0.0.1:{port}") is None
