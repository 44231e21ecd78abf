"""The command line, as processes of their own against real servers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from integration.shop import DEADLINE_S, Shop
from support.instance.program import PROGRAM, run

#: holds the password of a source, where a test sets it
PASSWORD = "CANAL_GROUP_TEST_PASSWORD"


@contextmanager
def served(
    file: Path, *options: str, variables: Mapping[str, str] | None = None
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run `serve` until the block ends; yield its gateway and process."""
    process = subprocess.Popen(
        [*PROGRAM, "serve", "-c", str(file), "--http", "127.0.0.1:0", *options],
        env={**os.environ, **(variables or {})},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if ": serving" in line:
                yield line.split()[-1], process
                return
        pytest.fail("serve ended before it served")
    finally:
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        assert process.wait(DEADLINE_S) == 0
        process.stderr.close()


def check_status(where: list[str], state: dict[str, Any]) -> None:
    """Nothing that matters is cut at 80 columns; --wide has all of it, a shard in one line."""
    clock = r"\d\d:\d\d:\d\d\.\d{3}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        narrow = run("status", *where).stdout
        patch.setenv("COLUMNS", "200")
        wide = run("status", *where, "--wide").stdout
    assert all(len(line) <= 80 for line in narrow.splitlines())
    assert "…" not in narrow + wide
    assert state["destination"] in narrow
    for shard, merged in zip(state["shards"], state["group"]["shards"], strict=True):
        name, position = shard["shard"], re.escape(shard["position"])
        ends = rf"-?\d+\.\d s +{clock} +{position}"
        assert re.search(rf"^{name} +streaming +{ends}$", narrow, re.MULTILINE), narrow
        source, acked = re.escape(shard["source"]), re.escape(merged["acked_position"])
        begins = rf"{name} +{source} +streaming +{position} +{acked}"
        assert re.search(rf"^{begins} +{clock} +-?\d+\.\d s +\d+ headers", wide, re.MULTILINE), wide


def test_check_prints_each_finding_and_the_statement_that_fixes_it(offline: Shop, instance_file: Path):
    good = run("check", "-c", str(instance_file)).stdout.splitlines()
    assert len(good) > len(offline.servers)
    assert all(line.startswith("ok") for line in good)
    shown = run("check", "-c", str(instance_file), "--settings").stdout
    assert "      merge.margin_ms = 50\n" in shown
    offline.servers[1].execute("SET GLOBAL binlog_format = 'MIXED'")
    try:
        bad = run("check", "-c", str(instance_file), status=1).stdout.splitlines()
    finally:
        offline.servers[1].execute("SET GLOBAL binlog_format = 'ROW'")
    (failure,) = (line for line in bad if not line.startswith("ok"))
    assert failure.startswith("FAIL  s1 (127.0.0.1:")
    assert "SET GLOBAL binlog_format" in failure


def test_a_wrong_instance_file_gets_a_sentence(tmp_path: Path):
    file = tmp_path / "shop.yaml"
    file.write_text("preset: memory\ndestination: shop\nshards: [{name: a, hots: x}]\n")
    done = run("check", "-c", str(file), status=1)
    assert "hots" in done.stderr
    assert "Traceback" not in done.stderr
    missing = run("serve", "-c", str(tmp_path / "none.yaml"), status=1)
    assert "none.yaml" in missing.stderr
    assert "Traceback" not in missing.stderr


def test_serve_consume_and_status_work_together_and_leave_nothing_running(offline: Shop, instance_file: Path):
    """1. serve, which alone has a source's password; 2. status; 3. consume with --ack; 4. the cursor moved;
    5. stop and start; 6. SIGTERM ends all of it.
    """
    text = instance_file.read_text()
    instance_file.write_text(text.replace("password_file: password", f"password_env: {PASSWORD}", 1))
    variables = {PASSWORD: offline.servers[0].address().password}
    with served(instance_file, variables=variables) as (gateway, process):
        where = ["-g", gateway, "-d", offline.destination]
        run("consume", *where, "--timeout", "0.2")
        offline.write(0, 3)
        printed = run("consume", *where, "--rows", "3", "--ack", "--timeout", "20").stdout.splitlines()
        rows = [json.loads(line) for line in printed]
        assert [row["after"]["id"] for row in rows] == ["0", "1", "2"]
        assert {row["op"] for row in rows} == {"INSERT"}
        assert {row["shard"] for row in rows} == {"s0"}
        state = json.loads(run("status", *where, "--json").stdout)
        (client,) = state["group"]["clients"]
        assert json.loads(client["cursor"])["sequence"] == 3
        assert client["holder"] is None
        check_status(where, state)
        offline.write(1, 1)
        assert "note 3" in run("consume", *where, "--rows", "1", "--table", "--timeout", "20").stdout
        assert "ServerUnavailable" in run("status", "-g", "grpc://127.0.0.1:1", "-d", "x", status=3).stderr
        where = [offline.destination, "-c", str(instance_file)]
        assert "stopped by" in run("stop", *where).stdout
        assert "may be served again" in run("start", *where).stdout
        family = _descendants(process.pid)
        assert family
    left = [pid for pid in family if _state(pid) != "Z"]
    assert not left, "processes outlived serve"


@pytest.fixture
def two_nodes() -> Iterator[str]:
    """A Ray cluster of two nodes that runs already; its address."""
    from ray.cluster_utils import Cluster

    from canal_group.actors.driver.local_ray import loopback_kept

    with loopback_kept():
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        try:
            cluster.add_node(num_cpus=1)
            yield cluster.address
        finally:
            cluster.shutdown()


@pytest.mark.soak
def test_serve_joins_a_ray_cluster_that_runs_and_spreads_its_shards(
    offline: Shop, instance_file: Path, two_nodes: str
):
    """1. serve --address; 2. rows flow; 3. the shards run under different raylets."""
    file = instance_file
    file.write_text(file.read_text().replace("ray: {num_cpus: 2}\n", ""))
    with served(file, "--address", two_nodes) as (gateway, _):
        where = ["-g", gateway, "-d", offline.destination]
        run("consume", *where, "--timeout", "0.2")
        offline.write_everywhere(2)
        printed = run("consume", *where, "--rows", "4", "--timeout", "20").stdout.splitlines()
        assert len(printed) == 4
        shards = json.loads(run("status", *where, "--json").stdout)["shards"]
        assert len({_parent(shard["pid"]) for shard in shards}) == 2


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _descendants(pid: int) -> list[int]:
    """Return the ids of a process's living descendants."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *_descendants(int(child))]
    return found


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
