"""A consumer's TLS: whom it trusts, who it is, and why it does not come about with a gateway."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from canal_group.gateway.gateway_uri import gateway_uri
from merge.errors import ConfigError

#: how long a gateway may take to say hello to who wonders why it does not answer, seconds
_PROBE_TIMEOUT_S = 2.0
_SCHEME = "grpc+tls"


@dataclass(frozen=True, slots=True)
class Tls:
    """Files of a consumer's TLS, all PEM.

    Raises:
        ConfigError: a certificate stands without its key, or the other way round.
    """

    #: authorities that sign the gateways' certificates; None: those of the system
    ca: Path | None = None
    #: our certificate and its key, where the gateways ask for one
    cert: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ConfigError("A certificate and its key go together: pass both tls_cert and tls_key.")

    @property
    def wanted(self) -> bool:
        """Whether gateways are to be reached by TLS, whatever their address says."""
        return self.ca is not None or self.cert is not None

    def uri(self, uri: str) -> str:
        """Return an address as it is to be reached: by TLS where an authority or a certificate is given.

        Raises:
            ConfigError: it is no gateway address.
        """
        return gateway_uri(uri, tls=self.wanted)

    def client_options(self) -> dict[str, Any]:
        """Return the arguments that a Flight client wants.

        Raises:
            ConfigError: a file cannot be read.
        """
        files = {"tls_root_certs": self.ca, "cert_chain": self.cert, "private_key": self.key}
        return {name: _content(file) for name, file in files.items() if file is not None}

    def refusal(self, uri: str) -> ConfigError | None:
        """Return why nobody answers at an address, if it is for TLS, or for the lack of it; else None.

        Raises:
            ConfigError: a file of ours cannot be used.
        """
        where = urlsplit(uri)
        host, port = where.hostname, where.port
        if host is None or port is None:
            return None
        place = f"The gateway at {host}:{port}"
        if where.scheme != _SCHEME:
            met = _met(host, port, _anybody())
            return _speaks_tls(place) if met is None or isinstance(met, _NotWelcome) else None
        met = _met(host, port, self._context(place))
        return None if met is None else _explained(place, met)

    def _context(self, place: str) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert is not None and self.key is not None:
                # An empty passphrase, or OpenSSL would ask for one at the terminal.
                context.load_cert_chain(self.cert, self.key, "")
        except ssl.SSLError as error:
            raise ConfigError(
                f"{place} cannot be reached by TLS: this client's files cannot be used ({_reason(error)}).",
                hint="Expected PEM: authorities, and a certificate with its key.",
            ) from None
        return context


#: of a consumer that says nothing of TLS
UNSAID = Tls()


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror}).") from None


def _anybody() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class _NotWelcome(Exception):  # noqa: N818  an answer
    """The server has shown who it is, and ends the connection: it does not like who we are."""


def _met(host: str, port: int, context: ssl.SSLContext) -> Exception | None:
    """Return what a connection by TLS met with; None: it came about."""
    # What Flight speaks inside of TLS.
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection((host, port), timeout=_PROBE_TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as encrypted,
        ):
            return None if _greets(encrypted) else _NotWelcome()
    except OSError as error:
        return error


def _greets(encrypted: ssl.SSLSocket) -> bool:
    """Return whether a server goes on after the handshake, in which it has not seen our certificate yet."""
    try:
        return bool(encrypted.recv(1))
    except TimeoutError:
        return True
    except OSError:
        return False


def _explained(place: str, met: Exception) -> ConfigError | None:
    if isinstance(met, ssl.SSLCertVerificationError):
        return ConfigError(
            f"{place} has a certificate that cannot be verified: {met.verify_message}.",
            hint="Pass tls_ca, and name the host as its certificate does.",
        )
    if isinstance(met, _NotWelcome):
        return ConfigError(
            f"{place} requires a client certificate that it trusts.",
            hint="Pass tls_cert and tls_key, signed by its gateway.ssl.client_ca.",
        )
    if isinstance(met, ssl.SSLError) and not isinstance(met, ssl.SSLEOFError):
        return ConfigError(
            f"{place} failed the TLS handshake ({_reason(met)}).",
            hint="If the gateway has no gateway.ssl, use grpc:// without tls_ca.",
        )
    return None


def _speaks_tls(place: str) -> ConfigError:
    return ConfigError(
        f"{place} accepts TLS only.",
        hint="Use grpc+tls://. Pass tls_ca if no public authority signed its certificate.",
    )


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or "no PEM").lower().replace("_", " ")
