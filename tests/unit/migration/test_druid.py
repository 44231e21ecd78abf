"""Passwords that canal's connection pool has encrypted, with a key pair of the test."""

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from unit.migration.canal_files import Conf

from canal_group.merge.errors import ConfigError
from canal_group.programs.migration.imported import imported


@pytest.fixture(scope="module")
def pair():
    return rsa.generate_private_key(public_exponent=65_537, key_size=1024)


def encrypted(private, text):
    """Encrypt as the pool's tool does: PKCS #1 v1.5, block type 1, under the private key."""
    numbers = private.private_numbers()
    size = (private.key_size + 7) // 8
    block = b"\0\1" + b"\xff" * (size - 3 - len(text)) + b"\0" + text
    value = pow(int.from_bytes(block), numbers.d, numbers.public_numbers.n)
    return base64.b64encode(value.to_bytes(size)).decode()


def public(private):
    return base64.b64encode(
        private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    ).decode()


def password(tmp_path, **changes):
    conf = Conf(tmp_path)
    conf.instance(enableDruid="true", **changes)
    result = imported(conf.files, destination=None, secrets=conf.secrets)
    result.secrets.write()
    return (conf.secrets / "example.password").read_text()


def test_the_password_is_decrypted_into_its_file(tmp_path, pair):
    found = password(tmp_path, dbPassword=encrypted(pair, "pä55".encode()), pwdPublicKey=public(pair))
    assert found == "pä55\n"


@pytest.mark.parametrize(
    "changes",
    [
        {"dbPassword": "plain"},
        {"pwdPublicKey": "plain"},
        {"dbPassword": base64.b64encode(b"x" * 128).decode()},
    ],
)
def test_what_cannot_be_decrypted_is_refused_and_not_shown(tmp_path, pair, changes):
    entries = {"dbPassword": encrypted(pair, b"s3cret"), "pwdPublicKey": public(pair), **changes}
    with pytest.raises(ConfigError, match="should be encrypted for") as error:
        password(tmp_path, **entries)
    assert entries["dbPassword"] not in str(error.value)
