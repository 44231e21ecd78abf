"""Defects that servers have logged: an unforeseen error has a traceback, and no audit of streams sees it.

A process that fails is started again, and what it served goes on: streams may have nothing wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

_TRACEBACK: Final = "Traceback (most recent call last):"


def defects(logs: Iterable[Path]) -> Iterator[str]:
    """Yield the line before each traceback of some logs, and the error at its end."""
    for log in logs:
        lines = log.read_text(errors="replace").splitlines()
        for index, line in enumerate(lines):
            if line.strip() == _TRACEBACK:
                begin = len(line) - len(line.lstrip())
                after = (each for each in lines[index + 1 :] if not each.startswith(" " * (begin + 1)))
                yield f"{log.name}: {lines[max(index - 1, 0)]} {next(after, '').strip()}"
