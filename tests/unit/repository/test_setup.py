"""`scripts/setup.sh`: what it installs for whom."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MARIADB, JAVA, COMPILER = "mariadb-server-core", "default-jre-headless", "gcc"
#: all that the script finds: neither apt-get nor anything that it would install
FOUND = ("bash", "dirname", "sed")


def missing(folder: Path, *arguments: str) -> set[str]:
    """Return the packages that are named as missing where next to nothing is installed."""
    for name in FOUND:
        program = shutil.which(name)
        assert program
        (folder / name).symlink_to(program)
    (folder / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (folder / "python3").chmod(0o755)
    done = subprocess.run(
        [shutil.which("bash") or "", str(ROOT / "scripts/setup.sh"), *arguments],
        env={"PATH": str(folder), "CC": "no-compiler"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    named, _, rest = done.stderr.removeprefix("setup: missing: ").strip().partition(";")
    assert rest == " there is no apt-get here, so install their like by hand"
    return set(named.split())


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [(["files"], set()), (["demo"], {MARIADB}), ([], {MARIADB, JAVA})],
    ids=["files", "demo", "all"],
)
def test_the_demo_needs_less_than_the_tests(tmp_path, arguments, needed):
    assert missing(tmp_path, *arguments) & {MARIADB, JAVA, COMPILER} == {COMPILER, *needed}


@pytest.mark.parametrize(
    ("arguments", "set_up"),
    [("", "demo"), ("--shards 2", "demo"), ("--files --stay", "files"), ("--zookeeper --shards 2", "")],
)
def test_make_demo_sets_up_what_its_options_need(arguments, set_up):
    # The tests may run below another make, whose options and level ours must not take.
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    planned = subprocess.run(
        ["make", "--dry-run", "demo", f"ARGS={arguments}"],
        cwd=ROOT,
        env=alone,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert planned[0].split() == ["scripts/setup.sh", *set_up.split()]


def test_an_unknown_set_is_refused():
    done = subprocess.run(
        [str(ROOT / "scripts/setup.sh"), "tests"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "setup: expected demo, files, --check or nothing, found tests\n"
