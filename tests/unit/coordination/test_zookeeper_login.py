"""Who we are to ZooKeeper, as kazoo's client is told."""

import pytest

from canal_group.merge.errors import ConfigError
from canal_group.zookeeper.login import NOBODY, ZooKeeperLogin


def test_no_login_sends_nothing():
    assert NOBODY.client_options() == {}
    assert ZooKeeperLogin.parse(None) == NOBODY


def test_a_user_logs_in_and_authorities_mean_tls():
    login = ZooKeeperLogin.parse("canal:a:b", "ca.pem", "cert.pem", "key.pem")
    assert login.client_options() == {
        "auth_data": [("digest", "canal:a:b")],
        "use_ssl": True,
        "ca": "ca.pem",
        "certfile": "cert.pem",
        "keyfile": "key.pem",
        "verify_certs": True,
        "check_hostname": True,
    }
    assert set(ZooKeeperLogin.parse("canal:x").client_options()) == {"auth_data"}
    assert "auth_data" not in ZooKeeperLogin.parse(None, "ca.pem").client_options()


@pytest.mark.parametrize("files", [("ca", "cert", None), ("ca", None, "key"), (None, "cert", "key")])
def test_a_certificate_without_its_other_files_is_refused(files):
    with pytest.raises(ConfigError, match="needs its key"):
        ZooKeeperLogin.parse(None, *files)


@pytest.mark.parametrize("credential", ["", ":", "canal", "canal:", ":secret"])
def test_a_credential_of_another_form_is_refused_and_not_repeated(credential):
    with pytest.raises(ConfigError) as caught:
        ZooKeeperLogin.parse(credential)
    assert caught.value.hint == "Expected user:password."
