"""The benchmarks run, at a size that says nothing about speed, and print what they promise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from integration.examples.test_demo import require

from canal_group.demo.database.engine import Engine

ROOT = Path(__file__).parents[3]


def measured(*arguments: str) -> dict:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments, "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_merging_many_shards_costs_about_what_a_few_cost():
    result = measured("scale", "--size", "0.3")
    assert list(result["us_per_transaction"]) == ["4", "16", "64", "256"]
    # On an idle machine it is below 2; a busy one must not fail the tests.
    assert result["ratio_256_to_4"] < 6


@pytest.mark.soak
def test_a_whole_instance_is_measured_beside_its_rivals():
    require(Engine.MARIADB)
    result = measured("group", "--size", "0.0025")
    for part in (result, result["small"]):
        assert part["rows_per_s"] > 0
        assert 0 < part["ratio_to_raw_dump"] < 10
    assert (result["rows"], result["small"]["rows"]) == (20_000, 1_000)


@pytest.mark.soak
def test_parsing_is_measured_in_memory_and_from_a_server():
    require(Engine.MARIADB)
    result = measured("parse", "--size", "0.02")
    for name in ("bulk", "small"):
        assert result[name]["rows_per_s"] > 0
        assert result[name]["ratio_to_mysql_replication"] > 0
        assert result[name]["ratio_to_raw_dump"] > 0


@pytest.mark.soak
@pytest.mark.parametrize(("name", "key"), [("latency", "p99_ms"), ("memory", "peak_mib_max")])
def test_latency_and_memory_are_measured(name, key):
    require(Engine.MARIADB)
    size = {"latency": "0.2", "memory": "0.02"}[name]
    assert measured(name, "--size", size)[key] > 0


def test_an_unknown_benchmark_is_refused():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "nothing"], cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert b"invalid choice" in done.stderr
