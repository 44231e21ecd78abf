"""An actor's process imports what it needs; pandas stays out of them, and only out of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

_LOOK = "import sys; print('pandas' in sys.modules)"


def _printed(*lines: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], check=True, capture_output=True, text=True, timeout=120
    )
    return done.stdout.split()


#: what costs an actor's process time at its start, or brings in what does
_HEAVY = (
    *("cryptography", "kazoo", "pandas", "pydantic", "pymysql", "pyspark", "sqlglot"),
    *("canal_group.binlog", "canal_group.actors.admission.self_signed", "canal_group.actors.shard.shard"),
)


@pytest.mark.parametrize(
    ("module", "needed"),
    [
        ("canal_group.actors.group.group", {"kazoo", "pydantic"}),
        ("canal_group.actors.gateway.gateway", {"pydantic"}),
        # pymysql imports cryptography itself, for a server's RSA key.
        (
            "canal_group.actors.shard.shard",
            {"canal_group.binlog", "canal_group.actors.shard.shard", "cryptography", "pydantic", "pymysql"},
        ),
    ],
)
def test_an_actor_imports_what_it_needs(module: str, needed: set[str]) -> None:
    look = f"import sys; print(*(name for name in {_HEAVY} if name in sys.modules))"
    assert set(_printed(f"import {module}", look)) == needed


@pytest.mark.parametrize("module", ["canal_group.actors.driver.launch", "canal_group.client.client"])
def test_importing_a_module_does_not_import_pandas(module: str) -> None:
    assert _printed(f"import {module}", _LOOK) == ["False"]


def test_a_consumer_needs_no_engine_for_patterns() -> None:
    filtered = "import canal_group.merge.rows.table_filter as t; t.TableFilter().matches(('a', 'b'))"
    imported = "import canal_group.client.client, sys"
    assert _printed(f"{filtered}; {imported}", "print('re2' in sys.modules)") == ["False"]


def test_pyarrow_makes_arrays_without_pandas() -> None:
    make = "import pyarrow; pyarrow.array([1, None]); pyarrow.array(['a'])"
    assert _printed(make, _LOOK) == ["True"], "pyarrow has changed: the rest is not needed"
    leave = "from canal_group.actors.process.imports import leave_pandas_out; leave_pandas_out()"
    assert _printed(leave, make, _LOOK) == ["False"]


def test_importing_pandas_explicitly_works() -> None:
    assert _printed(
        "from canal_group.actors.process.imports import leave_pandas_out; leave_pandas_out()",
        "import pandas, pyarrow",
        "print(pyarrow.array([1, 2]).to_pandas().sum())",
        "leave_pandas_out(); print(pandas.Series([3]).sum())",
    ) == ["3", "3"]
