"""A `canal-group serve` process of a test's own."""

from __future__ import annotations

import signal
import subprocess
import threading
from typing import Self

from integration.shop import DEADLINE_S
from support.instance.program import PROGRAM


class Serve:
    """A `canal-group serve` process, and what it said."""

    def __init__(self, *options: str) -> None:
        # Several may run at once: each has a page at a port of its own.
        where = () if "--http" in options else ("--http", "127.0.0.1:0")
        command = [*PROGRAM, "serve", *options, *where]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def says(self, *words: str, since: int = 0) -> str:
        """Wait for a line that holds all words, and return it."""
        found: list[str] = []

        def look() -> bool:
            found[:] = [line for line in self.lines[since:] if all(word in line for word in words)]
            return bool(found) or not self._reader.is_alive()

        with self._news:
            self._news.wait_for(look, DEADLINE_S)
        assert found, f"serve did not say {words}: {self.lines}"
        return found[0]

    def end(self, how: int = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        code = self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.end()
        assert self.process.stderr is not None
        self.process.stderr.close()
