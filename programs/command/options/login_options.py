"""Login options of the command line: they name where secrets are, so that a process list shows none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from canal_group.zookeeper.login import ZooKeeperLogin

TokenEnv = Annotated[
    str | None, typer.Option("--token-env", help="Environment variable that holds the gateway's token.")
]
TlsCa = Annotated[
    Path | None,
    typer.Option("--tls-ca", help="Authorities that sign the gateway's certificate; enables TLS."),
]
TlsCert = Annotated[
    Path | None, typer.Option("--tls-cert", help="Client certificate, if the gateway requires one.")
]
TlsKey = Annotated[Path | None, typer.Option("--tls-key", help="That certificate's key.")]
ZookeeperAuthEnv = Annotated[
    str | None,
    typer.Option("--zookeeper-auth-env", help="Environment variable that holds ZooKeeper's user:password."),
]
ZookeeperCa = Annotated[
    Path | None,
    typer.Option("--zookeeper-ca", help="Authorities that sign ZooKeeper's certificates; enables TLS."),
]
ZookeeperCert = Annotated[
    Path | None, typer.Option("--zookeeper-cert", help="Client certificate, if ZooKeeper requires one.")
]
ZookeeperKey = Annotated[Path | None, typer.Option("--zookeeper-key", help="That certificate's key.")]


def secret(variable: str | None, option: str) -> str | None:
    """Return the value of the environment variable that an option names; None if the option is not given."""
    if variable is None:
        return None
    value = os.environ.get(variable)
    if value is None:
        raise typer.BadParameter(f"the environment variable {variable} is not set", param_hint=option)
    return value


def zookeeper_login(auth_env: str | None, *files: Path | None) -> ZooKeeperLogin:
    """Return the ZooKeeper login of the options; `files` are the authorities, our certificate, its key."""
    given = (None if file is None else str(file) for file in files)
    return ZooKeeperLogin.parse(secret(auth_env, "--zookeeper-auth-env"), *given)
