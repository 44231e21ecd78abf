"""A listener's certificate: where it is, whether it can be used, and what Flight and sockets make of it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from merge.errors import ConfigError


@dataclass(frozen=True, slots=True)
class GatewayTls:
    """Files of a listener's TLS; they are read when it starts, so that a restart takes renewed ones."""

    cert: Path
    key: Path
    #: authorities of the consumers' certificates; None: consumers need none
    client_ca: Path | None
    #: the settings that name them, for errors
    settings: str = "gateway.ssl"

    def check(self) -> None:
        """Return if the files can be read and belong together.

        Raises:
            ConfigError: they do not; its sentence names the setting.
        """
        # An empty passphrase, or OpenSSL would ask for one at the terminal.
        self._check("cert", self.cert, lambda context: context.load_verify_locations(self.cert))
        self._check("key", self.key, lambda context: context.load_cert_chain(self.cert, self.key, ""))
        ca = self.client_ca
        if ca is not None:
            self._check("client_ca", ca, lambda context: context.load_verify_locations(ca))

    def server_options(self) -> dict[str, Any]:
        """Return the arguments that a Flight server wants."""
        options: dict[str, Any] = {"tls_certificates": [(self.cert.read_bytes(), self.key.read_bytes())]}
        if self.client_ca is not None:
            options |= {"verify_client": True, "root_certificates": self.client_ca.read_bytes()}
        return options

    def server_context(self) -> ssl.SSLContext:
        """Return the context of a server of our own."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key, "")
        if self.client_ca is not None:
            context.load_verify_locations(self.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _check(self, setting: str, file: Path, load: Any) -> None:
        try:
            load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        except ssl.SSLError as error:
            why = (error.reason or "no PEM").lower().replace("_", " ")
            raise ConfigError(
                f"{self.settings}.{setting}: {file} cannot be used ({why}).",
                hint="Expected PEM: a certificate, and the key that belongs to it, without a passphrase.",
            ) from None
        except OSError as error:
            raise ConfigError(
                f"{self.settings}.{setting}: {file} cannot be read ({error.strerror})."
            ) from None
