"""Settings: all settings of an instance, as one tree.

A name ends with its unit (`_ms`, `_s`, `_bytes`). `group.yaml` explains each key to operators; a test checks
that it explains every key. A rule about several keys is in the mapping that contains them all.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from canal_group.conf.archive.archive_settings import Archiving
from canal_group.conf.listeners.canal_settings import CanalSettings
from canal_group.conf.listeners.gateway_settings import GatewaySettings
from canal_group.conf.server_settings import (
    FILES_DESTINATION_MAX,
    CoordinationSettings,
    CursorSettings,
    MemoryCursorSettings,
    RaySettings,
)
from canal_group.conf.shard_settings import ShardSettings, Start, derive_server_id
from canal_group.conf.stream_settings import (
    BatchSettings,
    ConsumerSettings,
    FilterSettings,
    MergeSettings,
    ReaderSettings,
    SnapshotSettings,
    StoreSettings,
)
from canal_group.conf.value import AnchoredPath, Name, Settings, Variable, unfit

_LABEL = re.compile(r"[^\s*?:,/\[\]]+")
#: the resolver takes a host whose last label matches for an address: "10.1", "0x7f.1"
_NUMBER = re.compile(r"\d+|0[xX][0-9a-fA-F]*")


def _hosts_entry(value: str) -> str:
    labels = value.split(".")
    valid = all(label == "*" or _LABEL.fullmatch(label) for label in labels)
    if _network(value) is None and (not valid or labels[-1] == "*" or _NUMBER.fullmatch(labels[-1])):
        raise unfit(
            "be addresses such as '10.0.0.7' and '10.0.0.0/8', or a name such as '*.db.example.com', where"
            " `*` is one whole label and not the last"
        )
    return value


#: addresses, as an address or a network, or a name in which `*` is any one label
HostsEntry = Annotated[str, AfterValidator(_hosts_entry)]


class ShardAddSettings(Settings):
    """What shards that are added by command may use; shards of an instance file may use what it names."""

    #: folder of the passwords, certificates and keys that they may name; None: only those that the shards of
    #: the instance file name
    secrets: AnchoredPath | None = None
    #: environment variables that they may name, besides those of the instance file's own shards
    variables: Annotated[tuple[Variable, ...], Field(strict=False)] = ()
    #: servers to which they may log in with a password; to others they log in without one
    hosts: Annotated[tuple[HostsEntry, ...], Field(strict=False)] = ()
    #: folder below which added shards may read binlog files; None: added shards are servers only
    files: AnchoredPath | None = None

    def lists(self, host: str) -> bool:
        """Return whether `hosts` contains a host; addresses match addresses only, and names match names."""
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return any(_fits(host, entry) for entry in self.hosts)
        networks = map(_network, self.hosts)
        return any(network is not None and address in network for network in networks)


def _network(entry: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(entry)
    except ValueError:
        return None


def _fits(name: str, entry: str) -> bool:
    labels, pattern = name.lower().split("."), entry.lower().split(".")
    return len(labels) == len(pattern) and all(
        want in {"*", label} for label, want in zip(labels, pattern, strict=True)
    )


class InstanceSettings(Settings):
    """One destination: its shards, and how they become a stream.

    `coordination` and `cursor` have no default: a preset or the operator has to give them.
    """

    destination: Name
    shards: Annotated[tuple[ShardSettings, ...], Field(strict=False, min_length=1)]
    #: what shards that are added by command may use
    shard_add: ShardAddSettings = ShardAddSettings()
    #: start of shards that do not set their own
    start: Start = "latest"
    filter: FilterSettings = FilterSettings()
    reader: ReaderSettings = ReaderSettings()
    merge: MergeSettings = MergeSettings()
    store: StoreSettings = StoreSettings()
    #: None: the sources' binlogs are not archived
    archive: Archiving = None
    snapshot: SnapshotSettings = SnapshotSettings()
    batch: BatchSettings = BatchSettings()
    consumer: ConsumerSettings = ConsumerSettings()
    coordination: CoordinationSettings
    cursor: CursorSettings
    gateway: GatewaySettings = GatewaySettings()
    #: None: canal's protocol is not served
    canal: CanalSettings | None = None
    ray: RaySettings = RaySettings()

    @model_validator(mode="after")
    def _distinct_shards(self) -> InstanceSettings:
        names: dict[str, int] = {}
        addresses: dict[str, int] = {}
        for index, shard in enumerate(self.shards):
            first = names.setdefault(shard.name, index)
            if first != index:
                raise unfit(
                    "be unique", key=f"shards[{index}].name", found=f"shards[{first}] is '{shard.name}' too"
                )
            for address in (shard.address, *shard.hosts):
                first = addresses.setdefault(address.lower(), index)
                if first != index:
                    raise unfit(
                        "be a different source",
                        key=f"shards[{index}].{'host' if shard.files is None else 'files'}",
                        found=f"shards[{first}] reads {address} too",
                    )
        return self

    @model_validator(mode="after")
    def _cursor_has_a_home(self) -> InstanceSettings:
        if self.cursor.kind == "zookeeper" and self.coordination.kind == "local":
            raise unfit(
                "be 'zookeeper' only with `coordination.kind` 'zookeeper' or 'embedded'",
                key="cursor.kind",
                found="coordination.kind is 'local'",
            )
        return self

    @model_validator(mode="after")
    def _cursor_files_have_names(self) -> InstanceSettings:
        if self.cursor.kind == "file" and len(self.destination) > FILES_DESTINATION_MAX:
            raise unfit(
                f"have at most {FILES_DESTINATION_MAX} characters with `cursor.kind` 'file'",
                key="destination",
                found=f"has {len(self.destination)}",
            )
        return self

    @model_validator(mode="after")
    def _promises_what_is_durable(self) -> InstanceSettings:
        if self.reader.semi_sync == "cursor":
            if isinstance(self.cursor, MemoryCursorSettings):
                raise unfit(
                    "be 'cursor' only with cursors that are kept on a disk",
                    key="reader.semi_sync",
                    found="cursor.kind is 'memory'",
                )
            if self.cursor.flush_s is not None:
                raise unfit(
                    "be 'cursor' only with cursors that are written before an ack is answered",
                    key="reader.semi_sync",
                    found=f"cursor.flush_s is {self.cursor.flush_s:g} s",
                )
        return self

    @model_validator(mode="after")
    def _archive_hides_what_is_masked(self) -> InstanceSettings:
        archive = self.archive
        masked = next((table for table in self.filter.tables if table.masks), None)
        if archive is not None and archive.in_clear and masked is not None and not archive.clear_text:
            raise unfit(
                "be given, or `clear_text: true`, or `archive: off`: the archive has every column in clear, "
                "also those with masks",
                key="archive.key_file",
                found=f"is missing, and filter.tables masks columns of {masked.match}",
            )
        return self

    @model_validator(mode="after")
    def _store_has_its_archive(self) -> InstanceSettings:
        if self.archive is None and self.store.kind in ("mixed", "file"):
            raise unfit(
                "be 'memory', or `archive` be given: rows that the rings do not hold come from it",
                key="store.kind",
                found=f"is '{self.store.kind}'",
            )
        return self

    @property
    def store_kind(self) -> Literal["memory", "mixed", "file"]:
        """What rows come from, see `StoreSettings.kind`."""
        return self.store.kind or ("memory" if self.archive is None else "mixed")

    @model_validator(mode="after")
    def _snapshots_have_replays(self) -> InstanceSettings:
        if self.consumer.snapshot == "initial" and self.store_kind == "memory":
            raise unfit(
                "be 'never', or `archive` be given: pages of a snapshot are kept beside it",
                key="consumer.snapshot",
                found="it is 'initial'",
            )
        return self

    @model_validator(mode="after")
    def _one_dump_is_archived(self) -> InstanceSettings:
        semi_sync = self.reader.semi_sync
        if self.archive is not None and semi_sync in ("ring", "cursor"):
            raise unfit(
                "be off, or reader.semi_sync be 'archive': a source waits for replies on the reader's own "
                "connection, and an archive is written from one that readers share",
                key="archive",
                found=f"that is '{semi_sync}'",
            )
        if self.archive is None and semi_sync == "archive":
            raise unfit(
                "be 'archive' only with an archive", key="reader.semi_sync", found="`archive` is missing"
            )
        return self

    def server_id_of(self, shard: ShardSettings) -> int:
        """Return the id to register with at the shard's source."""
        return derive_server_id(self.destination, shard.name) if shard.server_id is None else shard.server_id

    def start_of(self, shard: ShardSettings) -> Start:
        """Return where to begin on the shard when no cursor exists; files are read from their beginning."""
        if shard.files is not None:
            return shard.start or "earliest"
        return self.start if shard.start is None else shard.start
