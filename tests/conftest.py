"""What holds for every test."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from work_units import UnitScheduling, turn_of

# The tests start hundreds of processes: what the first one has compiled, the others need not compile again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Ray lets its actors run behind everything else, and tests wait for them while others compute.
os.environ.setdefault("RAY_worker_niceness", "0")

# How long a case takes says how busy the machine is, and nothing of the code.
untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same cases in every run: what fails is the change. `--hypothesis-profile=chance` looks for new ones.
settings.register_profile("repeatable", untimed, derandomize=True)
settings.register_profile("chance", untimed)
settings.load_profile("repeatable")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes longest where processes share the tests."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: turn_of(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> UnitScheduling | None:
    """Keep together what is made once for several files."""
    return UnitScheduling(config, log) if config.getoption("dist") == "loadfile" else None
