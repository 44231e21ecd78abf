"""Setup for every test."""

from __future__ import annotations

import gc
import os
import secrets
import sys
import tempfile
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from support import soak
from support.work_units import UnitScheduling, sort_units

# Its assertions say what differs, as those of test files do.
pytest.register_assert_rewrite("canal_group.programs.conformance")

# Thousands of tests are collected, and none of them is garbage: to look for it takes as long as all the rest.
gc.disable()
# The tests start hundreds of processes, which share the bytecode that the first one compiles.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# By default Ray gives its actors a low priority, so tests would wait for them while others compute.
os.environ.setdefault("RAY_worker_niceness", "0")

# The processes that share the tests share the data folders that database servers begin with. Before these are
# imported.
if "CANAL_GROUP_DATA_TEMPLATES" not in os.environ:
    _templates = tempfile.TemporaryDirectory(prefix="canal-group-templates-")
    os.environ["CANAL_GROUP_DATA_TEMPLATES"] = _templates.name
    for name in ("CANAL_GROUP_CANAL_PASSWORD", "CANAL_GROUP_ROOT_PASSWORD"):
        os.environ.setdefault(name, secrets.token_hex(16))

# The time of a case depends on the load of the machine, and not on the code.
untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same cases in every run, so that only a change can fail. `--hypothesis-profile=chance` tries new ones.
settings.register_profile("repeatable", untimed, derandomize=True)
settings.register_profile("chance", untimed)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of `soak`."""
    soak.add_options(parser)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Start with the longest tests where processes share the tests; a limited run has its own order."""
    for item in items:
        if item.nodeid.startswith("tests/property/"):
            item.add_marker("property")
    order = config.getoption("shuffle")
    if order is not None:
        items[:] = soak.shuffled(items, order)
    elif hasattr(config, "workerinput"):
        sort_units(items)


def pytest_collection_finish() -> None:
    """Collect garbage from now on, of what the tests make."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what a limited run has no time for, before its fixtures start."""
    soak.skip_late(item)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> UnitScheduling | None:
    """Keep files together that share an expensive fixture."""
    return UnitScheduling(config, log) if config.getoption("dist") == "loadfile" else None
