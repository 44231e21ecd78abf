"""Helpers are in `tests/support`, by subject: no module imports from a test module or a conftest."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TESTS = ROOT / "tests"
#: in a folder of helpers: what a reader can survey
FILES_MAX = 15
SUPPORT = sorted(
    path
    for path in [TESTS / "support", *(TESTS / "support").iterdir()]
    if path.is_dir() and path.name != "__pycache__"
)


def imported(source):
    """Return the modules and names that a module imports, as dotted names."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module or ''}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def of_tests(source):
    """Return the imports that come from a test module or a conftest."""
    return [
        name
        for name in imported(source)
        if any(part.startswith("test_") or part == "conftest" for part in name.split("."))
    ]


@pytest.mark.parametrize(
    "source",
    [
        "from unit.meta.test_meta_file import Folder",
        "from integration import conftest",
        "from integration.conftest import started",
        "import property.test_group",
        "def late():\n    from tests.unit.test_one import helper",
    ],
)
def test_an_import_of_a_test_module_is_found(source):
    assert len(of_tests(source)) == 1


@pytest.mark.parametrize("folder", ["tests", "benchmarks", "playground", "examples", "scripts"])
def test_helpers_come_from_support(folder):
    found = {
        path.relative_to(ROOT).as_posix(): names
        for path in (ROOT / folder).rglob("*.py")
        if (names := of_tests(path.read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize("folder", SUPPORT, ids=lambda folder: folder.relative_to(TESTS).as_posix())
def test_a_folder_of_helpers_can_be_surveyed(folder):
    assert len(list(folder.glob("*.py"))) <= FILES_MAX


def test_no_helper_lies_loose_beside_the_folders():
    assert [path.name for path in TESTS.glob("*.py")] == ["conftest.py"]
