"""ARCHITECTURE.md's code map names every package that there is, and nothing that there is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("actors", "canal_group", "conf", "merge")
#: of a package: what a reader takes in at one look
FILES_MAX = 15
#: settings are one noun each, and are looked for in one place
LARGER = {"conf": 18}


def packages():
    """Return the folders of packages, but for those that have packages alone in them."""
    folders = (path.parent for package in PACKAGES for path in (ROOT / package).rglob("__init__.py"))
    return sorted(folder.relative_to(ROOT).as_posix() for folder in folders)


def modules(folder):
    return [path for path in (ROOT / folder).glob("*.py") if path.name != "__init__.py"]


def mapped():
    """Return what the map's first column names."""
    lines = (ROOT / "ARCHITECTURE.md").read_text().splitlines()
    return {
        name
        for line in lines
        if line.startswith("| `")
        for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    }


def test_every_package_is_in_the_code_map():
    """A package of packages alone is named by these."""
    names = mapped()
    missing = [
        folder
        for folder in packages()
        if f"{folder}/" not in names
        and not {path.relative_to(ROOT).as_posix() for path in modules(folder)} <= names
    ]
    assert missing == []
    assert [name for name in sorted(names) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("folder", packages())
def test_a_package_is_taken_in_at_one_look(folder):
    assert len(modules(folder)) <= LARGER.get(folder, FILES_MAX)
