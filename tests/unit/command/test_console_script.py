"""Ctrl-C while modules are imported: a line and the code 130, whichever module it is, and no traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: raises Ctrl-C while a module is looked for, with the driver's own handler
INTERRUPT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            {act}
sys.meta_path.insert(0, Interrupting())
sys.argv = ["canal-group", "consume", "-d", "shop"]
from canal_group.programs.console_script import main
main()
"""
PRESS = "os.kill(os.getpid(), signal.SIGINT)"
#: Python 3.11 raises RuntimeError from what a descriptor's `__set_name__` raises
PRESS_IN_A_CLASS = (
    "type('C', (), {'x': type('D', (), {'__set_name__': lambda *_: os.kill(os.getpid(), 2)})()})"
)


@pytest.mark.parametrize("act", [PRESS, PRESS_IN_A_CLASS], ids=["module", "class"])
@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("canal_group.programs.quick_exit", "Interrupted.\n"),
        ("canal_group.extras", "Interrupted: nothing was started yet.\n"),
        ("pyarrow", "Interrupted: nothing was started yet.\n"),
        ("canal_group.programs.command.consuming.show", "Interrupted.\n"),
    ],
)
def test_ctrl_c_while_modules_are_imported_prints_a_line(module: str, said: str, act: str):
    code = INTERRUPT.format(module=module, act=act)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", said)


def test_another_error_is_not_hidden():
    code = INTERRUPT.format(module="typer", act="raise RuntimeError('a defect')")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "a defect" in done.stderr
