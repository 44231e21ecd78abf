"""What a group logs of full rings."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from canal_group.actors.group.full_ring_warnings import FullRingWarnings


def full(*clients: str) -> dict[str, Any]:
    why = f"s1 waits: ring full, kept for client {clients[0]}"
    return {"shard": "s1", "clients": list(clients), "why": why}


def test_a_full_rings_client_is_logged_once_and_that_it_has_room(caplog: pytest.LogCaptureFixture):
    warnings = FullRingWarnings("shop")
    with caplog.at_level(logging.INFO):
        for rings in ([full("1001")], [full("1001")], [full("1002", "1001")], [], []):
            warnings.state(rings)
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("WARNING", "s1 waits: ring full, kept for client 1001"),
        ("WARNING", "s1 waits: ring full, kept for client 1002"),
        ("INFO", "the ring has room again"),
    ]
    assert {(each.destination, each.shard) for each in caplog.records} == {("shop", "s1")}
