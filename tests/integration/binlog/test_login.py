"""Logging in to real servers, with TLS and without."""

from __future__ import annotations

import contextlib

import pymysql
import pytest
from support.security.certificates import Authority
from support.sources.installed import started

from canal_group.binlog.server.password import RenewedPassword
from canal_group.binlog.server.source import connect, query
from canal_group.merge.errors import SourceUnfit

BLIND = {"ca": None, "cert": None, "key": None, "verify": False}


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def tls_mariadb(authority):
    pair = authority.pair("server")
    server = started(f"--ssl-ca={authority.ca}", f"--ssl-cert={pair.cert}", f"--ssl-key={pair.key}")
    yield server
    server.close()


def cipher(address) -> str:
    with contextlib.closing(connect(address)) as connection:
        return query(address, connection, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")[0]["Value"]


def test_a_mariadb_with_tls_is_read_by_tls_where_it_is_asked_for(tls_mariadb, source_address, authority):
    verified = {"ca": str(authority.ca), "verify": True}
    for ssl in (verified, BLIND):
        assert cipher(source_address(tls_mariadb, ssl=ssl))
    assert not cipher(source_address(tls_mariadb))
    with pytest.raises(SourceUnfit, match="shows a certificate that is not trusted"):
        connect(source_address(tls_mariadb, ssl={**verified, "ca": None}))


def test_an_account_of_mariadb_s_ed25519_is_logged_in_to_by_its_password(mariadb, source_address):
    try:
        mariadb.execute("INSTALL SONAME 'auth_ed25519'")
    except pymysql.Error as error:
        pytest.skip(f"this MariaDB has no such plugin: {error}")
    mariadb.execute(
        "CREATE OR REPLACE USER signer@'127.0.0.1' IDENTIFIED VIA ed25519 USING PASSWORD('s1gner-pass')"
    )
    try:
        where = source_address(mariadb, user="signer", password="s1gner-pass")
        with contextlib.closing(connect(where)) as connection:
            assert query(where, connection, "SELECT USER() AS me")[0]["me"].startswith("signer@")
        with pytest.raises(SourceUnfit, match="Access denied"):
            connect(source_address(mariadb, user="signer", password="another"))
    finally:
        mariadb.execute("DROP USER signer@'127.0.0.1'", "UNINSTALL SONAME 'auth_ed25519'")


@pytest.mark.parametrize("lifetime_s", [0.0, 600.0])
def test_a_password_that_was_rotated_is_the_next_connection_s(
    lifetime_s, tls_mariadb, source_address, authority, tmp_path
):
    """By a command; a remembered one that the server denies is read again."""
    held = tmp_path / "token"

    def rotate(password):
        held.write_text(f"{password}\n")
        tls_mariadb.execute(f"CREATE OR REPLACE USER token@'127.0.0.1' IDENTIFIED BY '{password}'")

    renewed = RenewedPassword(("cat", str(held)), timeout_s=20, lifetime_s=lifetime_s)
    verified = {"ca": str(authority.ca), "verify": True}
    where = source_address(tls_mariadb, user="token", password=renewed, ssl=verified)
    for password in ("first-pass", "second-pass", "second-pass"):
        rotate(password)
        with contextlib.closing(connect(where)) as connection:
            assert query(where, connection, "SELECT USER() AS me")[0]["me"].startswith("token@")
    assert renewed.remembered() == ("second-pass" if lifetime_s else None)
    tls_mariadb.execute("CREATE OR REPLACE USER token@'127.0.0.1' IDENTIFIED BY 'not-that-one'")
    with pytest.raises(SourceUnfit, match="Access denied"):
        connect(where)


def test_a_mariadb_without_tls_is_not_read_where_it_is_asked_for(mariadb, source_address):
    assert not cipher(source_address(mariadb))
    for ssl in (BLIND, {**BLIND, "verify": True}):
        with pytest.raises(SourceUnfit, match="offers no TLS"):
            connect(source_address(mariadb, ssl=ssl))


def test_a_file_of_tls_that_cannot_be_used_is_named(mariadb, source_address, tmp_path):
    (tmp_path / "junk").write_text("no PEM")
    for name, why in (("missing", "cannot be read"), ("junk", "cannot be used")):
        with pytest.raises(SourceUnfit, match=rf"`ssl\.ca` {why}"):
            connect(source_address(mariadb, ssl={**BLIND, "ca": str(tmp_path / name)}))
