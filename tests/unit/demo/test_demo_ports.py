"""Ports for servers that start side by side."""

import subprocess
import sys

from playground.database import child_process
from playground.database.child_process import free_port


def test_two_processes_do_not_find_the_same_free_port():
    """Nothing listens there yet: the one who asked starts its server in a moment."""
    command = (
        "from playground.database.child_process import free_port\n"
        "print(*(free_port(40) for _ in range(20)), flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        theirs = {int(port) for port in other.stdout.readline().split()}
        ours = [free_port(40) for _ in range(20)]
        other.communicate("\n")
    assert len(theirs | set(ours)) == 40


def test_descriptors_are_bounded():
    kept = list(child_process._taken)
    for _ in range(3):
        free_port(taken_max=len(kept) + 1)
    assert len(child_process._taken) == len(kept) + 1
