"""Access control: the tokens and certificates of a gateway's clients, and what each of them allows.

Only a token's digest is kept, and it is compared in constant time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest

from canal_group.merge.errors import AccessDenied


@dataclass(frozen=True, slots=True)
class Grant:
    """What one client may do."""

    #: its name in error messages
    name: str
    #: what it may read; empty: everything
    destinations: frozenset[str] = frozenset()
    #: under which client ids; empty: any
    client_ids: frozenset[str] = frozenset()
    #: whether a client may stop, rewind or change the destination
    operate: bool = False
    #: what the client shows: a token, a certificate, or nothing
    shows: str = "token"
    #: whether other clients may be rolled back for what it reads
    rewind: bool = False

    @property
    def may_disturb(self) -> bool:
        """Whether other clients may be rolled back for it."""
        return self.rewind or self.operate

    def check(self, destination: str, client_id: str | None = None, *, operation: str = "") -> None:
        """Check that this is allowed.

        Args:
            destination: what is read or operated.
            client_id: under which it is read; None: under none, as when its state is asked for.
            operation: what would be changed; empty: it is only read.

        Raises:
            AccessDenied: it is not.
        """
        if not self.reads(destination):
            raise self.denied_at(destination)
        if operation and not self.operate:
            raise self._denied(f"the operation {operation} on {destination}", "operate")
        if client_id is not None and self.client_ids and client_id not in self.client_ids:
            raise self._denied(f"client id {client_id} of {destination}", "client_ids")

    def reads(self, destination: str) -> bool:
        """Return whether a destination may be read."""
        return not self.destinations or destination in self.destinations

    def denied_at(self, destination: str) -> AccessDenied:
        """Return the refusal of a destination that this is not for."""
        return self._denied(f"destination {destination}", "destinations")

    def sees(self, client_id: str) -> bool:
        """Return whether a client id's cursor may be shown: its own readers and operators see it."""
        return self.operate or not self.client_ids or client_id in self.client_ids

    def _denied(self, what: str, setting: str) -> AccessDenied:
        if not self.shows:
            return AccessDenied(
                f"A token is needed for {what}.",
                hint="Commands of the user that runs the server find its token in that user's "
                "~/.cache/canal-group; others need a client with `operate` in its gateway.clients.",
                client=self.name,
            )
        return AccessDenied(
            f"The {self.shows} of {self.name} does not allow {what}.",
            hint=f"Use another one, or allow it in the server's gateway.clients (`{setting}`).",
            client=self.name,
        )


#: grant of a gateway without tokens: everything may be read, and other clients may be rolled back for that;
#: nothing else may be changed
READER = Grant("everybody", rewind=True, shows="")


def token_digest(token: str) -> bytes:
    """Return the digest of a token."""
    return sha256(token.encode()).digest()


@dataclass(frozen=True, slots=True)
class Grants:
    """The grants of a destination's clients, or of all clients of a listener.

    Args:
        tokens: digests of tokens, the certificate that has to be shown with each (empty: none has to), and
            what they allow.
        certificates: what certificates allow that are shown without a token, by the name in them.
        anybody: what everybody else may do; None: nobody else comes in.
    """

    tokens: tuple[tuple[bytes, str, Grant], ...] = field(default=(), repr=False)
    certificates: tuple[tuple[str, Grant], ...] = ()
    anybody: Grant | None = None

    @classmethod
    def of(cls, tokens: Iterable[tuple[str, Grant]]) -> Grants:
        """Return the grants of tokens, whatever certificate is shown with them."""
        return cls(tuple((token_digest(token), "", grant) for token, grant in tokens))

    @classmethod
    def merged(cls, parts: Sequence[Grants]) -> Grants:
        """Return who comes in at a listener of several destinations: whoever one of them admits.

        What a caller may do there is what the grants of its request's destination say.
        """
        tokens = {(digest, beside): grant for each in parts for digest, beside, grant in each.tokens}
        certificates = {name: grant for each in parts for name, grant in each.certificates}
        anybody = next((each.anybody for each in parts if each.anybody is not None), None)
        return cls(
            tuple((digest, beside, grant) for (digest, beside), grant in tokens.items()),
            tuple(certificates.items()),
            anybody,
        )

    def find(self, token: str, certificate: str = "") -> Grant | None:
        """Return a caller's grant; None: it is not admitted.

        Args:
            token: that it shows; empty: none.
            certificate: the name in the certificate that it has proved to be its own; empty: it has none.
        """
        digest, grant = token_digest(token), None
        # Compare every token, so that the time does not tell which token fits.
        for stored, beside, granted in self.tokens:
            if compare_digest(stored, digest) and beside in {"", certificate}:
                grant = granted
        if grant is not None:
            return grant
        if token and self.anybody is None:
            # A wrong token must not get the grant of callers without one.
            return None
        return dict(self.certificates).get(certificate, self.anybody) if certificate else self.anybody

    def knows(self, token: str) -> bool:
        """Return whether a token is one of these, whatever certificate belongs to it."""
        digest = token_digest(token)
        matches = [compare_digest(stored, digest) for stored, _, _ in self.tokens]
        return any(matches)

    def may_come_in(self, token: str) -> bool:
        """Return whether somebody with a token comes in, if the certificate, not known yet, is right."""
        return self.knows(token) or self.anybody is not None or (not token and bool(self.certificates))
