"""Real MySQL servers, and shops on them; their tests are skipped where the programs cannot be had."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from integration.shop import Shop

from actors.coordination.embedded import EmbeddedZooKeeper
from canal_group.demo.mariadb import MariaDbServer
from canal_group.demo.mysql import MySqlServer
from canal_group.demo.server_process import DatabaseServer, ServerMissingError
from canal_group.demo.servers import start_all


def _started(servers: Sequence[MySqlServer]) -> Iterator[list[MySqlServer]]:
    try:
        start_all(servers)
    except ServerMissingError as error:
        pytest.skip(str(error))
    yield list(servers)
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
def two_mysqls() -> Iterator[list[MySqlServer]]:
    yield from _started([MySqlServer(), MySqlServer()])


def _shop(servers: Sequence[DatabaseServer], zookeeper: EmbeddedZooKeeper, folder: Path) -> Shop:
    for server in servers:
        server.start()
    return Shop(servers, zookeeper.hosts, folder)


@pytest.fixture
def mysql_shop(
    one_ray: None, one_zookeeper: EmbeddedZooKeeper, two_mysqls: list[MySqlServer], tmp_path: Path
) -> Shop:
    """Two MySQL shards that the tests of a module share; tables and destination are the test's own."""
    return _shop(two_mysqls, one_zookeeper, tmp_path)


@pytest.fixture
def mixed_shop(
    one_ray: None,
    one_zookeeper: EmbeddedZooKeeper,
    two_servers: list[MariaDbServer],
    two_mysqls: list[MySqlServer],
    tmp_path: Path,
) -> Shop:
    """A MariaDB shard and a MySQL shard."""
    return _shop([two_servers[0], two_mysqls[0]], one_zookeeper, tmp_path)


@dataclass(frozen=True)
class TlsMySql:
    """A MySQL server whose certificate an authority of the test's own signed for 127.0.0.1."""

    server: MySqlServer
    #: the authority's certificate
    ca: Path
    #: the certificate of another authority, which signed nothing here
    other_ca: Path


@pytest.fixture
def tls_mysql(tmp_path: Path) -> Iterator[TlsMySql]:
    ca, key = _authority(tmp_path, "ca")
    _authority(tmp_path, "other-ca")
    cert_path, key_path = _server_certificate(tmp_path, ca, key)
    options = [f"--ssl-ca={tmp_path / 'ca.pem'}", f"--ssl-cert={cert_path}", f"--ssl-key={key_path}"]
    for (server,) in _started([MySqlServer(options=options)]):
        server.execute("SET sql_log_bin = 0", "ALTER USER canal@127.0.0.1 REQUIRE SSL")
        yield TlsMySql(server, tmp_path / "ca.pem", tmp_path / "other-ca.pem")


def _authority(folder: Path, name: str) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    usage = x509.KeyUsage(
        key_cert_sign=True,
        crl_sign=True,
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        _certificate(subject, subject, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    certificate = builder.sign(key, hashes.SHA256())
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return certificate, key


def _server_certificate(
    folder: Path, ca: x509.Certificate, ca_key: ec.EllipticCurvePrivateKey
) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "shard")])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    builder = (
        _certificate(subject, ca.subject, key)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(issuer_key, critical=False)
    )
    cert_path, key_path = folder / "server.pem", folder / "server-key.pem"
    cert_path.write_bytes(builder.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return cert_path, key_path


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
    )
