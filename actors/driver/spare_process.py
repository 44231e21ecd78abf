"""The spare process: one that Ray has started, and that waits to become an actor.

A process of Ray's takes most of the time of a restart: it starts, connects, and imports the modules of an
actor. Ray gives an actor that starts again an idle process, if there is one that was never given a task; it
starts some with itself, which the first actors take. A thread here has Ray start one more whenever none is
left. The modules are imported as `canal_group.actors.driver.local_ray` tells Ray.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import ray
from ray._private import ray_constants, worker

from canal_group.merge.back_off import BackOff

_log = logging.getLogger(__name__)

#: how often it is looked for, seconds
LOOK_EVERY_S = 1.0
#: the longest pause after one that Ray was asked for and that did not come, seconds
LOOK_MAX_S = 60.0
#: time from asking for a process until the request is withdrawn, seconds: Ray has begun to start it by then,
#: and it is not ready yet to be given the request
WITHDRAW_S = 0.05
#: the title that Ray gives to a process without a task, and a word of the command of one that starts
_IDLE, _STARTS = "ray::IDLE", "default_worker.py"


class SpareProcess:
    """Keeps one process ready for an actor of this machine that ends, until closed."""

    def __init__(self) -> None:
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spare", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; Ray ends the process."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        pauses, pause_s = BackOff(LOOK_MAX_S), LOOK_EVERY_S
        while not self._closing.wait(pause_s):
            try:
                if spare_pid() is not None:
                    pauses.reset()
                    pause_s = LOOK_EVERY_S
                    continue
                self._start()
            except Exception as error:  # noqa: BLE001  restarts take longer without it, and nothing else
                _log.debug("no spare process: %s", error)
            pause_s = pauses.failed(LOOK_EVERY_S, 1.0)

    def _start(self) -> None:
        """Have Ray start a process that gets nothing to do."""
        asked = ray.remote(num_cpus=0, max_calls=1, max_retries=0)(_nothing).remote()
        self._closing.wait(WITHDRAW_S)
        ray.cancel(asked)


def _nothing() -> None:
    pass


def spare_pid() -> int | None:
    """Return the pid of this machine's idle or starting Ray process; None without a spare process."""
    node = worker._global_node  # noqa: SLF001
    raylets = [] if node is None else node.all_processes.get(ray_constants.PROCESS_TYPE_RAYLET, [])
    for raylet in raylets:
        for children in Path(f"/proc/{raylet.process.pid}/task").glob("*/children"):
            pids = children.read_text().split()
            spare = next((int(pid) for pid in pids if _is_spare(pid)), None)
            if spare is not None:
                return spare
    return None


def _is_spare(pid: str) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return False  # It has ended.
    return command.startswith(_IDLE) or _STARTS in command
