"""The process that a Ray of our own keeps ready for the actor that ends next."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: kill an actor of a Ray with one CPU twice; print the spare process before, and the actor's process after it
_KILLED = """
import os, signal, sys, threading
import ray
from canal_group.actors.driver.own_ray import OwnRay
from canal_group.actors.driver.spare_process import spare_pid
from canal_group.conf.server_settings import RaySettings

own = OwnRay(RaySettings(num_cpus=1, **({} if sys.argv[1:] else {"spare_process": False})), forward=False)

@ray.remote(num_cpus=0, max_restarts=-1)
class Actor:
    def pid(self):
        return os.getpid(), "canal_group.actors.shard.shard" in sys.modules

actor = Actor.remote()
pid, _ = ray.get(actor.pid.remote())
for _ in range(2):
    while sys.argv[1:] and spare_pid() in (None, pid):
        threading.Event().wait(0.05)
    spare = spare_pid()
    os.kill(pid, signal.SIGKILL)
    pid, imported = ray.get(actor.pid.options(max_task_retries=-1).remote())
    print(spare, pid, imported)
own.close()
"""
DEADLINE_S = 120


def killed(*arguments: str) -> list[list[str]]:
    """Return the words of each line that the program prints."""
    command = [sys.executable, "-c", _KILLED, *arguments]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=DEADLINE_S, check=True)
    return [line.split() for line in ran.stdout.splitlines() if line[:1].isdigit() or line[:4] == "None"]


def test_an_actor_that_ends_goes_on_in_the_spare_process_and_another_comes():
    first, second = killed("spare")
    for spare, pid, imported in (first, second):
        assert (pid, imported) == (spare, "True")
    assert first != second


@pytest.mark.soak
def test_no_process_is_spare_without_the_setting():
    assert [(spare, imported) for spare, _, imported in killed()] == [("None", "False")] * 2
