"""Server settings: the election of the active server, the cursor store, and where the actors run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Discriminator, Field, PrivateAttr, SecretStr, Tag, ValidationInfo, model_validator

from canal_group.conf.login_settings import SslSettings
from canal_group.conf.plugins.entry_points import Group, refuse_a_namesake
from canal_group.conf.plugins.plug_in import PlugInSettings
from canal_group.conf.secret import Owner, read_secret
from canal_group.conf.sentence import PLUG_IN_TAG
from canal_group.conf.value import (
    AnchoredPath,
    Count,
    ListenPort,
    Name,
    RayAddress,
    Seconds,
    Settings,
    Text,
    ZookeeperHosts,
    ZookeeperPath,
    unfit,
)
from canal_group.merge.well_known import PREFIX


class TreeSettings(Settings):
    """Where canal's tree is in a ZooKeeper, and who may see it. The password is in no repr or dump."""

    prefix: ZookeeperPath = PREFIX
    session_timeout_s: Seconds = 10.0
    #: owner of every node that is made (ZooKeeper's digest scheme); None: nodes are open to all
    user: Text | None = None
    #: environment variable or file that holds the user's password; one of them is required with `user`
    password_env: str | None = None
    password_file: AnchoredPath | None = None

    _password: SecretStr = PrivateAttr(default=SecretStr(""))

    @model_validator(mode="after")
    def _read_password(self, info: ValidationInfo) -> TreeSettings:
        password = read_secret(Owner.COORDINATION, "password", self.password_env, self.password_file, info)
        if self.user is None and password is not None:
            key = "password_env" if self.password_file is None else "password_file"
            raise unfit("be given only with `user`", key=key, found="that is missing")
        if self.user is not None:
            if ":" in self.user:
                raise unfit("be a name without a colon", key="user", found=f"is '{self.user}'")
            if password is None:
                raise unfit(
                    "be given with `user`, or `password_file`", key="password_env", found="is missing"
                )
            self._password = password
        return self

    @property
    def password(self) -> SecretStr:
        """The user's password; empty without a user."""
        return self._password


class ZookeeperSettings(TreeSettings):
    """Elect active servers and consumers in a ZooKeeper that runs elsewhere."""

    kind: Literal["zookeeper"] = "zookeeper"
    hosts: ZookeeperHosts
    #: None: the connection is not encrypted
    ssl: SslSettings | None = None


class EmbeddedSettings(TreeSettings):
    """Elect as `ZookeeperSettings`, in a ZooKeeper server that is started on this machine."""

    kind: Literal["embedded"] = "embedded"
    #: where the server keeps its data; None: in a temporary folder, forgotten when it stops
    folder: AnchoredPath | None = None
    port: ListenPort = 0


class LocalSettings(Settings):
    """Run one server, without election."""

    kind: Literal["local"] = "local"
    #: where epochs are kept; None: in memory, starting again at each start
    folder: AnchoredPath | None = None


class BuiltInCursorSettings(Settings):
    """Keep cursors in a store that is built in."""

    @model_validator(mode="after")
    def _has_no_namesake(self) -> BuiltInCursorSettings:
        refuse_a_namesake(Group.STORES, type(self).model_fields["kind"].default)
        return self


class MemoryCursorSettings(BuiltInCursorSettings):
    """Keep cursors in memory; they are lost at each stop."""

    kind: Literal["memory"] = "memory"


#: characters of a destination whose cursors are in files: those of a client id follow in a file's name
FILES_DESTINATION_MAX: Final = 100


class FileCursorSettings(BuiltInCursorSettings):
    """Keep cursors in a folder of this machine."""

    kind: Literal["file"] = "file"
    folder: AnchoredPath = Field(default=Path("data"), validate_default=True)
    #: how often cursors are written; None: each before its acknowledgement is answered
    flush_s: Seconds | None = None


class ZookeeperCursorSettings(BuiltInCursorSettings):
    """Keep cursors in the coordination's ZooKeeper."""

    kind: Literal["zookeeper"] = "zookeeper"
    #: how often cursors are written; None: each before its acknowledgement is answered
    flush_s: Seconds | None = None


CoordinationSettings: TypeAlias = Annotated[
    ZookeeperSettings | EmbeddedSettings | LocalSettings, Field(discriminator="kind")
]
#: kinds of stores that no plug-in adds
BUILT_IN_STORES: Final = ("memory", "file", "zookeeper")


class PlugInCursorSettings(PlugInSettings):
    """Keep cursors in a plug-in's store."""

    group = Group.STORES
    named_by = "kind"
    built_in = f"be one of {', '.join(map(repr, BUILT_IN_STORES))}, or "

    kind: Text
    #: how often cursors are written; None: each before its acknowledgement is answered
    flush_s: Seconds | None = None


def _store_tag(value: Any) -> str | None:
    """Return which of the settings of cursors a mapping is validated as."""
    kind = value.get("kind") if isinstance(value, Mapping) else getattr(value, "kind", None)
    return kind if kind is None or kind in BUILT_IN_STORES else PLUG_IN_TAG


CursorSettings: TypeAlias = Annotated[
    Annotated[MemoryCursorSettings, Tag("memory")]
    | Annotated[FileCursorSettings, Tag("file")]
    | Annotated[ZookeeperCursorSettings, Tag("zookeeper")]
    | Annotated[PlugInCursorSettings, Tag(PLUG_IN_TAG)],
    Discriminator(_store_tag),
]


class RaySettings(Settings):
    """Where the actors run."""

    #: address of a running Ray; None: a Ray is started on this machine, and stopped with the server
    address: RayAddress | None = None
    namespace: Name = "canal_group"
    #: CPUs of the Ray that is started; None: as many as the machine has
    num_cpus: Count | None = None
    #: whether the Ray that is started keeps a process ready for an actor that ends
    spare_process: bool = True

    @model_validator(mode="after")
    def _starts_or_joins(self) -> RaySettings:
        if self.address is not None:
            for key in ("num_cpus", "spare_process"):
                if key in self.model_fields_set and getattr(self, key) is not None:
                    raise unfit(
                        "be given only without `ray.address`", key=key, found=f"that is '{self.address}'"
                    )
        return self
