"""Shared listeners: instance files of one server that name one address have to agree on what belongs to it.

The address of a gateway is its host and port, and so is canal's. What belongs to it is its certificate, the
name under which others reach it, and the bounds of its process. Clients and their rights are a destination's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from canal_group.conf.listeners.canal_settings import CanalBounds, CanalSettings
from canal_group.conf.listeners.gateway_settings import GatewayBounds, GatewaySettings
from canal_group.conf.sentence import config_error, shown
from canal_group.conf.settings import InstanceSettings
from canal_group.merge.errors import ConfigError
from canal_group.merge.values.reach import is_every_address

_GATEWAY_KEYS: Final = ("advertise", "ssl", *GatewayBounds.model_fields)
_CANAL_KEYS: Final = ("advertise", "ssl", *CanalBounds.model_fields)


def check_together(file: Path, settings: InstanceSettings, others: Mapping[Path, InstanceSettings]) -> None:
    """Return if an instance file can be served together with others.

    Raises:
        ConfigError: it has the destination of another one, or listens where another one listens and says
            otherwise how; the message names both files.
    """
    for other_file, other in others.items():
        if other_file != file:
            for error in _differences(file, settings, other_file, other):
                raise error


def _differences(
    file: Path, one: InstanceSettings, other_file: Path, other: InstanceSettings
) -> Iterator[ConfigError]:
    """Yield what keeps two files from being served together."""
    if one.destination == other.destination:
        yield config_error(
            str(file), "destination", "be unique", f"{other_file} has '{other.destination}' too"
        )
    shares = _is_shared(one.gateway, other.gateway)
    yield from _of_address(file, "gateway", one.gateway, other_file, other.gateway, _GATEWAY_KEYS)
    if one.canal is None or other.canal is None:
        return
    yield from _of_address(file, "canal", one.canal, other_file, other.canal, _CANAL_KEYS)
    if _is_shared(one.canal, other.canal) and not shares:
        yield config_error(
            str(file),
            "canal.port",
            f"be another than that of {other_file}, or `gateway.host` and `gateway.port` the same",
            f"both are {one.canal.port}, and one process listens there",
        )


def _of_address(
    file: Path,
    key: str,
    one: GatewaySettings | CanalSettings,
    other_file: Path,
    other: GatewaySettings | CanalSettings,
    keys: tuple[str, ...],
) -> Iterator[ConfigError]:
    if one.port and one.port == other.port and one.host != other.host:
        if is_every_address(one.host) or is_every_address(other.host):
            yield config_error(
                str(file),
                f"{key}.host",
                f"be that of {other_file}, '{other.host}', or `{key}.port` another one",
                f"is '{one.host}' at the same port {one.port}",
            )
        return
    if not _is_shared(one, other):
        return
    for name in keys:
        mine, its = getattr(one, name), getattr(other, name)
        if mine != its:
            yield config_error(
                str(file),
                f"{key}.{name}",
                f"be the same as in {other_file}, which listens at {one.host}:{one.port} too",
                f"is {shown(_plain(mine))} and not {shown(_plain(its))}",
            )


def _plain(value: object) -> object:
    """Return a value as `shown` takes it: of TLS it tells the certificate's file."""
    return str(value.cert) if hasattr(value, "cert") else value


def _is_shared(one: GatewaySettings | CanalSettings, other: GatewaySettings | CanalSettings) -> bool:
    """Return whether two settings name one address; a free port is nobody else's."""
    return bool(one.port) and (one.host, one.port) == (other.host, other.port)
