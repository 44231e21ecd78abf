"""Division of a long test's cases between `make test` and `make soak`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_quick(quick: int, cases: Iterable[Any]) -> list[Any]:
    """Return cases for `parametrize`, all but the first `quick` of them marked `soak`; a tuple is a case."""
    return [case if place < quick else _soak(case) for place, case in enumerate(cases)]


def _soak(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.soak)
