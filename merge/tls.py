"""TLS: what verifies the other end of a connection, and shows it a certificate, made of PEM files."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

#: a certificate and its key are one thing: a wrong key is a key of another certificate
Part = Literal["ca", "cert", "key"]
#: PEM files have no passphrase: with none to try, OpenSSL would ask for one on the terminal
_NO_PASSPHRASE = ""


class TlsFileUnusable(Exception):  # noqa: N818  named for what happened
    """A file cannot be read or used; the message says why, as the rest of a sentence that begins with it.

    Args:
        part: which file it is.
        error: what happened to it.
    """

    def __init__(self, part: Part, error: OSError) -> None:
        self.part = part
        if isinstance(error, ssl.SSLError):
            super().__init__(f"cannot be used ({ssl_reason(error)})")
        else:
            super().__init__(f"cannot be read ({error.strerror})")


def client_context(
    ca: Path | str | None = None,
    cert: Path | str | None = None,
    key: Path | str | None = None,
    *,
    ca_pem: str | None = None,
    unverified: bool = False,
    strict: bool = False,
) -> ssl.SSLContext:
    """Return the context of a client, which verifies the certificate and host name of its server.

    Args:
        ca: authorities that sign the server's certificate; None: those of the system.
        cert: the client's certificate; None: it shows none.
        key: of the certificate; None: it is in the same file.
        ca_pem: the authorities themselves, instead of a file.
        unverified: whether any server may pose as the right one.
        strict: whether certificates have to follow RFC 5280 where Python asks for it, which those that
            servers make for themselves do not.

    Raises:
        TlsFileUnusable: a file cannot be used.
    """
    with _loading("ca"):
        context = ssl.create_default_context(cafile=ca, cadata=ca_pem)
    if not strict:
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if unverified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if cert is not None:
        _show(context, cert, key)
    return context


def server_context(
    cert: Path | str, key: Path | str | None = None, client_ca: Path | str | None = None
) -> ssl.SSLContext:
    """Return the context of a server.

    Args:
        cert: its certificate.
        key: of the certificate; None: it is in the same file.
        client_ca: authorities that sign the clients' certificates; None: clients need none.

    Raises:
        TlsFileUnusable: a file cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _show(context, cert, key)
    if client_ca is not None:
        with _loading("ca"):
            context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def ssl_reason(error: ssl.SSLError) -> str:
    """Return OpenSSL's reason in words."""
    return (error.reason or "no PEM").lower().replace("_", " ")


def _show(context: ssl.SSLContext, cert: Path | str, key: Path | str | None) -> None:
    """Let the other end see a certificate."""
    with _loading("cert"):
        ssl.create_default_context(cafile=cert)
    with _loading("key"):
        context.load_cert_chain(cert, key, _NO_PASSPHRASE)


@contextlib.contextmanager
def _loading(part: Part) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TlsFileUnusable(part, error) from error
