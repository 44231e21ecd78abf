"""What holds for every test."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

#: where tests take longest: folders, longest first
LONG = ("chaos", "integration", "simulation", "property", "exhaustive")

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
    """Begin with the longest files where processes share the tests: they end together then."""
    if hasattr(config, "workerinput"):
        items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    return LONG.index(folder) if folder in LONG else len(LONG)
