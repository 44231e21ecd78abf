"""A start goes on if a process of it ends, and Ray starts it again."""

from __future__ import annotations

import os
from pathlib import Path

from canal_group.actors.driver import launch
from canal_group.actors.driver.gateway_process import GatewayProcess
from canal_group.actors.gateway.wiring import DestinationActors
from canal_group.conf.load import build_instance


def test_a_gateway_that_ends_while_it_starts_is_told_again(one_ray: None, tmp_path: Path):
    class EndsOnce:
        """A gateway whose process ends when it is asked first, and when it is told its destinations first."""

        def __init__(self, mark: Path) -> None:
            self._mark = mark

        def _end_once(self, name: str) -> None:
            if not self._mark.with_suffix(name).exists():
                self._mark.with_suffix(name).touch()
                os._exit(1)

        def version(self) -> int:
            self._end_once(".asked")
            return 0

        def serve(self, version: int, destinations: list[object]) -> dict[str, str]:
            assert (version, len(destinations)) == (1, 1)
            self._end_once(".told")
            return {}

    mark = tmp_path / "ended"
    shard = {"name": "a", "host": "db", "user": "canal"}
    settings = build_instance(
        {"preset": "memory", "destination": "shop", "shards": [shard], "gateway": {"port": 0}}
    )
    process = GatewayProcess(
        settings, lambda _: launch._actor(EndsOnce, "ends-once", dict(launch._COMMON), mark), None
    )
    process.reserve(settings)
    try:
        process.add(settings, DestinationActors("group", "shard/", ("a",)), ())
        assert {file.suffix for file in tmp_path.iterdir()} == {".asked", ".told"}
    finally:
        assert process.withdraw("shop", ())
