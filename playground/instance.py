"""The settings of an instance that reads servers of the playground."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from conf.load import build_instance
from conf.settings import InstanceSettings
from playground.database.server_process import CANAL_PASSWORD, DatabaseServer
from programs.demo.instance import DESTINATION, shard_name
from programs.demo.tables import WHITE, routes


def settings_for(servers: Sequence[DatabaseServer], folder: Path) -> InstanceSettings:
    """Return the instance that reads the servers; the password goes into a private file of the folder."""
    password = folder / "password"
    password.touch(mode=0o600)
    password.write_text(CANAL_PASSWORD)
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
    return build_instance(
        {
            "preset": "group",
            "destination": DESTINATION,
            "shards": shards,
            # The tables are there and empty: what follows is the whole story.
            "start": "latest",
            "filter": {"white": WHITE, "routes": routes()},
            "coordination": {"kind": "embedded", "folder": str(folder / "zookeeper")},
            "gateway": {"port": 0},
        },
        source="the demo's settings",
        folder=folder,
    )
