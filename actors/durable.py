"""Writing a file so that a crash leaves the old content or the new one, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(file: Path, text: str) -> None:
    """Replace a file's content as a whole, durably.

    The new content is written beside it, synced, and renamed over it; then the folder is synced. A leftover
    of a crash is harmless. Two writers at once must be kept apart by the caller.

    Raises:
        OSError: it could not be written; the old content stands.
    """
    temporary = file.with_name(file.name + ".tmp")
    with temporary.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
