"""Certificates for an output are read before it is opened: what is wrong with a file is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from support.security.certificates import Authority

from canal_group.conf.relay.connection_settings import ConnectionSettings
from canal_group.merge.errors import SinkRefused
from canal_group.programs.output.tls import tls_context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def refusal(**files: Path) -> str:
    with pytest.raises(SinkRefused) as caught:
        tls_context(ConnectionSettings(**files), "Kafka at a:1")
    assert caught.value.hint.startswith("Name ")
    return caught.value.message


def test_without_authorities_tls_is_off():
    assert tls_context(ConnectionSettings(), "Kafka at a:1") is None


def test_a_broker_is_verified_by_name(authority: Authority):
    pair = authority.pair("relay", of_consumer=True)
    context = tls_context(ConnectionSettings(ca=authority.ca, cert=pair.cert, key=pair.key), "Kafka at a:1")
    assert context is not None
    assert context.check_hostname
    assert len(context.get_ca_certs()) == 1


def test_a_malformed_file_of_authorities_is_named(tmp_path: Path):
    nothing = tmp_path / "nothing.pem"
    assert refusal(ca=nothing) == (
        f"Kafka at a:1 cannot be verified: output.ca, {nothing}, cannot be read (No such file or directory)."
    )
    nothing.write_text("no certificate\n")
    assert "cannot be used (no certificate or crl found)" in refusal(ca=nothing)


def test_a_key_of_another_certificate_is_refused(authority: Authority):
    one, other = authority.pair("one"), authority.pair("other")
    message = refusal(ca=authority.ca, cert=one.cert, key=other.key)
    assert (
        f"output.cert, {one.cert}, and output.key, {other.key}, cannot be used (key values mismatch)"
        in message
    )


def test_a_key_with_a_passphrase_is_refused_and_not_asked_for(authority: Authority):
    pair = authority.pair("relay")
    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"passphrase")
    form = serialization.PrivateFormat.PKCS8
    pair.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, locked))
    assert "cannot be used" in refusal(ca=authority.ca, cert=pair.cert, key=pair.key)
