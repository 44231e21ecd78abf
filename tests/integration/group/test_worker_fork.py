"""The processes that the tests' Ray forks are as those that Ray starts itself, and come sooner."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import ray
from integration.shop import DEADLINE_S


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class Looker:
    """Says what its process has."""

    def look(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "pgid": os.getpgid(0),
            "parent": Path(f"/proc/{os.getppid()}/cmdline").read_bytes(),
            "imported": "canal_group.actors.shard.shard" in sys.modules,
            "first_folder": sys.path[0],
            "child_signal": signal.getsignal(signal.SIGCHLD),
            "output": Path("/proc/self/fd/1").resolve().name,
        }


@pytest.mark.usefixtures("one_ray")
def test_an_actor_is_forked_and_comes_back_after_a_kill():
    actor = Looker.remote()
    pids = set()
    for _ in range(2):
        saw = ray.get(actor.look.remote(), timeout=DEADLINE_S)
        pids.add(saw["pid"])
        assert saw["imported"]
        assert b"worker_fork" in saw["parent"]
        assert saw["pgid"] == saw["pid"]
        assert saw["first_folder"].endswith("ray/_private/workers")
        assert saw["child_signal"] == signal.SIG_DFL
        assert saw["output"].endswith(f"-{saw['pid']}.out")
        os.kill(saw["pid"], signal.SIGKILL)
    assert len(pids) == 2
    ray.kill(actor)
