"""A consumer's TLS: its trusted authorities, its certificate, and the reason if a handshake fails."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from canal_group.gateway.gateway_uri import gateway_uri
from canal_group.merge.errors import ConfigError
from canal_group.merge.tls import TlsFileUnusable, client_context, ssl_reason

#: timeout of the handshake that finds out why a gateway does not answer, seconds
_PROBE_TIMEOUT_S = 2.0
_SCHEME = "grpc+tls"


@dataclass(frozen=True, slots=True)
class Tls:
    """The files of a consumer's TLS, all PEM.

    Raises:
        ConfigError: a certificate is given without its key, or a key without its certificate.
    """

    #: authorities that sign the gateways' certificates; None: the system's authorities
    ca: Path | None = None
    #: our certificate and its key, if the gateways require one
    cert: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ConfigError("A certificate and its key go together: pass both tls_cert and tls_key.")

    @property
    def enabled(self) -> bool:
        """Whether to reach gateways by TLS, whatever their address says."""
        return self.ca is not None or self.cert is not None

    def uri(self, uri: str) -> str:
        """Return the address to open: with TLS if an authority or a certificate is given.

        Raises:
            ConfigError: it is not a gateway address.
        """
        return gateway_uri(uri, tls=self.enabled)

    def client_options(self) -> dict[str, Any]:
        """Return the arguments for a Flight client.

        Raises:
            ConfigError: a file cannot be read.
        """
        files = {"tls_root_certs": self.ca, "cert_chain": self.cert, "private_key": self.key}
        return {name: _content(file) for name, file in files.items() if file is not None}

    def refusal(self, uri: str) -> ConfigError | None:
        """Return why an address does not answer, if TLS or its absence is the reason; else None.

        Raises:
            ConfigError: one of our files cannot be used.
        """
        where = urlsplit(uri)
        host, port = where.hostname, where.port
        if host is None or port is None:
            return None
        subject = f"The gateway at {host}:{port}"
        if where.scheme != _SCHEME:
            met = _met(host, port, client_context(unverified=True))
            return _speaks_tls(subject) if met is None or isinstance(met, _NotWelcome) else None
        met = _met(host, port, self._context(subject))
        return None if met is None else _explained(subject, met)

    def _context(self, subject: str) -> ssl.SSLContext:
        try:
            return client_context(self.ca, self.cert, self.key)
        except TlsFileUnusable as error:
            raise ConfigError(
                f"{subject} cannot be reached by TLS: this client's tls_{error.part} {error}.",
                hint="Expected PEM: authorities, and a certificate with its key.",
            ) from None


#: OpenSSL's X509_V_ERR_CERT_HAS_EXPIRED
_EXPIRED = 10

#: for a consumer without TLS options
UNSAID = Tls()


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror}).") from None


class _NotWelcome(Exception):  # noqa: N818  an answer
    """The server has authenticated itself and closed the connection: it does not accept our certificate."""


def _met(host: str, port: int, context: ssl.SSLContext) -> Exception | None:
    """Return the error of a TLS connection; None if it was established."""
    # Flight speaks HTTP/2 inside TLS.
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
    """Return whether a server continues after the handshake; it checks our certificate only then."""
    try:
        return bool(encrypted.recv(1))
    except TimeoutError:
        return True
    except OSError:
        return False


def _explained(subject: str, met: Exception) -> ConfigError | None:
    if isinstance(met, ssl.SSLCertVerificationError) and met.verify_code == _EXPIRED:
        return ConfigError(
            f"{subject} has a certificate that has expired.",
            hint="Have the server's operator renew it: `canal-group check` names its file.",
        )
    if isinstance(met, ssl.SSLCertVerificationError):
        return ConfigError(
            f"{subject} has a certificate that cannot be verified: {met.verify_message}.",
            hint="Pass tls_ca, and name the host as its certificate does.",
        )
    if isinstance(met, _NotWelcome):
        return ConfigError(
            f"{subject} requires a client certificate that it trusts.",
            hint="Pass tls_cert and tls_key, signed by its gateway.ssl.client_ca.",
        )
    if isinstance(met, ssl.SSLError) and not isinstance(met, ssl.SSLEOFError):
        return ConfigError(
            f"{subject} failed the TLS handshake ({ssl_reason(met)}).",
            hint="If the gateway has no gateway.ssl, use grpc:// without tls_ca.",
        )
    return None


def _speaks_tls(subject: str) -> ConfigError:
    return ConfigError(
        f"{subject} accepts TLS only.",
        hint="Use grpc+tls://. Pass tls_ca if no public authority signed its certificate.",
    )
