"""Child processes that do not outlive us, and what else starting a server takes."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="server-starter")


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_as_root() -> list[str]:
    """Return the option without which servers refuse to run as root; nothing for anyone else."""
    return ["--user=root"] if os.geteuid() == 0 else []


def _die_with_parent(parent: int) -> Callable[[], None]:
    """Return what a child runs before exec, so that the kernel kills it when the parent is gone.

    The signal follows the thread that forked; servers are therefore started from `_starter`, a thread that
    lives as long as the process.
    """

    def prepare() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before the call above
            os._exit(1)

    return prepare


def start_child(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a process that dies with ours, even after kill -9; its output is added to a log."""

    def start() -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=_die_with_parent(os.getpid()),  # noqa: PLW1509 - two system calls, no lock
                start_new_session=True,
            )

    return _starter.submit(start).result()
