"""A shard with a primary and a standby."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from integration.shop import Shop
from support.sources.replication import replicate

from playground.database.server_process import ServerMissingError
from playground.database.servers import start_all

FAST = {"detecting": {"interval_s": 0.2, "threshold": 2}, "read_timeout_s": 2}


class Pair(Shop):
    """One shard with two servers."""

    def hosts(self, servers: list[Any]) -> dict[str, Any]:
        (shard,) = self.settings().model_dump(mode="json", exclude_defaults=True)["shards"]
        hosts = [f"127.0.0.1:{server.address().port}" for server in servers]
        return {**{key: shard[key] for key in ("name", "user", "password_file")}, "hosts": hosts}


def same(servers: list[Any]) -> bool:
    one, other = (server.execute("SELECT COUNT(*), SUM(id) FROM shop_0.orders") for server in servers)
    return one == other


@contextlib.contextmanager
def replicated(make: Any) -> Iterator[list[Any]]:
    """Yield a primary and its replica, which have executed the same."""
    servers = [make(), make(options=["--log-bin=other-bin", "--log-slave-updates=ON"])]
    try:
        start_all(servers)
        replicate(*servers)
        yield servers
    except ServerMissingError as error:
        pytest.skip(str(error))
    finally:
        for server in servers:
            server.close()
