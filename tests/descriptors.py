"""The files that this process holds open."""

import contextlib
from pathlib import Path


def open_files() -> list[str]:
    """Return what each descriptor is of, as the kernel names it; one that closes meanwhile is left out."""
    names = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            names.append(str(descriptor.readlink()))
    return names
