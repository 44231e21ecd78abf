"""Clocks that step while processes run: one per simulated machine, through a preloaded library.

`clock.c` is compiled with the compiler that the project needs anyway. Debian's libfaketime was tried first.
MariaDB runs with it, but a Python process does not: with real monotonic clocks `time.sleep` fails with
EINVAL, and without them its waits hang. Ray's own programs abort, and killed processes leave shared memory
allocated.

The clocks of the sources (MariaDB and MySQL) and of a raylet's actors are stepped; a raylet stands for a
machine. ZooKeeper and Ray's own programs keep the machine's clock.
"""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaos.journal import now_us

S_US: Final = 1_000_000
_SOURCE: Final = Path(__file__).with_name("clock.c")
_OFFSET: Final = struct.Struct("=q")


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a clock: its offset from the machine's clock, and since when."""

    #: microseconds since 1970, by the machine's clock
    at_us: int
    offset_us: int


class Clock:
    """The clock of one machine, real or simulated.

    Args:
        file: the file that its processes map.
        library: `clock.c`, compiled, see `compiled`.
    """

    def __init__(self, file: Path, library: Path) -> None:
        self._library, self._file = library, file
        file.write_bytes(_OFFSET.pack(0))
        with file.open("r+b") as opened:
            self._offset = mmap.mmap(opened.fileno(), _OFFSET.size)
        #: all settings so far
        self.settings = [Setting(0, 0)]

    def set(self, offset_us: int) -> None:
        """Set its offset ahead of the machine's clock, from now on."""
        self._offset[:] = _OFFSET.pack(offset_us)
        self.settings.append(Setting(now_us(), offset_us))

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that make a process use it."""
        return {"LD_PRELOAD": str(self._library), "CHAOS_CLOCK": str(self._file)}

    def command(self, program: str) -> list[str]:
        """Return the command that runs a program with this clock; append the program's arguments."""
        return ["/usr/bin/env", *(f"{name}={value}" for name, value in self.environment.items()), program]

    @contextmanager
    def of_workers(self) -> Iterator[None]:
        """Make the workers of a raylet that is started inside use this clock, but not the raylet itself.

        A raylet runs its workers with our interpreter and passes its environment on. A script in place of the
        interpreter distinguishes workers from other programs.
        """
        script = self._file.with_suffix(".python")
        real = sys.executable
        exports = " ".join(f"{name}='{value}'" for name, value in self.environment.items())
        script.write_text(
            f'#!/bin/sh\ncase "$*" in *default_worker.py*) export {exports};; esac\nexec \'{real}\' "$@"\n'
        )
        script.chmod(0o700)
        sys.executable = str(script)
        try:
            yield
        finally:
            sys.executable = real


def compiled(folder: Path) -> Path:
    """Compile the library into a folder, and return its path."""
    library = folder / "clock.so"
    compiler = os.environ.get("CC", "cc")
    subprocess.run(
        [compiler, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"],
        check=True,
    )
    return library
