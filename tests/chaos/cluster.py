"""The Ray cluster of several raylets on loopback, and the `canal-group serve` processes that share it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from ray._common.utils import get_default_ray_temp_dir
from ray.cluster_utils import Cluster

from canal_group.actors.driver.local_ray import LOOPBACK, loopback_kept
from canal_group.conf.server_settings import ZookeeperCursorSettings
from chaos.clocks import Clock
from chaos.process import Program

#: raylets, the head's included
NODES: Final = 3


class RayCluster:
    """Raylets of one machine, each with processes of its own.

    They end when this process ends, for any reason (on Linux).

    Args:
        folder: where Ray writes; the path must be short, because socket paths are limited.
        clocks: the actors' clocks, one for each raylet.
    """

    def __init__(self, folder: Path, clocks: Sequence[Clock]) -> None:
        common = {"num_cpus": 1, "node_ip_address": LOOPBACK, "include_dashboard": False}
        # Ray records the machine's newest cluster there, and expects the folder to exist.
        Path(get_default_ray_temp_dir()).mkdir(parents=True, exist_ok=True)
        head, *others = clocks
        with loopback_kept():
            with head.of_workers():
                self._cluster = Cluster(
                    initialize_head=True, head_node_args={**common, "temp_dir": str(folder)}
                )
            for clock in others:
                with clock.of_workers():
                    self._cluster.add_node(**common)

    @property
    def address(self) -> str:
        """The address that drivers connect to."""
        return str(self._cluster.address)

    def actors(self, driver_pid: int) -> dict[str, int]:
        """Return pids of a driver's living actors by their names' ends: group, gateway, shard/s0."""
        state = self._cluster.global_state
        jobs = {job["JobID"] for job in state.job_table() if job["DriverPid"] == driver_pid}
        found = {}
        for actor in state.actor_table(None, None, "ALIVE").values():
            if actor["JobID"] in jobs and actor["Pid"]:
                name = str(actor["Name"])
                # A gateway's name has its port, the others' that of the destination.
                part = "gateway" if name.startswith("gateway/") else name.split("/", 2)[-1]
                found[part] = int(actor["Pid"])
        return found

    def close(self) -> None:
        """End all raylets and their child processes."""
        self._cluster.shutdown()


class Server:
    """One `canal-group serve` process.

    Args:
        number: of the server.
        settings: of the instance; the same for all servers except ZooKeeper's address.
        address: of the Ray cluster.
        folder: where its instance file and its output go.
    """

    def __init__(self, number: int, settings: Mapping[str, Any], address: str, folder: Path) -> None:
        self.number = number
        self._file = file = folder / f"server-{number}.yaml"
        self._settings = dict(settings)
        self._write()
        self.port = int(settings["gateway"]["port"])
        self.program = Program(
            [
                sys.executable,
                "-m",
                "canal_group.programs.command.cli",
                "serve",
                "-c",
                str(file),
                "--address",
                address,
                "--http",
                "off",
            ],
            folder / f"server-{number}.log",
        )

    def add_shard(self, shard: Mapping[str, Any]) -> None:
        """Append a shard to the instance file, which the process watches."""
        self._settings["shards"] = [*self._settings["shards"], dict(shard)]
        self._write()

    def _write(self) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(yaml.safe_dump(self._settings, sort_keys=False))
        new.replace(self._file)

    @property
    def address(self) -> str:
        """Its gateway, as ZooKeeper's `running` node names it."""
        return f"{LOOPBACK}:{self.port}"


def cursor_settings() -> dict[str, Any]:
    """Return the store settings: in ZooKeeper, each cursor written before its ack is answered."""
    settings: dict[str, Any] = {"kind": "zookeeper"}
    if "flush_s" in ZookeeperCursorSettings.model_fields:
        settings["flush_s"] = None
    return settings


def kept_logs(ray_folder: Path, target: Path) -> None:
    """Copy the actors' logs to a folder that outlives the cluster."""
    for session in ray_folder.glob("session_2*"):
        shutil.copytree(session / "logs", target, dirs_exist_ok=True, ignore_dangling_symlinks=True)
