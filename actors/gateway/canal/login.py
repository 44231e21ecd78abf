"""Login of canal's clients: a password, scrambled with a seed as by MySQL 4.1."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from hashlib import sha1
from hmac import compare_digest
from typing import Final, Self

from canal_group.canal_protocol.packet_pb2 import ClientAuth
from canal_group.merge.errors import AccessDenied

SEED_BYTES: Final = 8
_DIGEST_BYTES: Final = 20
#: in front of a digest that stands for its password
_DIGEST_MARK: Final = "*"
#: characters of a name that an error repeats
_NAME_CHARS: Final = 64


def new_seed() -> bytes:
    """Return a seed that nobody can foresee, without zeros."""
    return bytes(byte % 255 + 1 for byte in os.urandom(SEED_BYTES))


def scrambled(password: bytes, seed: bytes) -> bytes:
    """Return the digest of a password that a client sends, before it is written in hexadecimal digits."""
    once = _sha1(password)
    return _xor(once, _sha1(seed + _sha1(once)))


@dataclass(frozen=True, slots=True)
class ShownLogin:
    """What a client has answered to a handshake."""

    user: str
    #: the password, scrambled with the seed; None: it was not scrambled
    answer: bytes | None = field(repr=False)
    #: of the handshake
    seed: bytes = field(repr=False)

    @classmethod
    def of(cls, packet: ClientAuth, seed: bytes) -> Self:
        """Return the login in a client's packet."""
        return cls(packet.username, _unhex(packet.password), seed)

    @property
    def refusal(self) -> AccessDenied:
        """The error of a login that no destination of the listener knows."""
        name = self.user[:_NAME_CHARS]
        if self.answer is None:
            return AccessDenied(
                f"The login of {name!r} is refused: its password is not scrambled with the seed of"
                " the handshake.",
                hint="Use a client that scrambles it, as canal's Java client does since 1.1.3.",
            )
        return AccessDenied(
            f"The login of {name!r} is refused: user or password is wrong.",
            hint="Compare them with canal.user and its password in the server's instance file.",
        )

    def denied_at(self, destination: str) -> AccessDenied:
        """Return the error of a destination that has another login."""
        return AccessDenied(
            f"The login of {self.user[:_NAME_CHARS]!r} is not for destination {destination}.",
            hint="Log in with canal.user and its password in that destination's instance file.",
        )


@dataclass(frozen=True, slots=True)
class CanalLogin:
    """User and password that every client of canal's protocol must use."""

    user: str
    #: the password, hashed twice: who knows it can check a login, and not log in
    digest: bytes = field(repr=False)

    @classmethod
    def of(cls, user: str, secret: str) -> Self:
        """Return the login of a user, by a password, or by "*" and its digest in hexadecimal digits."""
        if secret.startswith(_DIGEST_MARK):
            return cls(user, bytes.fromhex(secret.removeprefix(_DIGEST_MARK)))
        return cls(user, _sha1(_sha1(secret.encode())))

    def admits(self, shown: ShownLogin) -> bool:
        """Return whether user and password are right."""
        if shown.answer is None:
            return False
        once = _xor(shown.answer, _sha1(shown.seed + self.digest))
        matches = compare_digest(_sha1(once), self.digest)
        return compare_digest(shown.user.encode(), self.user.encode()) and matches


def _unhex(text: bytes) -> bytes | None:
    """Return the bytes of a scrambled password, or None if the text is not hexadecimal."""
    try:
        answer = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        return None
    return answer if len(answer) == _DIGEST_BYTES else None


def _sha1(data: bytes) -> bytes:
    return sha1(data, usedforsecurity=False).digest()


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
