"""A start goes on if a process of it ends, and Ray starts it again."""

from __future__ import annotations

import os
from pathlib import Path

import ray

from canal_group.actors.driver import launch


def test_a_gateway_that_ends_while_it_starts_is_awaited_again(one_ray: None, tmp_path: Path):
    class EndsOnce:
        """A gateway whose process ends at the first question."""

        def __init__(self, mark: Path) -> None:
            self._mark = mark

        def port(self) -> int:
            if not self._mark.exists():
                self._mark.touch()
                os._exit(1)
            return 1

    mark = tmp_path / "ended"
    gateway = launch._actor(EndsOnce, "ends-once", dict(launch._COMMON), mark)
    try:
        launch._await_gateway(gateway, "shop")
        assert mark.exists()
    finally:
        ray.kill(gateway)
