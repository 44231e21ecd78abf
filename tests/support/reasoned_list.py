"""A list of exceptions in a TOML file, each with its reason."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def load(path: Path, table: str, make: Callable[..., T]) -> dict[T, str]:
    """Return the reason of each entry.

    Args:
        path: the file.
        table: what its array of tables is called.
        make: makes an entry of its members without the reason.

    Raises:
        ValueError: an entry has no reason, or is in the list twice.
    """
    reasons: dict[T, str] = {}
    for members in tomllib.loads(path.read_text(encoding="utf-8")).get(table, []):
        reason = members.pop("reason", "").strip()
        entry = make(**members)
        if not reason:
            raise ValueError(f"{path.name} gives no reason for {entry}")
        if entry in reasons:
            raise ValueError(f"{path.name} has {entry} twice")
        reasons[entry] = reason
    return reasons


def written(table: str, number: int, **texts: str) -> str:
    """Return an entry without a reason.

    Args:
        table: what the array of tables is called.
        number: which of several alike it is; the first has none.
        texts: its other members.
    """
    lines = "".join(f"{name} = {_quoted(text)}\n" for name, text in texts.items())
    return f"[[{table}]]\n{lines}" + (f"number = {number}\n" if number > 1 else "") + 'reason = ""\n'


def _quoted(text: str) -> str:
    if "'" not in text:
        return f"'{text}'"
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
