"""Who may do what: the tokens that open a gateway, and what each of them allows.

A token is kept as its digest only, and is compared in a time that says nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest

from merge.errors import AccessDenied


@dataclass(frozen=True, slots=True)
class Grant:
    """What one client may do."""

    #: what refusals call it
    name: str
    #: what it may read; empty: everything
    destinations: frozenset[str] = frozenset()
    #: under which client ids; empty: any
    client_ids: frozenset[str] = frozenset()
    #: whether it may change what is served
    operate: bool = False

    def check(self, destination: str, client_id: str | None = None, *, operation: str = "") -> None:
        """Return if this is allowed.

        Args:
            destination: what is read or operated.
            client_id: under which it is read; None: under none, as when its state is asked for.
            operation: what would be changed; empty: it is only read.

        Raises:
            AccessDenied: it is not.
        """
        if self.destinations and destination not in self.destinations:
            raise self._denied(f"{destination}", "destinations")
        if operation and not self.operate:
            raise self._denied(f"the operation {operation} on {destination}", "operate")
        if client_id is not None and self.client_ids and client_id not in self.client_ids:
            raise self._denied(f"client id {client_id} of {destination}", "client_ids")

    def _denied(self, what: str, setting: str) -> AccessDenied:
        return AccessDenied(
            f"The token of {self.name} is not for {what}.",
            hint=f"Use another token, or let the server's gateway.clients say so (`{setting}`).",
            client=self.name,
        )


#: of a gateway that asks for no token
EVERYBODY = Grant("everybody", operate=True)


def is_header_text(token: str) -> bool:
    """Return whether a request can carry a token in its header."""
    return token.isascii() and token.isprintable() and token == token.strip()


def token_digest(token: str) -> bytes:
    """Return what is kept of a token."""
    return sha256(token.encode()).digest()


@dataclass(frozen=True, slots=True)
class Grants:
    """The grants of a gateway.

    Args:
        known: digests of tokens, and what they allow; none: no token is asked for.
    """

    known: tuple[tuple[bytes, Grant], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, tokens: Iterable[tuple[str, Grant]]) -> Grants:
        """Return the grants of tokens."""
        return cls(tuple((token_digest(token), grant) for token, grant in tokens))

    def find(self, shown: str) -> Grant | None:
        """Return what a token allows, without a token its absence; None: it is unknown."""
        if not self.known:
            return EVERYBODY
        digest, found = token_digest(shown), None
        # All are compared, whichever fits: how long it takes tells nothing.
        for kept, grant in self.known:
            if compare_digest(kept, digest):
                found = grant
        return found
