"""`canal-group stop` and `start`: take a destination out of service on all servers, and put it back."""

from __future__ import annotations

import getpass
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from canal_group.merge.errors import ConfigError
from canal_group.merge.well_known import PREFIX
from canal_group.programs.command.options.login_options import (
    ZookeeperAuthEnv,
    ZookeeperCa,
    ZookeeperCert,
    ZookeeperKey,
    zookeeper_login,
)
from canal_group.programs.command.output import echo
from canal_group.zookeeper.login import ZooKeeperLogin
from canal_group.zookeeper.stop_mark import StopMark

if TYPE_CHECKING:
    from canal_group.actors.coordination.switch import Switch

Destination = Annotated[str, typer.Argument(help="The logical instance.")]
Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="Its instance file, which says where it is coordinated.")
]
Hosts = Annotated[
    str | None, typer.Option("--zookeeper", "-z", help="ZooKeeper's host:port,host:port, instead of a file.")
]
Prefix = Annotated[str, typer.Option(help="With --zookeeper: the path of canal's tree.")]


def stop(
    destination: Destination,
    *,
    config: Config = None,
    zookeeper: Hosts = None,
    prefix: Prefix = PREFIX,
    zookeeper_auth_env: ZookeeperAuthEnv = None,
    zookeeper_ca: ZookeeperCa = None,
    zookeeper_cert: ZookeeperCert = None,
    zookeeper_key: ZookeeperKey = None,
    reason: Annotated[str, typer.Option(help="The reason; `status` shows it.")] = "",
    wait_s: Annotated[
        float, typer.Option("--wait", min=0, help="Seconds to wait until it is out of service.")
    ] = 30.0,
) -> None:
    """Take a destination out of service: no server serves it, nor one that starts later, until `start`."""
    login = zookeeper_login(zookeeper_auth_env, zookeeper_ca, zookeeper_cert, zookeeper_key)
    by = f"{getpass.getuser()}@{socket.gethostname()}"
    mark = StopMark(by, datetime.now(UTC).isoformat(timespec="seconds"), reason)
    told = _switch(destination, config, zookeeper, prefix, login).stop(mark, wait_s)
    echo(f"{destination} is {told}")


def start(
    destination: Destination,
    config: Config = None,
    zookeeper: Hosts = None,
    prefix: Prefix = PREFIX,
    zookeeper_auth_env: ZookeeperAuthEnv = None,
    zookeeper_ca: ZookeeperCa = None,
    zookeeper_cert: ZookeeperCert = None,
    zookeeper_key: ZookeeperKey = None,
) -> None:
    """Let a stopped destination be served again."""
    login = zookeeper_login(zookeeper_auth_env, zookeeper_ca, zookeeper_cert, zookeeper_key)
    mark = _switch(destination, config, zookeeper, prefix, login).start()
    if mark is None:
        echo(f"{destination} was not stopped")
    else:
        echo(f"{destination} may be served again; it was {mark}")


def _switch(
    destination: str, config: Path | None, zookeeper: str | None, prefix: str, login: ZooKeeperLogin
) -> Switch:
    from canal_group.actors.coordination.switch import ZooKeeperSwitch
    from canal_group.actors.group import wiring
    from canal_group.conf.load import load_instance
    from canal_group.conf.secret import Owner

    if (config is None) == (zookeeper is None):
        raise ConfigError("Pass either --config or --zookeeper: where the destination is coordinated.")
    if config is None:
        assert zookeeper is not None
        return ZooKeeperSwitch(zookeeper, destination, prefix, login)
    # The mark is in ZooKeeper or a folder: setting it needs no password of a source and no client's token.
    settings = load_instance(config, secrets={Owner.COORDINATION})
    if settings.destination != destination:
        raise ConfigError(f"{config} is the instance file of {settings.destination}, not of {destination}.")
    return wiring.switch(settings)
