"""The process of an embedded ZooKeeper: its owner's Ctrl-C does not reach it, its owner's end does."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

#: owns a process, says which, and waits
_OWNER = """
import sys
from pathlib import Path
from canal_group.actors.coordination.embedded import _Started
print(_Started(["/bin/sleep", "600"], Path(sys.argv[1])).process().pid, flush=True)
input()
"""
_DEADLINE_S = 30.0


def lives(pid: int) -> bool:
    """Return whether a process runs; one whose end was not awaited yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_the_server_has_a_group_of_its_own_and_ends_with_its_owner(tmp_path):
    """1. an owner starts it; 2. a signal to the owner's group is not for it; 3. the owner is killed."""
    command = [sys.executable, "-c", _OWNER, str(tmp_path / "log")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        pid = int(owner.stdout.readline())
        groups = os.getpgid(owner.pid), os.getpgid(pid)
        alive = lives(pid)
        owner.kill()
    assert alive
    assert groups[1] == pid != groups[0]
    deadline_s, pause = time.monotonic() + _DEADLINE_S, threading.Event()
    while lives(pid):
        assert time.monotonic() < deadline_s, "it outlives its owner"
        pause.wait(0.02)
