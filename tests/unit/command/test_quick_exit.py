"""Ctrl-C while a command is imported: a line, and no traceback."""

from __future__ import annotations

import signal
import subprocess
import sys

from canal_group.programs.command.options.exit_code import ExitCode
from canal_group.programs.quick_exit import quick_exit

#: `import late` is interrupted in the middle, and makes another error of it, as compiled modules do
_IMPORTING = """
import os, signal
from canal_group.programs.quick_exit import quick_exit
with quick_exit():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass
    except BaseException:
        raise ImportError("half way") from None
"""


def test_an_interrupted_import_ends_with_one_line():
    done = subprocess.run([sys.executable, "-c", _IMPORTING], capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.INTERRUPTED
    assert done.stderr == "Interrupted: nothing was started yet.\n"
    assert not done.stdout


def test_afterwards_the_signal_is_as_it_was():
    before = signal.getsignal(signal.SIGINT)
    with quick_exit():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before
