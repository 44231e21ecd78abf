"""Shard settings: where one source is, a server or files, and how to log in to it."""

from __future__ import annotations

import datetime as dt
import time
import zlib
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from canal_group.conf.login_settings import LoginSettings
from canal_group.conf.value import (
    AnchoredPath,
    Host,
    HostAndPort,
    Name,
    Port,
    Text,
    is_host_and_port,
    unfit,
)
from canal_group.merge.errors import ConfigError
from canal_group.merge.values.start import SHARD_STARTS, SHARD_STARTS_IN_FILES, is_in_files, parse_shard_start


def _text_of(value: object) -> object:
    """Return the text of a time, which YAML reads as a time unless it is quoted."""
    return value.isoformat() if isinstance(value, dt.datetime) else value


def _start(text: str) -> str:
    try:
        parse_shard_start(text, time.time_ns() // 1000)
    except ConfigError as error:
        why = f"({error.message.removesuffix('.')})"
        raise unfit(f"be {SHARD_STARTS}", found=f"is {text!r} {why}") from None
    return text


#: where to begin when no cursor exists, see `canal_group.merge.values.start`
Start: TypeAlias = Annotated[str, BeforeValidator(_text_of), AfterValidator(_start)]
#: how a stream resumes: `file` by file and offset, on the same server only; `gtid` by the transactions it has
#: read; `auto` by file and offset on the same server, by GTID on another; `time` as `auto`, and by commit
#: time on another server where GTIDs cannot be used
StartBy: TypeAlias = Literal["auto", "gtid", "file", "time"]
ServerId: TypeAlias = Annotated[int, Field(ge=1, le=2**32 - 1)]

_OF_SERVERS = (
    "host",
    "port",
    "hosts",
    "user",
    "password_env",
    "password_file",
    "password_command",
    "password_timeout_s",
    "password_lifetime_s",
    "clear_password",
    "server_id",
    "ssl",
    "start_by",
)
_OF_FILES = ("follow", "key_file", "lookup")

_DERIVED_MIN, _DERIVED_MAX = 2**31, 2**32 - 2


def derive_server_id(destination: str, shard: str) -> int:
    """Return the server id with which a shard without `server_id` registers at its source.

    It is the same on every machine: when another server takes over, the source drops the old connection. It
    is 2^31 or more, because real servers are given small ids.
    """
    return _DERIVED_MIN + zlib.crc32(f"{destination}/{shard}".encode()) % (_DERIVED_MAX - _DERIVED_MIN + 1)


class LookupSettings(LoginSettings):
    """The server where table definitions that binlog files lack are looked up."""

    host: Host
    port: Port = 3306
    user: Text


class ShardSettings(LoginSettings):
    """One source of a group. Its index in the list is its `shard_index`, the tie-break of equal times.

    It is a server (`host`, `user`) or files on a disk (`files`).
    """

    name: Name
    #: required without `files` and `hosts`
    host: Host | None = None
    port: Port = 3306
    #: a primary and its replicas, instead of `host` and `port`; empty: there are no replicas
    hosts: Annotated[tuple[HostAndPort, ...], Field(strict=False)] = ()
    #: required with `host`
    user: Text | None = None
    #: id to register with at the source; None: derived from destination and shard name
    server_id: ServerId | None = None
    #: None: as the instance says; `earliest` for files
    start: Start | None = None
    #: how a stream resumes: see `StartBy`
    start_by: StartBy = "auto"
    #: a binlog file, a folder of them, or a pattern of the shell; None: the shard is a server
    files: AnchoredPath | None = None
    #: whether to wait for more at the end of the files
    follow: bool = False
    #: keys of an archive that is encrypted, a file; None: it is not
    key_file: AnchoredPath | None = None
    #: None: table definitions that the files lack stay unknown
    lookup: LookupSettings | None = None

    @model_validator(mode="before")
    @classmethod
    def _primary(cls, value: Any) -> Any:
        """Take `host` and `port` from the first of `hosts`."""
        listed = value.get("hosts") if isinstance(value, dict) else None
        first = listed[0] if isinstance(listed, list | tuple) and listed else None
        if not isinstance(first, str) or not is_host_and_port(first):
            return value
        host, port = _server_of(first)
        if value.get("host", host) != host or value.get("port", port) != port:
            raise unfit("be given, or `hosts`", key="host", found="both are given")
        return {**value, "host": host, "port": port}

    @model_validator(mode="after")
    def _one_source(self) -> ShardSettings:
        """Check that the shard is a server or files, with the keys of that kind only."""
        keys = self.model_fields_set
        if self.files is not None:
            stray = next((key for key in _OF_SERVERS if key in keys), None)
            if stray is not None:
                raise unfit("be given only without `files`", key=stray, found="both are given")
            if self.start is not None and not is_in_files(
                parse_shard_start(self.start, time.time_ns() // 1000)
            ):
                raise unfit(
                    f"be {SHARD_STARTS_IN_FILES} with `files`", key="start", found=f"is {self.start!r}"
                )
            return self
        stray = next((key for key in _OF_FILES if key in keys), None)
        if stray is not None:
            raise unfit("be given only with `files`", key=stray, found="that is missing")
        if self.host is None:
            raise unfit("be given, or `files`", key="host", found="is missing")
        if self.user is None:
            raise unfit("be given", key="user", found="is missing")
        return self

    @property
    def servers(self) -> list[tuple[str, int]]:
        """Host and port of the primary, then of its replicas."""
        return [_server_of(each) for each in self.hosts] or [(self.host or "", self.port)]

    @property
    def address(self) -> str:
        """`host:port`, an IPv6 address in brackets; for files, their path."""
        if self.files is not None:
            return str(self.files)
        return f"[{self.host}]:{self.port}" if ":" in (self.host or "") else f"{self.host}:{self.port}"


def _server_of(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
