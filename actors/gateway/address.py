"""The addresses of a gateway: where it listens, and the addresses under which others reach it.

The port is chosen before the gateway's process starts and reserved until its last destination ends. So a
restarted gateway has the address that consumers know, and no other process takes the port in between. A
socket that is bound and never listens reserves it: the kernel does not assign the port to others, and lets
the gateway's own socket bind it.
"""

from __future__ import annotations

import logging
import socket
import time
from dataclasses import dataclass
from typing import Self

from canal_group.conf.listeners.canal_settings import CanalSettings
from canal_group.conf.listeners.gateway_settings import GatewaySettings
from canal_group.gateway.operator_token import OperatorToken
from canal_group.merge.errors import ConfigError
from canal_group.merge.values.reach import is_every_address

_log = logging.getLogger(__name__)

#: how often it is looked whether a port is in use, seconds
_LOOK_EVERY_S = 0.02


class ReservedAddress:
    """The reserved address of a listener; a context manager, which leaves the port to others.

    Args:
        settings: where it listens.
        whom: names it in errors, as the subject of a sentence.
        key: the settings that name it.

    Raises:
        ConfigError: it cannot listen there.
    """

    def __init__(self, settings: GatewaySettings | CanalSettings, whom: str, key: str) -> None:
        self._listen_host = settings.host
        self._socket = _bound(settings.host, settings.port, whom, key)
        #: the port
        self.port: int = self._socket.getsockname()[1]
        host = settings.advertise or settings.host
        #: "host:port" by which others reach it; one that listens on all addresses goes by the machine's name
        self.advertised = f"{_in_uri(socket.gethostname() if is_every_address(host) else host)}:{self.port}"

    def await_unused(self, within_s: float) -> None:
        """Return when no process listens there any more, or the time is over."""
        until_s = time.monotonic() + within_s
        while not self._is_unused() and time.monotonic() < until_s:
            time.sleep(_LOOK_EVERY_S)

    def _is_unused(self) -> bool:
        try:
            _bound(self._listen_host, self.port, "", "").close()
        except ConfigError:
            return False
        return True

    def close(self) -> None:
        """Release the port."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class GatewayAddress(ReservedAddress):
    """The address of one gateway.

    It has an operator token, for the destinations whose settings name no clients. Commands of this user find
    the token by the address while it is published.

    Args:
        settings: of the gateway.

    Raises:
        ConfigError: the gateway cannot listen there.
    """

    def __init__(self, settings: GatewaySettings) -> None:
        super().__init__(settings, "The gateway", "gateway")
        self._scheme = "grpc" if settings.ssl is None else "grpc+tls"
        self._token = OperatorToken(*self._socket.getsockname()[:2])

    @property
    def uri(self) -> str:
        """The same for consumers: "grpc://host:port", "grpc+tls://" with TLS."""
        return f"{self._scheme}://{self.advertised}"

    @property
    def location(self) -> str:
        """Where the gateway listens, for Flight."""
        return f"{self._scheme}://{_in_uri(self._listen_host)}:{self.port}"

    @property
    def operator_token(self) -> str:
        """The operator token, which is not in the settings."""
        return self._token.token

    def publish_operator_token(self) -> None:
        """Publish the token to this user's commands; call it once the gateway listens."""
        try:
            self._token.publish()
        except ConfigError as error:
            _log.warning("the gateway at %s has no operator token: %s", self.location, error)

    def withdraw_operator_token(self) -> None:
        """Publish it no more."""
        self._token.close()

    def close(self) -> None:
        """Release the port."""
        self.withdraw_operator_token()
        super().close()


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of an instance, which it may share with others."""

    gateway: GatewayAddress
    #: address of canal's protocol; None: the instance does not serve canal's clients
    canal: ReservedAddress | None


def _in_uri(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _bound(host: str, port: int, whom: str, key: str) -> socket.socket:
    reservation = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    # As Flight's own listener does: a port in TIME_WAIT is free, and so is one that is kept.
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        reservation.bind((host, port))
    except OSError as error:
        reservation.close()
        raise ConfigError(
            f"{whom} cannot listen on {host}:{port}: {error.strerror}.",
            hint=f"Stop what listens there, or set {key}.port (0: a free one).",
        ) from error
    return reservation
