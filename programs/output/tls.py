"""TLS: the certificates that a connection to a broker uses, read before it is opened."""

from __future__ import annotations

import ssl

from canal_group.conf.relay.connection_settings import ConnectionSettings
from canal_group.merge.errors import SinkRefused
from canal_group.merge.tls import TlsFileUnusable, client_context


def tls_context(settings: ConnectionSettings, broker: str) -> ssl.SSLContext | None:
    """Return a TLS context that verifies a broker and shows it our certificate; None: no TLS.

    Args:
        settings: of the output.
        broker: its name and address, for messages.

    Raises:
        SinkRefused: a file cannot be used.
    """
    if settings.ca is None:
        return None
    try:
        return client_context(settings.ca, settings.cert, settings.key, strict=True)
    except TlsFileUnusable as error:
        if error.part == "ca":
            raise SinkRefused(
                f"{broker} cannot be verified: output.ca, {settings.ca}, {error}.",
                hint="Name a PEM file of the authorities that sign the broker's certificate.",
            ) from error
        raise SinkRefused(
            f"{broker} cannot be shown our certificate: output.cert, {settings.cert}, and "
            f"output.key, {settings.key}, {error}.",
            hint="Name PEM files of a certificate and of its key, which has no passphrase.",
        ) from error
