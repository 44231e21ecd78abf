"""Targets: the code that faults are put into, and the tests of each, none of which needs a server."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: where modules are imported from: its links lead to the folders
IMPORTED = ROOT / "canal_group"
#: the packages that faults are put into
PACKAGES = ("merge", "binlog/schema", "binlog/history", "binlog/statements")
#: folders and files of the tests of the packages that apply DDL
_OF_DDL = (
    "unit/binlog/charsets",
    "unit/binlog/columns/types",
    "unit/binlog/grammar",
    "unit/binlog/history",
    "unit/binlog/schema",
    "unit/binlog/statements",
)
#: tests of other code that are the only tests of a module of `merge/`
_ALSO_OF_MERGE = (
    "unit/conf/test_conf_security.py",
    "unit/merge/delivery/test_batch_parts.py",
    "unit/merge/delivery/test_rewind_grant.py",
    "unit/merge/rows/test_pattern.py",
    "unit/shard/test_sink.py",
)


def files_of(paths: Iterable[Path]) -> list[Path]:
    """Return the files of some files and folders, as they are imported; without any, those of all packages.

    Raises:
        ValueError: one is none of the packages, and in none of them.
    """
    paths = [path.resolve() for path in paths] or [ROOT / package for package in PACKAGES]
    for path in paths:
        if not path.exists() or not any(path.is_relative_to(ROOT / package) for package in PACKAGES):
            raise ValueError(f"{path} is not a file or a folder of {', '.join(PACKAGES)}")
    files = {file for path in paths for file in _files_in(path, "*.py")}
    return sorted(IMPORTED / file.relative_to(ROOT) for file in files)


def suite_of(files: Iterable[Path]) -> list[Path]:
    """Return the tests of some files of the packages."""
    in_merge = {file.is_relative_to(IMPORTED / "merge") for file in files}
    found = set(_tests_of_merge()) if True in in_merge else set()
    if False in in_merge:
        found |= {path for folder in _OF_DDL for path in _files_in(ROOT / "tests" / folder, "test_*.py")}
    return sorted(found)


def _tests_of_merge() -> Iterator[Path]:
    """Yield the tests of `merge/`: those that import no other package of ours, and some that do."""
    for kind in ("unit", "property"):
        for path in _files_in(ROOT / "tests" / kind, "test_*.py"):
            if _is_of_merge(path.read_text()) or str(path).endswith(_ALSO_OF_MERGE):
                yield path


def _files_in(path: Path, pattern: str) -> Iterable[Path]:
    return [path] if path.is_file() else path.rglob(pattern)


def _is_of_merge(text: str) -> bool:
    imported = set(re.findall(r"^\s*(?:from|import) (canal_group(?:\.\w+)?|\w+)", text, re.MULTILINE))
    ours = {name for name in imported if name.startswith("canal_group")}
    beside = {f"canal_group.{room}" for room in ("merge", "binlog", "programs")}
    return bool(imported & {"canal_group.merge", "builders"}) and ours <= beside
