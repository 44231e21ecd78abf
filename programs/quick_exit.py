"""Quick exit: Ctrl-C while modules are imported.

A compiled module whose import is interrupted raises an error of any kind, or none. Nothing was started yet:
the process may end at once.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

_STDERR: Final = 2
#: as shells count it; `ExitCode.INTERRUPTED`
_INTERRUPTED: Final = 128 + signal.SIGINT


@contextmanager
def quick_exit() -> Iterator[None]:
    """While inside, Ctrl-C says so on stderr and ends the process; nothing is cleaned up.

    Outside of the main thread it does nothing: signals are not this thread's.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    os.write(_STDERR, b"Interrupted: nothing was started yet.\n")
    os._exit(_INTERRUPTED)
