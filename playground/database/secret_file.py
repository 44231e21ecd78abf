"""Files with a secret in them, which other users of the machine cannot read."""

from __future__ import annotations

import os
from pathlib import Path

_MODE = 0o600


def secret_file(path: Path, text: str) -> Path:
    """Write a file that only its owner can read, and return its path; what it held is replaced."""
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE), "w", encoding="utf-8"
    ) as file:
        # One that was there keeps its mode.
        os.fchmod(file.fileno(), _MODE)
        file.write(text)
    return path
