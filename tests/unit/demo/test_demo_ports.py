"""Ports for servers that start side by side."""

import subprocess
import sys

from playground.database import child_process
from playground.database.child_process import free_port


def test_a_reserved_port_is_not_given_to_another_process_of_ours(monkeypatch):
    """Nothing listens there yet: the one who asked starts its server in a moment."""
    monkeypatch.setattr(child_process, "_PORTS", 40)
    command = (
        "from playground.database import child_process\n"
        "child_process._PORTS = 40\n"
        "print(*(child_process.free_port() for _ in range(20)), flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        theirs = {int(port) for port in other.stdout.readline().split()}
        ours = [free_port() for _ in range(20)]
        other.communicate("\n")
    assert len(theirs | set(ours)) == 40


def test_descriptors_are_bounded(monkeypatch):
    monkeypatch.setattr(child_process, "_TAKEN_MAX", len(child_process._taken) + 1)
    ports = list(child_process._taken)
    for _ in range(3):
        free_port()
    assert len(child_process._taken) == len(ports) + 1
