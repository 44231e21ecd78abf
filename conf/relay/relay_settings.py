"""Relay settings: what `canal-group relay` reads, and how it publishes it; a file of their own, relay.yaml.

The keys of `output` are those of its kind; the kind's module defines and explains them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    Field,
    PrivateAttr,
    SecretStr,
    ValidationInfo,
    create_model,
    model_validator,
)

from canal_group.conf.document import read_document
from canal_group.conf.secret import Owner, read_secret
from canal_group.conf.sentence import config_error, in_a_sentence, unknown_key
from canal_group.conf.value import (
    AnchoredPath,
    Count,
    Host,
    ListenPort,
    Name,
    RegexList,
    Seconds,
    Settings,
    Text,
    ZookeeperHosts,
    ZookeeperPath,
    unfit,
)
from canal_group.merge.well_known import CLIENT_ID, HOST, PREFIX

#: partitions of a topic at most: as many numbers as messages may name
PARTITIONS_MAX = 1 << 20


class ReadSettings(Settings):
    """The way to the destination, and what of it is read. Secrets appear in no repr, dump or error."""

    #: the gateway, grpc://host:port; several, separated by commas, are tried in turn
    gateway: Text | None = None
    #: ZooKeeper, which names the active gateway
    zookeeper: ZookeeperHosts | None = None
    #: path of canal's tree in ZooKeeper
    prefix: ZookeeperPath = PREFIX
    #: the client id whose cursor is used
    client_id: Name = CLIENT_ID
    #: canal's regular expressions on schema.table; empty: everything
    filter: RegexList = ""
    #: where a client id without a cursor begins, if the output has no position either
    start: Text | None = None
    #: whether a client id without a cursor gets the rows that there are, too; None: as the instance file says
    snapshot: Literal["never", "initial"] | None = None
    #: where to go on after the client id was dropped, or its position was purged: `cursor` or `now`
    resume: Literal["cursor", "now"] | None = None
    #: environment variable or file that holds the gateway's token
    token_env: str | None = None
    token_file: AnchoredPath | None = None
    #: authorities that sign the gateway's certificate; enables TLS
    tls_ca: AnchoredPath | None = None
    #: client certificate and its key, if the gateway requires one
    tls_cert: AnchoredPath | None = None
    tls_key: AnchoredPath | None = None
    #: environment variable or file that holds ZooKeeper's user:password
    zookeeper_auth_env: str | None = None
    zookeeper_auth_file: AnchoredPath | None = None

    _token: SecretStr | None = PrivateAttr(default=None)
    _zookeeper_auth: SecretStr | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _one_way(self, info: ValidationInfo) -> ReadSettings:
        if (self.gateway is None) == (self.zookeeper is None):
            reason = "is missing" if self.gateway is None else "is given too"
            raise unfit("be given, or `gateway`, and not both", key="zookeeper", found=reason)
        self._token = read_secret(Owner.OUTPUT, "token", self.token_env, self.token_file, info)
        self._zookeeper_auth = read_secret(
            Owner.OUTPUT, "zookeeper_auth", self.zookeeper_auth_env, self.zookeeper_auth_file, info
        )
        return self

    @property
    def token(self) -> str | None:
        """The gateway's token."""
        return None if self._token is None else self._token.get_secret_value()

    @property
    def zookeeper_auth(self) -> str | None:
        """ZooKeeper's user:password."""
        return None if self._zookeeper_auth is None else self._zookeeper_auth.get_secret_value()


class RouteSettings(Settings):
    """Topics and partitions, by canal's rules; see `canal_group.programs.output.routing.router`."""

    #: topic of what no rule names; canal: canal.mq.topic
    topic: Text = "example"
    #: rules that name topics; canal: canal.mq.dynamicTopic
    dynamic_topic: str = ""
    #: partition without `partition_hash`; canal: canal.mq.partition
    partition: int = Field(default=0, ge=0, le=PARTITIONS_MAX)
    #: partitions of a topic; canal: canal.mq.partitionsNum
    partitions: int = Field(default=1, ge=1, le=PARTITIONS_MAX)
    #: rules that say what is hashed; canal: canal.mq.partitionHash
    partition_hash: str = ""
    #: topics with another number of partitions; canal: canal.mq.dynamicTopicPartitionNum
    dynamic_topic_partitions: str = ""
    #: whether the schema's name is part of the hash; canal: canal.mq.database.hash
    database_hash: bool = True


class BatchSettings(Settings):
    """Bounds of a batch, which is published and acknowledged as one."""

    #: changes; a transaction with more is a batch of its own, or several
    rows_max: Count = 20_000
    #: bytes of their rows in the sources' binlogs
    bytes_max: Count = 8 << 20
    #: seconds without a change after which an output that keeps the position is given a later one
    quiet_s: Seconds = 5.0


class RetrySettings(Settings):
    """Pauses after a failure; each is up to twice the previous one, and half of it is random."""

    #: the first pause, seconds
    first_s: Seconds = 0.5
    #: the longest, seconds
    max_s: Seconds = 30.0

    @model_validator(mode="after")
    def _ascending(self) -> RetrySettings:
        if self.max_s < self.first_s:
            raise unfit("be at least `first_s`", key="max_s", found=f"is {self.max_s:g}")
        return self


class MetricsSettings(Settings):
    """Where a relay answers `/metrics`; nobody is asked for a token there."""

    host: Host = HOST
    port: ListenPort


class RelaySettings(Settings):
    """Everything that `canal-group relay` is told."""

    #: the destination that is read
    destination: Name
    read: ReadSettings
    #: the form of messages
    format: Literal["flat", "protobuf", "debezium", "arrow"] = "flat"
    route: RouteSettings = RouteSettings()
    batch: BatchSettings = BatchSettings()
    retry: RetrySettings = RetrySettings()
    #: None: nothing listens
    metrics: MetricsSettings | None = None
    #: the output; `kind` selects its type and its other settings
    output: Any

    @property
    def name(self) -> str:
        """This publisher's name at the output."""
        return f"{self.destination}/{self.read.client_id}"


def load_relay(path: str | Path, output_of: Callable[[str], type[Settings]]) -> RelaySettings:
    """Read a file of relay settings and the secrets it points to; relative paths are relative to its folder.

    Args:
        path: of the file.
        output_of: returns the settings of a kind of output; raises LookupError with the known kinds.

    Raises:
        ConfigError: the file is missing or malformed, or a setting is invalid.
    """
    folder = Path(path).absolute().parent
    return build_relay(read_document(path), output_of, source=str(path), folder=folder)


def build_relay(
    values: dict[str, Any],
    output_of: Callable[[str], type[Settings]],
    *,
    source: str = "settings",
    folder: Path | None = None,
) -> RelaySettings:
    """Return the settings for the content of a file; arguments and errors as for `load_relay`."""
    for key in values:
        if key not in RelaySettings.model_fields:
            raise unknown_key(source, str(key), RelaySettings.model_fields)
    output = values.get("output")
    kind = output.get("kind") if isinstance(output, dict) else None
    if not isinstance(kind, str):
        raise config_error(source, "output.kind", "name a kind of output", "is missing")
    try:
        model = output_of(kind)
    except LookupError as error:
        raise config_error(source, "output.kind", f"be one of {error.args[0]}", f"is '{kind}'") from None
    whole = create_model("WholeRelaySettings", __base__=RelaySettings, output=(model, ...))
    with in_a_sentence(source, whole):
        return whole.model_validate(values, context={"folder": folder})
