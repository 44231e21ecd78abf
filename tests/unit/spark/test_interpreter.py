"""Which interpreter Spark's workers take, and what is said of one that does not fit."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from canal_group.merge.errors import ConfigError
from canal_group.spark import CanalGroupDataSource

OURS = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A Spark as registering meets it: the context, which has taken `python3`."""
    made = SimpleNamespace(master="local[*]", pythonExec="python3")
    monkeypatch.setattr(SparkContext, "_active_spark_context", made)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    return made


def test_a_local_spark_takes_the_drivers_interpreter(context: SimpleNamespace):
    assert CanalGroupDataSource.name() == "canal_group"
    assert context.pythonExec == sys.executable


def test_a_cluster_keeps_its_own(context: SimpleNamespace):
    context.master = "spark://head:7077"
    CanalGroupDataSource.name()
    assert context.pythonExec == "python3"


def test_a_worker_has_no_spark_to_choose_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    assert CanalGroupDataSource.name() == "canal_group"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo '[\"3.1\", []]'", f"Python 3.1, the driver {OURS}"),
        (f'exec {sys.executable} -S "$@"', "which lacks .*numpy, pyarrow"),
        ("exit 7", "cannot run"),
        ("echo hello", "cannot run"),
        (None, "cannot run"),
        (f'exec {sys.executable} "$@"', None),
    ],
    ids=["version", "packages", "fails", "no python", "missing", "fits"],
)
def test_a_chosen_interpreter_is_checked_before_a_worker_starts(
    context: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    script: str | None,
    said: str | None,
):
    program = tmp_path / "python"
    if script is not None:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(program))
    context.pythonExec = str(program)
    if said is None:
        CanalGroupDataSource.name()
    else:
        with pytest.raises(ConfigError, match=said) as refused:
            CanalGroupDataSource.name()
        assert refused.value.hint == f"Unset PYSPARK_PYTHON, or set it to {sys.executable}."
    assert context.pythonExec == str(program), "the choice is the operator's"
