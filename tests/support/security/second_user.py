"""Another, malicious user of this machine: what it can reach of ours."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

#: the user id of "nobody", everywhere
NOBODY = 65_534

_BECOME = "import os, socket, fcntl; os.setgroups([]); os.setgid({0}); os.setuid({0})\n"


def as_nobody(code: str, *arguments: str) -> str:
    """Run Python code as that user, and return its output; an OSError gives the name of its class.

    The test is skipped unless we are root, because only root can change its user.
    """
    if os.geteuid():
        pytest.skip("only root can become another user")
    attempt = "try:\n" + "".join(f"    {line}\n" for line in code.splitlines())
    attempt += "except OSError as error:\n    print(type(error).__name__)\n"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", "import sys\n" + _BECOME.format(NOBODY) + attempt, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip()


@contextmanager
def folder_for_all() -> Iterator[Path]:
    """Make a folder that all users can enter, read and write, as /tmp is."""
    with tempfile.TemporaryDirectory(prefix="cg-", dir="/tmp") as name:
        Path(name).chmod(0o777)
        yield Path(name)
