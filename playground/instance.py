"""An instance that reads servers of the playground: its settings, and its page."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from canal_group.actors.driver.instance import Instance
from canal_group.actors.http.service import HttpService, HttpSettings
from canal_group.conf.load import build_instance
from canal_group.conf.settings import InstanceSettings
from canal_group.programs.demo.instance import DESTINATION, shard_name
from canal_group.programs.demo.tables import WHITE, routes
from playground.database.secret_file import secret_file
from playground.database.server_process import CANAL_PASSWORD, CANAL_USER, DatabaseServer


def settings_for(servers: Sequence[DatabaseServer], folder: Path) -> InstanceSettings:
    """Return the instance that reads the servers; a private file has the password, also ZooKeeper's."""
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
    return build_instance(
        {
            "preset": "group",
            "destination": DESTINATION,
            "shards": shards,
            # The tables are there and empty: what follows is the whole story.
            "start": "latest",
            "filter": {"white": WHITE, "routes": routes()},
            "coordination": {
                "kind": "embedded",
                "folder": str(folder / "zookeeper"),
                "user": CANAL_USER,
                "password_file": str(password),
            },
            "gateway": {"port": 0},
        },
        source="the demo's settings",
        folder=folder,
    )


@dataclass(frozen=True, slots=True)
class _Demo:
    """The one instance of a demo, as the HTTP service wants it."""

    instances: Mapping[Path, Instance]


@contextmanager
def page_of(instance: Instance) -> Iterator[HttpService]:
    """Serve the page of a demo's instance, on the usual port or a free one."""
    with tempfile.TemporaryDirectory(prefix="cg-page-") as folder:
        settings = HttpSettings(audit_log=Path(folder) / "audit.jsonl")
        with HttpService(_Demo({Path(folder) / f"{DESTINATION}.yaml": instance}), settings) as service:
            yield service
