"""One Ray for all processes that share the tests: to start one takes longer than most tests.

A process of its own starts it, and ends it when the last process that uses it has ended, however that ended:
each of them holds a shared lock on a file meanwhile.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TESTS = str(Path(__file__).parents[1])
_HOLDER = """
import fcntl, pathlib, sys
import ray
from canal_group.actors.driver import local_ray
sys.path.append(sys.argv[3])
from integration import worker_fork

users, address = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
with worker_fork.used():
    local_ray.start("canal_group", num_cpus=4)
    node = ray._private.worker._global_node
    # It goes through the logs of every process there ever was, for nobody: they do not come to the driver.
    node.kill_log_monitor()
    print(node.gcs_address, flush=True)
    with users.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        address.unlink()
        ray.shutdown()
"""


@contextmanager
def shared_ray(folder: Path) -> Iterator[str]:
    """Yield the address of a Ray that all share who name the same folder."""
    users, address = folder / "ray.users", folder / "ray.address"
    with users.open("a") as use:
        fcntl.flock(use, fcntl.LOCK_SH)
        with (folder / "ray.start").open("a") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            if not address.exists():
                address.write_text(_started(users, address))
        yield address.read_text()


def _started(users: Path, address: Path) -> str:
    """Start Ray in a process that outlives this one; return its address."""
    log = address.with_suffix(".log")
    with log.open("w") as errors:
        holder = subprocess.Popen(
            [sys.executable, "-c", _HOLDER, str(users), str(address), _TESTS],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    assert holder.stdout is not None
    started = holder.stdout.readline().strip()
    assert started, f"Ray did not start: {log.read_text()}"
    return started
