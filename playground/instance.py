"""An instance that reads servers of the playground: its settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from canal_group.conf.load import build_instance
from canal_group.conf.settings import InstanceSettings
from canal_group.programs.demo.instance import DESTINATION, shard_name
from canal_group.programs.demo.tables import WHITE, routes
from playground.database.secret_file import secret_file
from playground.database.server_process import CANAL_PASSWORD, CANAL_USER, DatabaseServer

#: at which a demo of snapshots reads the rows of a shard: its writers write meanwhile
_SNAPSHOT_ROWS_PER_S: Final = 2_500


def settings_for(
    servers: Sequence[DatabaseServer], folder: Path, *, zookeeper: bool, snapshot: bool = False
) -> InstanceSettings:
    """Return the instance that reads the servers; a private file has the password, also ZooKeeper's.

    Args:
        servers: the shards.
        folder: of its own, for what it writes.
        zookeeper: whether an embedded ZooKeeper elects its server and keeps its cursors.
        snapshot: whether a client id may begin with a snapshot, which needs an archive. The processes that
            write it outlive their instance by seconds: they end when its folder is gone.
    """
    password = secret_file(folder / "password", CANAL_PASSWORD)
    shards = []
    for shard, server in enumerate(servers):
        address = server.address()
        shards.append(
            {
                "name": shard_name(shard),
                "host": address.host,
                "port": address.port,
                "user": address.user,
                "password_file": str(password),
            }
        )
    coordination = {
        "kind": "embedded",
        "folder": str(folder / "zookeeper"),
        "user": CANAL_USER,
        "password_file": str(password),
    }
    snapshots = {
        "archive": {"folder": str(folder / "archive")},
        "snapshot": {"rows_per_s": _SNAPSHOT_ROWS_PER_S},
    }
    return build_instance(
        {
            "preset": "group" if zookeeper else "memory",
            "destination": DESTINATION,
            "shards": shards,
            # What is in the tables by now comes with a snapshot, or is nothing.
            "start": "latest",
            "filter": {"white": WHITE, "routes": routes()},
            "gateway": {"port": 0},
        }
        | (snapshots if snapshot else {"archive": "off"})
        | ({"coordination": coordination} if zookeeper else {}),
        source="the demo's settings",
        folder=folder,
    )
