"""ARCHITECTURE.md's code map names every file that there is, and none that there is not."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("actors", "canal_group", "conf", "merge")


def mapped():
    """Return what the map's first column names: a name without a folder is in that of the one before."""
    found = set()
    for line in (ROOT / "ARCHITECTURE.md").read_text().splitlines():
        folder = ""
        for name in re.findall(r"`([^`]+)`", line.split("|")[1]) if line.startswith("| `") else ():
            whole = name if "/" in name else f"{folder}/{name}"
            folder = whole.rpartition("/")[0]
            found.add(whole)
    return found


def test_every_file_is_in_the_code_map():
    names = mapped()
    folders = tuple(name for name in names if name.endswith("/"))
    files = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if path.name != "__init__.py"
    }
    assert [file for file in sorted(files - names) if not file.startswith(folders)] == []
    assert [name for name in sorted(names) if not (ROOT / name).exists()] == []
