"""Logging in to real servers, with TLS and without."""

from __future__ import annotations

import contextlib

import pymysql
import pytest
from support.security.certificates import Authority
from support.sources.installed import started

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
