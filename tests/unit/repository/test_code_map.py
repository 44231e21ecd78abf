"""ARCHITECTURE.md names every room and no missing file; a package has few files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("actors", "binlog", "canal_group", "conf", "merge", "playground", "programs")
#: of a package: what a reader takes in at one look
FILES_MAX = 15


def packages():
    """Return the folders of packages, but for those that have packages alone in them."""
    folders = (path.parent for package in PACKAGES for path in (ROOT / package).rglob("__init__.py"))
    return sorted(folder.relative_to(ROOT).as_posix() for folder in folders)


def modules(folder):
    return [path for path in (ROOT / folder).glob("*.py") if path.name != "__init__.py"]


def mapped(file):
    """Return the names in a table's first column."""
    return {
        name
        for line in (ROOT / file).read_text().splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    }


def gone(names):
    return [name for name in sorted(names) if not (ROOT / name).exists()]


def test_every_room_is_in_the_code_map():
    names = mapped("ARCHITECTURE.md")
    assert {f"{package}/" for package in PACKAGES} <= names
    assert gone(names) == []


@pytest.mark.parametrize("folder", packages())
def test_a_package_is_taken_in_at_one_look(folder):
    assert len(modules(folder)) <= FILES_MAX
