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


#: what apt-get and pip print, of which some lines are for people
APT = """Reading package lists...
Need to get 20.1 MB/25.0 MB of archives.
Get:1 http://archive gcc 1.0 [20.1 MB]"""
PIP = """Collecting ray==2.57.0
  Downloading ray-2.57.0-cp312-cp312-manylinux2014_x86_64.whl (72.5 MB)
  Downloading rich-15.0.0-py3-none-any.whl (310 kB)
  Using cached numpy-2.4.0-cp312-cp312-manylinux_2_28_x86_64.whl (16.6 MB)
Installing collected packages: ray, rich, numpy"""


def program(folder: Path, name: str, *lines: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    (folder / name).chmod(0o755)


def said(folder: Path, variables: dict[str, str]) -> list[str]:
    """Run a copy of the script in a folder of its own, and return its lines."""
    (folder / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/setup.sh", folder / "scripts")
    for name in ("pyproject.toml", "constraints.txt"):
        (folder / name).touch()
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        [str(folder / "scripts/setup.sh"), "files"],
        env={"PATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.splitlines()


def test_what_apt_fetches_is_said_with_its_size(tmp_path):
    program(tmp_path / "bin", "id", "echo 0")
    program(tmp_path / "bin", "apt-get", f"[ $1 = update ] || echo '{APT}'")
    assert said(tmp_path, {"CC": "no-compiler"})[:2] == [
        "setup: installing gcc libc6-dev python3-dev with apt-get",
        "setup:   Need to get 20.1 MB/25.0 MB of archives.",
    ]


def test_what_pip_fetches_is_said_with_its_size(tmp_path):
    venv = tmp_path / "venv"
    program(venv / "bin", "python", f"[ $2 != pip ] || echo '{PIP}'")
    make = f"[ $1 != -m ] || exec cp -r {venv} .venv"
    program(tmp_path / "bin", "python3", make, f'exec {sys.executable} "$@"')
    program(tmp_path / "bin", "cc", "cat >/dev/null")
    lines = said(tmp_path, {"CC": "cc"})
    fetched = [
        "setup:   fetching ray-2.57.0 (72.5 MB)",
        "setup:   cached: numpy-2.4.0 (16.6 MB)",
        "setup:   installing",
    ]
    assert lines[0].startswith("setup: making .venv with Python 3")
    assert lines[1:7] == [*fetched, *fetched]
