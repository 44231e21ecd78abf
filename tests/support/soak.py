"""Long tests: which cases `make test` runs, and which ones a `make soak` of limited time begins."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterable
from typing import Any

import pytest

#: set where property tests try all their cases
ALL_CASES = "CANAL_GROUP_ALL_CASES"
#: of a property test in `make test`
CASES_MIN = 30
#: by how much deadlines are longer in `make soak`
SOAK_PATIENCE = 4
_STARTED_S = time.monotonic()


def first_quick(quick: int, cases: Iterable[Any]) -> list[Any]:
    """Return cases for `parametrize`, all but the first `quick` of them marked `soak`; a tuple is a case."""
    return [case if index < quick else _soak(case) for index, case in enumerate(cases)]


def cases(count: int) -> int:
    """Return how many cases a property test tries: all of them in `make soak` only."""
    return count if os.environ.get(ALL_CASES) else max(count // 3, CASES_MIN)


def patient(deadline_s: float) -> float:
    """Return a deadline that is longer in `make soak`, where processes wait for processors."""
    return deadline_s * SOAK_PATIENCE if os.environ.get(ALL_CASES) else deadline_s


def _soak(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.soak)


def add_options(parser: pytest.Parser) -> None:
    """Add the options that limit a run in time."""
    group = parser.getgroup("soak")
    group.addoption(
        "--limit-minutes",
        type=float,
        metavar="N",
        help="begin no test after N minutes; the rest is skipped by name",
    )
    group.addoption(
        "--shuffle", metavar="TEXT", help="order of the files: another text, other files within the limit"
    )


def shuffled(items: list[pytest.Item], text: str) -> list[pytest.Item]:
    """Return tests with their files in an order that a text determines; within a file nothing moves."""
    return sorted(items, key=lambda item: zlib.crc32(f"{text}/{item.path.name}".encode()))


def skip_late(item: pytest.Item) -> None:
    """Skip a test whose run is out of time."""
    limit = item.config.getoption("limit_minutes")
    if limit is not None and time.monotonic() - _STARTED_S > limit * 60:
        pytest.skip(f"the run was limited to {limit:g} minutes")
