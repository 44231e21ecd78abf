"""Druid: passwords that canal's connection pool has encrypted.

Its tool encrypts a password with the *private* key of a pair, and canal has the public one. So whoever reads
both entries has the password: it is hidden, not protected. PKCS #1 v1.5, block type 1.
"""

from __future__ import annotations

import base64
import binascii

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_der_public_key

from canal_group.programs.migration.canal_files.properties import Entry


def decrypted(entry: Entry, password: str, public_key: str | None) -> str:
    """Return the password that an encrypted one stands for.

    Args:
        entry: of the password, for messages.
        password: encrypted, base64.
        public_key: of the pair, DER in base64.

    Raises:
        ConfigError: it cannot be decrypted.
    """
    expected = "be encrypted for `canal.instance.pwdPublicKey`, or `canal.instance.enableDruid` be false"
    if public_key is None:
        raise entry.wrong(expected, "there is no `canal.instance.pwdPublicKey`")
    try:
        key = load_der_public_key(base64.b64decode(public_key, validate=True))
        if not isinstance(key, RSAPublicKey):
            raise entry.wrong(expected, "its key is none of RSA")
        return key.recover_data_from_signature(
            base64.b64decode(password, validate=True), PKCS1v15(), None
        ).decode()
    except (binascii.Error, InvalidSignature, UnicodeDecodeError, UnsupportedAlgorithm, ValueError):
        raise entry.wrong(expected, "it is not") from None
