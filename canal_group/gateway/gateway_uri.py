"""Addresses of gateways: parse and validate them, and write them for Flight."""

from __future__ import annotations

import re

from canal_group.merge.errors import ConfigError

#: host name, IPv4 address or IPv6 address in brackets, and the port; no path, no user
_ENDPOINT = re.compile(
    r"(?:[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?\]):([0-9]{1,5})"
)
#: accepted schemes, in lower case -> whether they use TLS
_SCHEMES = {"grpc": False, "grpc+tcp": False, "grpc+tls": True}


def is_endpoint(text: str) -> bool:
    """Return whether a text is exactly "host:port"."""
    match = _ENDPOINT.fullmatch(text)
    return match is not None and 0 < int(match[1]) < 1 << 16


def gateway_uri(uri: str, *, tls: bool = False) -> str:
    """Return an address as Flight expects it: "grpc://host:port" or "grpc+tls://host:port".

    Args:
        uri: the address, its scheme in any case.
        tls: whether to use TLS, whatever the scheme says.

    Raises:
        ConfigError: it is not a gateway address.
    """
    scheme, separator, address = uri.partition("://")
    address = address.removesuffix("/")
    encrypted = _SCHEMES.get(scheme.lower())
    if not separator or encrypted is None or not is_endpoint(address):
        raise _no_address(uri)
    return f"{'grpc+tls' if encrypted or tls else 'grpc'}://{address}"


def split_uris(text: str) -> list[str]:
    """Return the addresses of "grpc://a:1,b:2": one scheme for all, or each with its own.

    Raises:
        ConfigError: there is no address, or one is invalid.
    """
    scheme, separator, _ = text.partition("://")
    if not separator:
        raise _no_address(text)
    scheme = scheme.strip()
    parts = [part.strip() for part in text.split(",")]
    uris = [part if "://" in part else f"{scheme}://{part}" for part in parts if part]
    return [gateway_uri(uri) for uri in uris]


def _no_address(uri: str) -> ConfigError:
    return ConfigError(
        f"{uri!r} is not a gateway address.", hint="Expected grpc://host:port or grpc+tls://host:port."
    )
