"""Processes that can be killed and paused by pid, safe against reuse of the pid."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

from playground.database.child_process import start_child

#: how long a process may take to end in good order, seconds
END_S = 20.0
#: how long a slow process is stopped, in turns, and how long it runs in between, seconds
STOPPED_S, RUNS_S = (1.2, 2.8, 1.6), 0.2


class Victim:
    """A process as the target of a fault. It is held open, so that no other process can get its pid.

    Raises:
        ProcessLookupError: there is no such process.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._held = os.pidfd_open(pid)

    def send(self, what: signal.Signals) -> None:
        """Send a signal, if it is still alive."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._held, what)

    def let_go(self) -> None:
        """Release it."""
        os.close(self._held)


class Slow(threading.Thread):
    """Makes a process slow: it runs for moments only, and is stopped in between for longer than callers wait.

    Args:
        victim: the process.
    """

    def __init__(self, victim: Victim) -> None:
        super().__init__(name=f"slow-{victim.pid}", daemon=True)
        self._victim = victim
        self._over = threading.Event()

    def run(self) -> None:
        """Stop it and let it run in turns, until the end."""
        for stopped_s in cycle(STOPPED_S):
            self._victim.send(signal.SIGSTOP)
            over = self._over.wait(stopped_s)
            self._victim.send(signal.SIGCONT)
            if over or self._over.wait(RUNS_S):
                return

    def end(self) -> None:
        """Let it run as before."""
        self._over.set()
        self.join()


class Program:
    """A program of ours in its own process, which can be restarted after it was killed.

    Args:
        command: what to run.
        log: where its output goes.
        environment: additional variables.
    """

    def __init__(self, command: Sequence[str], log: Path, environment: dict[str, str] | None = None) -> None:
        self._command, self._log = list(command), log
        self._environment = environment or {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process; None: it does not run."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def log(self) -> Path:
        """Where its output goes."""
        return self._log

    def start(self) -> None:
        """Start it, if it is not running."""
        if self.pid is None:
            variables = [f"{name}={value}" for name, value in self._environment.items()]
            self._process = start_child(["/usr/bin/env", *variables, *self._command], self._log)

    def reap(self) -> None:
        """Wait for the end of a process that was told to end; kill it after a timeout."""
        if self._process is None:
            return
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def end(self) -> None:
        """End it in good order if possible, even if it is paused."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.send_signal(signal.SIGCONT)
            self.reap()
