"""The benchmarks run, at a size that says nothing about speed, and print what they promise."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.sources.installed import require

from benchmarks._canal_server import CanalMissingError, canal_server, fetch
from playground.database.engine import Engine

ROOT = Path(__file__).parents[3]
#: seconds that a benchmark may take beside other tests
MEASURED_S = 600

pytestmark = pytest.mark.timeout(MEASURED_S + 60)


def measured(*arguments: str) -> dict:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments, "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=MEASURED_S,
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
        assert min(part["rows_per_s"], part["first_start_rows_per_s"]) > 0
        assert 0 < part["ratio_to_raw_dump"] < 10
    assert (result["rows"], result["small"]["rows"]) == (20_000, 1_000)


@pytest.mark.soak
def test_the_cost_of_an_archive_is_measured():
    require(Engine.MARIADB)
    result = measured("archive", "--size", "0.02")
    for name in ("bulk", "small"):
        assert min(min(result[name][key].values()) for key in ("rows_per_s", "archived_rows_per_s")) > 0
        assert 0 < result[name]["stored_of_binlog"] < 0.5


@pytest.mark.soak
def test_the_cost_of_rules_is_measured():
    result = measured("filters", "--size", "0.02")
    for name in ("bulk", "small"):
        assert list(result[name]) == ["where", "columns", "mask", "hash"]
        assert all(each > 0 for each in result[name].values())


@pytest.mark.soak
def test_parsing_is_measured_in_memory_and_from_a_server():
    require(Engine.MARIADB)
    result = measured("parse", "--size", "0.02")
    for name in ("bulk", "small"):
        assert result[name]["rows_per_s"] > 0
        assert result[name]["ratio_to_mysql_replication"] > 0
        assert result[name]["ratio_to_raw_dump"] > 0


@pytest.mark.soak
def test_a_snapshot_is_measured_beside_the_bytes_of_its_source():
    require(Engine.MARIADB)
    result = measured("snapshot", "--size", "0.02")
    assert result["rows"] == 10_000
    assert min(result["rows_per_s"], result["rows_per_cpu_s"]) > 0
    assert min(result["ratio_to_raw"], result["ratio_to_pymysql"]) > 0


@pytest.mark.soak
def test_memory_is_measured():
    require(Engine.MARIADB)
    assert measured("memory", "--size", "0.02")["peak_mib_max"] > 0


@pytest.mark.soak
def test_latency_is_measured_beside_a_plain_reader_and_disturbed():
    """The benchmark itself looks whether every row came, the bulk as well."""
    require(Engine.MARIADB)
    result = measured("latency", "--size", "0.2", "--pace", "throughput")
    for case in (result, result["bulk"], result["busy"]):
        assert case["p99_ms"] >= case["p50_ms"] > 0
        assert case["ratio_to_plain_reader"]["p50"] > 1
    assert result["bulk"]["bulk_rows_per_s"] > 0
    assert result["bulk"]["ratio_to_alone"]["p50"] > 0
    assert result["bulk_rows_per_s"] == result["busy"]["bulk_rows_per_s"] == 0


@pytest.mark.soak
def test_what_one_group_one_gateway_and_one_consumer_carry_is_measured():
    require(Engine.MARIADB)
    result = measured("capacity", "--size", "0.1")
    for shards in (4, 16, 64):
        cases = result["group"][f"{shards} shards"]
        for case in (cases["backlog"], *cases["steady"].values()):
            assert case["transactions_per_processor_s"] > 0
    for ways in result["rows"].values():
        assert all(way["us_per_row"]["gateway"] > 0 for way in ways.values())


@pytest.mark.parametrize("options", [["--pace", "throughput"], ["--profile"], ["--rate", "9"]])
def test_an_option_of_another_benchmark_is_refused(options):
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "scale", *options], cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert b"scale has no" in done.stderr


@pytest.mark.soak
def test_a_dump_server_costs_its_source_less_than_a_dump_for_each_reader():
    require(Engine.MARIADB)
    result = measured("dump_server", "--size", "0.1")
    for readers in (16, 256):
        found = result[f"{readers}_readers"]
        # On a busy machine a reader may have connected again, and the server not noticed yet, or some readers
        # may be on their way back to the dump server.
        assert found["own"]["dumps"] >= readers
        assert 1 <= found["dump_server"]["dumps"] <= readers / 4
        assert found["dump_server"]["mib"] < found["own"]["mib"] / 4


def test_checksums_are_measured_beside_those_of_zlib():
    result = measured("checksum", "--size", "0.02")
    assert list(result["gb_per_s"]) == ["100", "1000", "8000", "1000000"]
    assert all(each["ours"] > 0 and each["zlib"] > 0 for each in result["gb_per_s"].values())
    # On a busy machine the part that it is of a small measurement may be less than nothing.
    assert all(each["part_of_parsing"] < 1 for each in result["parse"].values())


@pytest.mark.soak
def test_calls_are_measured_by_every_library():
    result = measured("rpc", "--size", "0.01")
    for pace in ("busy", "paced"):
        for libraries in result[pace].values():
            assert set(libraries) == {"ours", "grpc_aio", "grpc_sync", "flight", "ray"}
            assert all(each["cpu_ms"] > 0 and each["p99_ms"] >= each["p50_ms"] for each in libraries.values())


@pytest.mark.soak
def test_every_way_of_rows_is_measured():
    """The benchmark itself looks whether rows passed in shared memory where they should, and only there."""
    require(Engine.MARIADB)
    result = measured("transport", "--size", "0.005")
    ways = {"flight_unix", "flight_tcp"}
    one_hop = {"flight_tcp_to_gateway", "flight_tcp_to_consumer"}
    assert set(result["bulk"]["memory_gains"]) == ways | one_hop
    assert set(result["small"]["memory_gains"]) == ways
    for name in ("shared_memory", *ways):
        assert result["bulk"][name]["rows_per_s"] > 0
        assert result["bulk"][name]["cpu_s_per_million_rows"] > 0


def test_an_unknown_benchmark_is_refused():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "nothing"], cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert b"invalid choice" in done.stderr


@pytest.mark.soak
def test_default_metadata_is_measured_beside_full():
    require(Engine.MARIADB)
    result = measured("metadata", "--size", "0.02")
    assert all(result[name]["ratio_to_full"] > 0 for name in ("bulk", "small"))


@pytest.mark.soak
def test_relays_to_queues_are_measured_beside_plain_producers():
    require(Engine.MARIADB)
    result = measured("queue", "--size", "0.1")
    for broker in ("kafka", "rabbitmq"):
        assert result[broker]["messages_per_s"] > 0
        assert result[broker]["plain_per_s"] > 0


@pytest.mark.soak
def test_canals_protocol_is_measured_beside_flight_and_canal():
    """The benchmark itself looks whether every row came, from each server."""
    require(Engine.MARIADB)
    result = measured("canal", "--size", "0.02")
    for part in (result, result["small"]):
        assert part["ratio_to_flight"] > 0
        assert ("canal_missing" in part) != (part.get("canal_rows_per_s", 0) > 0)
        assert ("canal_missing" in part) != (part.get("ratio_to_canal", 0) > 0)


def test_without_a_jdk_the_benchmark_says_that_canal_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(CanalMissingError, match="no JDK"), canal_server([]):
        pass


def test_without_its_jars_the_benchmark_says_that_canal_is_missing(monkeypatch, tmp_path):
    """The script finds no Maven: it names what is skipped, and leaves no folder behind."""
    script = tmp_path / "scripts" / "get-brokers.sh"
    script.parent.mkdir()
    shutil.copy(ROOT / "scripts" / script.name, script)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "dirname", "mktemp", "rm"):
        (programs / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(programs))
    jars = tmp_path / ".cache" / "canal-server"
    with pytest.raises(CanalMissingError, match=r"install maven$"):
        fetch(jars, script)
    assert not jars.exists()
