"""A listener's certificate: where it is, whether it can be used, and what Flight and sockets make of it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canal_group.merge.errors import ConfigError
from canal_group.merge.tls import TlsFileUnusable, server_context


@dataclass(frozen=True, slots=True)
class GatewayTls:
    """Files of a listener's TLS, read at its start: a restart takes renewed certificates."""

    cert: Path
    key: Path
    #: authorities of the consumers' certificates; None: consumers need none
    client_ca: Path | None
    #: name of the settings' section, for errors
    settings: str = "gateway.ssl"

    def check(self) -> None:
        """Return if the files can be read and belong together.

        Raises:
            ConfigError: they do not; its sentence names the setting.
        """
        try:
            self.server_context()
        except TlsFileUnusable as error:
            setting, file = {
                "ca": ("client_ca", self.client_ca),
                "cert": ("cert", self.cert),
                "key": ("key", self.key),
            }[error.part]
            raise ConfigError(
                f"{self.settings}.{setting}: {file} {error}.",
                hint="Expected PEM: a certificate, and the key that belongs to it, without a passphrase.",
            ) from None

    def server_options(self) -> dict[str, Any]:
        """Return the arguments that a Flight server wants."""
        options: dict[str, Any] = {"tls_certificates": [(self.cert.read_bytes(), self.key.read_bytes())]}
        if self.client_ca is not None:
            options |= {"verify_client": True, "root_certificates": self.client_ca.read_bytes()}
        return options

    def server_context(self) -> ssl.SSLContext:
        """Return the context of a server of our own."""
        return server_context(self.cert, self.key, self.client_ca)
