"""`make audit`: what it makes of what pip-audit prints."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
audit = runpy.run_path(str(ROOT / "scripts/audit.py"))

FINE = {"name": "pyarrow", "version": "1.0", "vulns": []}
UNKNOWN = {"name": "ray", "skip_reason": "not found"}
FAULTY = {
    "name": "kazoo",
    "version": "2.0",
    "vulns": [
        {"id": "MADE-UP-1", "fix_versions": ["2.1", "3.0"], "aliases": [], "description": "..."},
        {"id": "MADE-UP-2", "fix_versions": [], "aliases": [], "description": "..."},
    ],
}
NOT_REACHED = "audit: no database of known faults was reached. docs/security.md says which dependencies"


def audited(home: Path, printed: str, status: int = 0) -> int:
    """Return the exit status of an audit for which pip-audit prints this."""
    program = home / "bin" / "pip-audit"
    program.parent.mkdir()
    (home / "printed").write_text(printed)
    program.write_text(
        f"#!{sys.executable} -IS\n"
        "import pathlib, sys\n"
        "assert 'kazoo==' in open(sys.argv[sys.argv.index('--requirement') + 1]).read()\n"
        "home = pathlib.Path(__file__).parent.parent\n"
        f"sys.stdout.write((home / 'printed').read_text()); sys.exit({status})\n"
    )
    program.chmod(0o755)
    done: int = audit["main"](home)
    return done


def told(*dependencies: Any) -> str:
    return json.dumps({"dependencies": dependencies, "fixes": []})


def test_a_known_fault_is_named_and_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert audited(tmp_path, told(FINE, FAULTY, UNKNOWN), status=1) == 1
    assert capsys.readouterr().out.splitlines() == [
        "audit: kazoo 2.0 has MADE-UP-1, mended in 2.1, 3.0",
        "audit: kazoo 2.0 has MADE-UP-2, mended in no version",
        "audit: 2 known faults in 2 of 3 versions",
    ]


def test_no_known_fault_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert audited(tmp_path, told(FINE, UNKNOWN)) == 0
    assert capsys.readouterr().out == "audit: 0 known faults in 1 of 2 versions\n"


@pytest.mark.parametrize(
    "printed",
    [
        told(),
        told(UNKNOWN, UNKNOWN),
        "",
        "Traceback (most recent call last):",
        "5",
        "[]",
        "{}",
        '{"dependencies": 5}',
        told(5),
        told({"version": "1"}),
        told({**FINE, "vulns": 5}),
        told({**FINE, "vulns": [{}]}),
        "[" * 100_000,
    ],
    ids=lambda printed: printed[:40],
)
def test_where_no_database_says_anything_it_is_said_what_to_do(
    printed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert audited(tmp_path, printed, status=1) == 0
    assert capsys.readouterr().out.startswith(NOT_REACHED)


def test_where_it_cannot_be_run_it_is_said_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/pip-audit").touch(0o644)
    assert audit["main"](tmp_path) == 0
    assert "cannot be installed or run" in capsys.readouterr().out


def test_what_is_to_be_looked_up_by_hand_is_what_is_installed():
    """The table in docs/security.md names packages as constraints.txt does."""
    pins = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    section = (ROOT / "docs/security.md").read_text().partition("## Dependencies")[2].partition("\n## ")[0]
    named = [line.split("|")[1].strip().lower() for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(named) > 5
    assert set(named) <= pins
