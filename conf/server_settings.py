"""Server settings: who is active, what survives a stop, the gateway, and where the actors run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, PrivateAttr, SecretStr, model_validator

from conf.secret import read_secret
from conf.value import (
    AnchoredPath,
    Count,
    Host,
    ListenPort,
    Name,
    RayAddress,
    Seconds,
    Settings,
    ZookeeperHosts,
    ZookeeperPath,
    is_loopback,
    unfit,
)


class ZookeeperSettings(Settings):
    """Active servers and consumers are elected in a ZooKeeper that runs elsewhere."""

    kind: Literal["zookeeper"] = "zookeeper"
    hosts: ZookeeperHosts
    prefix: ZookeeperPath = "/otter/canal"
    session_timeout_s: Seconds = 10.0


class EmbeddedSettings(Settings):
    """As `ZookeeperSettings`, in a ZooKeeper server that is started on this machine."""

    kind: Literal["embedded"] = "embedded"
    #: where the server keeps its data; None: in a temporary folder, forgotten when it stops
    folder: AnchoredPath | None = None
    port: ListenPort = 0
    prefix: ZookeeperPath = "/otter/canal"
    session_timeout_s: Seconds = 10.0


class LocalSettings(Settings):
    """One server, no election."""

    kind: Literal["local"] = "local"
    #: where epochs are kept; None: in memory, beginning again at each start
    folder: AnchoredPath | None = None


class MemoryCursorSettings(Settings):
    """Cursors are forgotten at each stop."""

    kind: Literal["memory"] = "memory"


class FileCursorSettings(Settings):
    """Cursors survive as long as a folder of this machine."""

    kind: Literal["file"] = "file"
    folder: AnchoredPath = Field(default=Path("data"), validate_default=True)
    #: how often cursors are written; None: each before its acknowledgement is answered
    flush_s: Seconds | None = None


class ZookeeperCursorSettings(Settings):
    """Cursors survive as long as the coordination's ZooKeeper."""

    kind: Literal["zookeeper"] = "zookeeper"
    #: how often cursors are written; None: each before its acknowledgement is answered
    flush_s: Seconds | None = None


CoordinationSettings: TypeAlias = Annotated[
    ZookeeperSettings | EmbeddedSettings | LocalSettings, Field(discriminator="kind")
]
CursorSettings: TypeAlias = Annotated[
    MemoryCursorSettings | FileCursorSettings | ZookeeperCursorSettings, Field(discriminator="kind")
]


class GatewaySettings(Settings):
    """The door that consumers come in by. Its token appears in no repr, dump or error."""

    host: Host = "127.0.0.1"
    port: ListenPort = 11113
    #: by which other machines reach it; None: `host`, or the machine's name where that is every address
    advertise: Host | None = None
    #: environment variable or file that holds the token every consumer must show; neither: none is asked for
    token_env: str | None = None
    token_file: AnchoredPath | None = None
    #: bytes of one message of a reply, about; a larger batch leaves in several
    reply_bytes_max: Count = 4 << 20

    _token: SecretStr | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _guarded(self) -> GatewaySettings:
        self._token = read_secret("token", self.token_env, self.token_file)
        if self._token is None and not is_loopback(self.host):
            raise unfit(
                "be a loopback address unless `token_env` or `token_file` is given",
                key="host",
                found=f"is '{self.host}', open to other machines",
            )
        return self

    @property
    def token(self) -> SecretStr | None:
        """The token that consumers share; None: none is asked for."""
        return self._token


class RaySettings(Settings):
    """Where the actors run."""

    #: None: a Ray is started on this machine and stopped with us
    address: RayAddress | None = None
    namespace: Name = "canal_group"
    #: of a Ray that is started; None: as many as the machine has
    num_cpus: Count | None = None

    @model_validator(mode="after")
    def _starts_or_joins(self) -> RaySettings:
        if self.address is not None and self.num_cpus is not None:
            raise unfit(
                "stand with a Ray that is started only", key="num_cpus", found=f"address is '{self.address}'"
            )
        return self
