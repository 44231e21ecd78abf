"""Login at ZooKeeper, for servers and consumers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from canal_group.merge.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ZooKeeperLogin:
    """A user of ZooKeeper's digest scheme, and the TLS settings of the connection."""

    #: owner of every node that is made; empty: nodes are open to all
    user: str = ""
    password: str = field(default="", repr=False)
    #: whether the connection is encrypted
    tls: bool = False
    #: file of the authorities that sign the servers' certificates; None: those of the system
    ca: str | None = None
    #: files of our certificate and its key, if the servers require one
    cert: str | None = None
    key: str | None = None
    #: whether to verify the server's certificate and host name
    verify: bool = True

    @classmethod
    def parse(
        cls, credential: str | None, ca: str | None = None, cert: str | None = None, key: str | None = None
    ) -> ZooKeeperLogin:
        """Return the login of "user:password" (None: no user), with TLS if authorities are given.

        Args:
            credential: the user and its password.
            ca: file of the authorities.
            cert: file of our own certificate; together with `key`, and with `ca`.
            key: file of that certificate's key.

        Raises:
            ConfigError: the credential is malformed (the message does not repeat it), or some of the files
                are missing.
        """
        if (cert is None) != (key is None) or (cert is not None and ca is None):
            raise ConfigError(
                "A client certificate for ZooKeeper needs its key, and the authorities of ZooKeeper's own.",
                hint="Pass all three files.",
            )
        user, separator, password = (credential or "").partition(":")
        if credential is not None and not (user and separator and password):
            raise ConfigError("The ZooKeeper credential is malformed.", hint="Expected user:password.")
        return cls(user, password, tls=ca is not None, ca=ca, cert=cert, key=key)

    def client_options(self) -> dict[str, Any]:
        """Return the arguments for kazoo's client."""
        options: dict[str, Any] = {}
        if self.user:
            options["auth_data"] = [("digest", f"{self.user}:{self.password}")]
        if self.tls:
            options |= {
                "use_ssl": True,
                "ca": self.ca,
                "certfile": self.cert,
                "keyfile": self.key,
                "verify_certs": self.verify,
                "check_hostname": self.verify,
            }
        return options


#: the login at a ZooKeeper that is open to all
NOBODY = ZooKeeperLogin()
