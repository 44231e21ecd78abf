"""Message brokers of one's own: processes on free ports of 127.0.0.1, which end with their owner.

Their programs are those that `scripts/get-brokers.sh` unpacks. Every user of the machine reaches their ports:
their one account has a random password, new in each process.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from playground.database.child_process import free_port, start_child
from playground.database.secret_file import secret_file

#: where their programs are
CACHE = Path(__file__).parents[1] / ".cache"
HOST = "127.0.0.1"
#: who may use a broker
USER: Final = "canal"
PASSWORD: Final = secrets.token_hex(16)
#: seconds that a broker may take to start or to end
_START_S, _STOP_S = 90.0, 30.0
#: of a log that an error shows
TAIL_CHARS = 2_000


class BrokerMissingError(RuntimeError):
    """The programs of a broker are not on this machine."""


class Broker(ABC):
    """A broker's process and its folder. A context manager: started on entry, stopped and removed on exit."""

    #: name in messages
    name: ClassVar[str]

    def __init__(self) -> None:
        self.port = free_port()
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def hosts(self) -> str:
        """`host:port` to connect to."""
        return f"{HOST}:{self.port}"

    @property
    def folder(self) -> Path:
        """Where its data and its log are."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix=f"canal-group-{self.name.lower()}-"))
            self._prepare()
        return self._folder

    @property
    @abstractmethod
    def output(self) -> dict[str, Any]:
        """The settings of a relay's `output` that publishes here."""

    @property
    def password_file(self) -> Path:
        """A file with the password."""
        return secret_file(self.folder / "password", PASSWORD)

    @property
    def pid(self) -> int | None:
        """Its process; None: it was not started, or was ended by us."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start, and wait until it answers; do nothing if it runs.

        Raises:
            BrokerMissingError: its programs are missing.
            RuntimeError: it does not start.
        """
        if self._process is not None and self._process.poll() is None:
            return
        log = self.folder / "log"
        self._process = start_child(self._command(), log)
        deadline_s = time.monotonic() + _START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                self.kill()
                output = log.read_text(errors="replace")[-TAIL_CHARS:]
                raise RuntimeError(f"{self.name} does not start: {output}")
            time.sleep(0.05)

    def kill(self) -> None:
        """End it as a crash would; its data stay."""
        self._end(signal.SIGKILL)

    def terminate(self) -> None:
        """End it in order; its data stay."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """Let it answer nothing until `resume`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it, and remove its folder."""
        self.terminate()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        # Whatever it has started is of its session.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, how)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = None

    @abstractmethod
    def _prepare(self) -> None:
        """Fill a new folder."""

    @abstractmethod
    def _command(self) -> list[str]:
        """Return the command of its process."""

    def _answers(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            return probe.connect_ex((HOST, self.port)) == 0
