"""The consumers' leases: those that nothing is stored of end with their server."""

from __future__ import annotations

import asyncio

from canal_group.actors.coordination.local import LocalCoordinator
from canal_group.actors.group.leases import Leases
from canal_group.actors.process.host import OS_HOST


def test_a_lease_without_a_subscription_is_forgotten_by_the_next_server():
    coordinator = LocalCoordinator("shop")
    coordinator.campaign()
    for client_id in ("app", "look"):
        coordinator.lease_consumer(client_id, "me")
    restored = asyncio.run(Leases(coordinator, OS_HOST).restore(["app"]))
    assert list(restored) == ["app"]
    assert [lease.client_id for lease in coordinator.consumers()] == ["app"]
    coordinator.close()
