"""The open files of this process."""

import contextlib
from pathlib import Path


def open_files() -> list[str]:
    """Return the target of each descriptor, as the kernel names it; one that closes meanwhile is left out."""
    names = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            names.append(str(descriptor.readlink()))
    return names
