"""What holds for every test."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

#: where tests take longest: folders, longest first
LONG = ("chaos", "integration", "simulation", "property", "exhaustive")

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
