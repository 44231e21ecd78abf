"""Child processes that do not outlive us, and what else starting a server takes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
import socket
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_KERNELS_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
#: how many ports below the kernel's are looked at, and where those begin that anybody may listen on
PORTS, _UNPRIVILEGED = 10_000, 1_024
#: number of ports that stay reserved, the last ones: each takes a descriptor
TAKEN_MAX = 256
#: sockets whose names, in the kernel's abstract namespace, say which ports these are
_taken: deque[socket.socket] = deque()
_libc = ctypes.CDLL(None, use_errno=True)
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="server-starter")


def free_port(ports: int = PORTS, taken_max: int = TAKEN_MAX) -> int:
    """Return a TCP port of 127.0.0.1 that was free a moment ago.

    It lies below those that the kernel hands out: whatever connects or listens on any port meanwhile does not
    take it, also while its server is restarted. Nor does another call, of this process or of another one.

    Args:
        ports: how many ports below the kernel's are looked at.
        taken_max: how many ports stay reserved, the latest ones.
    """
    low = int(_KERNELS_PORTS.read_text().split()[0])
    below = range(max(_UNPRIVILEGED, low - ports), low)
    # Where there is none below, one of the kernel's has to do.
    for port in (*random.SystemRandom().sample(below, len(below)), 0):
        with socket.socket() as probe:
            # As servers do: a port in TIME_WAIT is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                number = int(probe.getsockname()[1])
                _take(number, taken_max)
                return number
    raise OSError("No port of 127.0.0.1 is free.")


def _take(port: int, taken_max: int) -> None:
    """Keep a port for who asked for it.

    Raises:
        OSError: another one has it.
    """
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0canal-group-port-{port}")
    except OSError:
        name.close()
        raise
    _taken.append(name)
    if len(_taken) > taken_max:
        _taken.popleft().close()


def run_as_root() -> list[str]:
    """Return the option without which servers refuse to run as root; nothing for anyone else."""
    return ["--user=root"] if os.geteuid() == 0 else []


def _die_with_parent(parent: int) -> Callable[[], None]:
    """Return the function that a child runs before exec, so that the kernel kills it when the parent is gone.

    The signal follows the thread that forked; servers are therefore started from `_starter`, a thread that
    lives as long as the process.
    """

    def prepare() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before the call above
            os._exit(1)

    return prepare


def start_child(
    command: Sequence[str], log: Path, variables: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a process that dies with ours, even after kill -9; its output is added to a log.

    Args:
        command: its program and arguments.
        log: the file of its output.
        variables: of its environment, besides ours.
    """

    def start() -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(variables or {})},
                preexec_fn=_die_with_parent(os.getpid()),  # noqa: PLW1509 - two system calls, no lock
                start_new_session=True,
            )

    return _starter.submit(start).result()
