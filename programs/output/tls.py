"""TLS: the certificates that a connection to a broker uses, read before it is opened."""

from __future__ import annotations

import ssl
from pathlib import Path

from conf.relay.connection_settings import ConnectionSettings
from merge.errors import SinkRefused


def tls_context(settings: ConnectionSettings, broker: str) -> ssl.SSLContext | None:
    """Return what verifies a broker and shows it our certificate; None: no TLS.

    Args:
        settings: of the output.
        broker: its name and address, for messages.

    Raises:
        SinkRefused: a file cannot be used.
    """
    if settings.ca is None:
        return None
    try:
        context = ssl.create_default_context(cafile=settings.ca)
    except OSError as error:
        raise SinkRefused(
            f"{broker} cannot be verified: output.ca, {settings.ca}, cannot be used ({_reason(error)}).",
            hint="Name a PEM file of the authorities that sign the broker's certificate.",
        ) from error
    if settings.cert is not None and settings.key is not None:
        _load(context, settings.cert, settings.key, broker)
    return context


def _load(context: ssl.SSLContext, cert: Path, key: Path, broker: str) -> None:
    try:
        # A key with a passphrase is refused: without one to try, OpenSSL would ask on the terminal.
        context.load_cert_chain(cert, key, password="")
    except OSError as error:
        raise SinkRefused(
            f"{broker} cannot be shown our certificate: output.cert, {cert}, and output.key, {key}, "
            f"cannot be used ({_reason(error)}).",
            hint="Name PEM files of a certificate and of its key, which has no passphrase.",
        ) from error


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "it is no PEM file").lower().replace("_", " ")
    return error.strerror or type(error).__name__
