"""Key: what encrypts an archive's files, AES-256-GCM.

A key file has a key a line, 64 hexadecimal digits each (`openssl rand -hex 32`); others may not read it.
The first key encrypts what is written from now on, all of them decrypt: a key is rotated by a new first
line. A file says by an id which key it needs; the id does not tell the key.

What is encrypted belongs to one offset of one file: the name, creation time and offset are authenticated
with it.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path
from typing import Final

from canal_group.merge.errors import ConfigError, SourceUnfit

#: bytes that encryption adds: the nonce before, the tag after
NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16
_KEY: Final = re.compile(r"[0-9a-fA-F]{64}")
_ID_BYTES: Final = 8
_MAKE_HINT: Final = "Make one with: umask 077; openssl rand -hex 32 > archive.key"


class Key:
    """One key.

    Args:
        secret: its 32 bytes.
    """

    def __init__(self, secret: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import (  # noqa: PLC0415 - an extra of servers
            AESGCM,
        )

        self._cipher = AESGCM(secret)
        #: which key it is
        self.id = hashlib.sha256(b"canal-group archive key" + secret).digest()[:_ID_BYTES].hex()

    def seal(self, data: bytes, name: str) -> bytes:
        """Return bytes encrypted, with a nonce before them, bound to a name."""
        nonce = os.urandom(NONCE_BYTES)
        sealed: bytes = self._cipher.encrypt(nonce, data, name.encode())
        return nonce + sealed

    def open(self, data: bytes, name: str) -> bytes | None:
        """Decrypt bytes that `seal` returned.

        Return None after damage, or if another key or name sealed them.
        """
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - an extra of servers

        try:
            opened: bytes = self._cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], name.encode())
        except (InvalidTag, ValueError):
            return None
        return opened


class Keys:
    """The keys of a key file; the first one encrypts.

    Args:
        keys: at least one, unless nothing is encrypted.
    """

    def __init__(self, keys: tuple[Key, ...] = ()) -> None:
        self._keys = {key.id: key for key in keys}
        #: the key that encrypts new files; None: the archive is not encrypted
        self.first = keys[0] if keys else None

    def by_id(self, key_id: str, where: str) -> Key:
        """Return the key of an id.

        Args:
            key_id: which one.
            where: the file that needs it, for messages.

        Raises:
            SourceUnfit: it is not among them.
        """
        key = self._keys.get(key_id)
        if key is not None:
            return key
        given = f"the key file has {', '.join(self._keys)}" if self._keys else "no key file is given"
        raise SourceUnfit(
            f"{where} is encrypted with key {key_id}, but {given}.",
            hint="Give the key file that the archive was written with, or add that key to it as a line.",
            file=where,
        )


NO_KEYS: Final = Keys()


def read_keys(file: Path) -> Keys:
    """Return the keys of a file.

    Raises:
        ConfigError: it cannot be read, others may read it, or it has no keys.
    """
    try:
        mode = file.stat().st_mode
        lines = file.read_text("ascii").split()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"The key file {file} cannot be read: {why}.", hint=_MAKE_HINT) from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(f"Others may read the key file {file}.", hint=f"Run: chmod 600 {file}")
    if not lines or not all(_KEY.fullmatch(line) for line in lines):
        raise ConfigError(
            f"The key file {file} does not hold keys of 64 hexadecimal digits.", hint=_MAKE_HINT
        )
    return Keys(tuple(Key(bytes.fromhex(line)) for line in lines))
