"""Cautions: warnings about settings that are valid but unsafe."""

from __future__ import annotations

from canal_group.conf.settings import InstanceSettings
from canal_group.merge.values.reach import is_loopback


def cautions(instance: InstanceSettings) -> list[str]:
    """Return a sentence for each setting that lets others read what is not for them, or pose as a server."""
    gateway, coordination = instance.gateway, instance.coordination
    sentences = []
    if gateway.ssl is None and not is_loopback(gateway.host):
        sentences.append(
            f"gateway.host is '{gateway.host}' without gateway.ssl: rows and tokens cross the network "
            "unencrypted."
        )
    canal = instance.canal
    if canal is not None and canal.ssl is None and not is_loopback(canal.host):
        sentences.append(
            f"canal.host is '{canal.host}' without canal.ssl: rows cross the network unencrypted."
        )
    if coordination.kind == "zookeeper":
        away = [host for host in coordination.hosts.split(",") if not _here(host)]
        if coordination.user is not None and coordination.ssl is None and away:
            sentences.append(
                f"coordination.user is given without coordination.ssl: its password crosses the network to "
                f"{away[0]} unencrypted."
            )
        if coordination.ssl is not None and not coordination.ssl.verify:
            sentences.append("coordination.ssl.verify is false: any server can pose as ZooKeeper.")
    archive = instance.archive
    if archive is not None and archive.in_clear and any(table.masks for table in instance.filter.tables):
        sentences.append(
            f"archive.clear_text is true: columns with masks are in {archive.folder} in clear; "
            "archive.key_file encrypts them."
        )
    for index, shard in enumerate(instance.shards):
        for key, ssl in (("ssl", shard.ssl), ("lookup.ssl", shard.lookup.ssl if shard.lookup else None)):
            if ssl is not None and not ssl.verify:
                sentences.append(
                    f"shards[{index}].{key}.verify is false: any server can pose as {shard.name}."
                )
    return sentences


def _here(host_and_port: str) -> bool:
    return is_loopback(host_and_port.rpartition(":")[0].strip("[]"))
