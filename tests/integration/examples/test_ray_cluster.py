"""The documented commands on three nodes of Ray, whose head is on disk: a server as a job, another job."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as pads
import pytest
from integration.shop import CLIENT, DEADLINE_S, Shop
from integration.spark_sink import ROOT
from integration.zookeeper_fixtures import eventually
from support.soak import patient

import canal_group
from playground.database.child_process import free_port

RAY = str(Path(sys.executable).with_name("ray"))


class Cluster:
    """A Ray of three nodes on this machine: a head that runs nothing, the server's, and another."""

    def __init__(self, cluster: Any, jobs: str, environment: dict[str, str]) -> None:
        self.cluster = cluster
        self._jobs = jobs
        self._environment = environment

    def job(self, *words: str) -> str:
        """Run `ray job WORDS` to its end, once a node's agent is there for it; return its output."""
        said: list[str] = []

        def done() -> bool:
            ran = self._run(*words)
            said[:] = [ran.stdout + ran.stderr]
            assert ran.returncode == 0 or "No available agent" in said[0], said[0]
            return ran.returncode == 0

        eventually(done, "an agent that takes jobs", within_s=DEADLINE_S)
        return said[0]

    def await_jobs(self) -> None:
        """Wait until jobs are taken: the server for them starts after the nodes."""
        eventually(lambda: self._run("list").returncode == 0, "the server for jobs", within_s=DEADLINE_S)

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [RAY, "job", words[0], "--address", self._jobs, *words[1:]]
        return subprocess.run(
            command,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=2 * DEADLINE_S,
            check=False,
        )


@pytest.fixture
def three_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    from ray.cluster_utils import Cluster as RayCluster

    from canal_group.actors.driver.local_ray import loopback_kept

    storage = tmp_path / "gcs"
    storage.mkdir()
    variables = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        # Ray replaces 127.0.0.1 by an address that others reach, unless it knows no clusters.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_gcs_storage": "rocksdb",
        "RAY_gcs_storage_path": str(storage),
        "RAY_JOB_STOP_WAIT_TIME_S": "60",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    port = free_port()
    head = {
        "num_cpus": 0,
        "include_dashboard": True,
        "dashboard_host": "127.0.0.1",
        "dashboard_port": port,
        # Its agent takes jobs. Another Ray's may have the default port, and then this one stays silent.
        "dashboard_agent_listen_port": free_port(),
    }
    with loopback_kept():
        cluster = RayCluster(initialize_head=True, head_node_args=head)
        try:
            cluster.add_node(num_cpus=1, resources={"server": 1})
            # Ray Data takes whole CPUs, of which a shard leaves none on a node with one.
            cluster.add_node(num_cpus=2)
            nodes = Cluster(cluster, f"http://127.0.0.1:{port}", dict(os.environ))
            nodes.await_jobs()
            yield nodes
        finally:
            cluster.shutdown()


def documented(file: str, replaced: dict[str, str]) -> list[str]:
    """Return the words after `ray job` of a documented command, with some of them replaced."""
    text = (ROOT / "docs" / file).read_text()
    (block,) = re.findall(r"<!-- a test runs this: ray job submit -->\n```sh\n(.*?)```", text, re.DOTALL)
    words = [replaced.get(word, word) for word in shlex.split(block.replace("\\\n", " "))]
    assert words[:2] == ["ray", "job"]
    address = words.index("--address")
    return words[2:address] + words[address + 2 :]


@pytest.mark.soak
@pytest.mark.timeout(patient(600))
def test_the_documented_jobs_serve_read_a_range_and_stop(
    offline: Shop,
    instance_file: Path,
    three_nodes: Cluster,
    tmp_path: Path,
):
    """1. Group and gateway are on one node, the shards on two, and rows flow on. 2. A job reads what is there
    and ends. 3. `ray job stop` ends the server as SIGTERM does.
    """
    instance_file.write_text(instance_file.read_text().replace("ray: {num_cpus: 2}\n", ""))
    submit, *words = documented("deploying.md", {"/etc/canal-group": str(instance_file)})
    three_nodes.job(submit, "--submission-id", "server", *words)
    where: dict[str, Any] = {"zookeeper": offline.zookeeper_hosts, "destination": offline.destination}
    with canal_group.connect(**where, client_id=CLIENT, wait_s=4 * DEADLINE_S) as consumer:

        def read(rows: int) -> None:
            while rows > 0:
                batch = consumer.get_without_ack(timeout=DEADLINE_S)
                assert batch is not None
                rows -= batch.rows
                consumer.ack(batch.batch_id)

        def state() -> dict[str, Any]:
            return dict(consumer.status())

        offline.write_everywhere(2)
        read(4)
        before = state()
        assert len({_parent(before[part]["pid"]) for part in ("group", "gateway")}) == 1, (
            "they are neighbours"
        )
        assert len({_parent(shard["pid"]) for shard in before["shards"]}) == 2, "the shards are spread"

        with canal_group.connect(**where, client_id="lake", wait_s=DEADLINE_S) as lake:
            (server,) = lake.status()["group"]["servers"]
        offline.write_everywhere(3)
        read(6)
        folder = tmp_path / "orders"
        asked = [
            "--gateway",
            f"grpc://{server['server']}",
            "--destination",
            offline.destination,
            "--table",
            "shop_0.orders",
        ]
        job = ["python", "ray_parquet.py", *asked, "--folder", str(folder), "--idle", "5"]
        said = three_nodes.job("submit", "--working-dir", str(ROOT / "examples"), "--", *job)
        assert pads.dataset(sorted(folder.rglob("*.parquet"))).count_rows() == 3, said

        assert "stopped" in three_nodes.job("stop", "server")
        with pytest.raises(canal_group.ServerUnavailable):
            canal_group.connect(**where, client_id="lake", wait_s=0)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
