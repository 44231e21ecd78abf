"""The wheel, in a virtual environment that has what `pip install canal-group` brings, and no more."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from itertools import chain
from pathlib import Path

import pytest
from integration.shop import DEADLINE_S

ROOT = Path(__file__).parents[3]
#: what a build reads
FILES = ("LICENSE", "README.md", "pyproject.toml", "setup.py")
ROOMS = ("actors", "binlog", "canal_group", "conf", "merge", "programs")
#: what the library asks for
LIBRARY = ("kazoo", "numpy", "pyarrow")
#: what is installed of ours, by its name in site-packages
OURS = {"canal_group"}
#: modules that a user has beside a script, with names that everybody uses
OF_THE_USER = ("actors", "binlog", "conf", "merge", "programs")
#: makes a wheel of what is compiled already
BUILD = """
import runpy
import Cython.Build
from setuptools.command.build_ext import build_ext
Cython.Build.cythonize = lambda extensions, **_: extensions
build_ext.build_extension = lambda *_: None
runpy.run_path("setup.py")
"""
SCRIPT = """
import sys
import canal_group

where, destination = sys.argv[1:]
options = {"uri": where} if where.startswith("grpc") else {"zookeeper": where}
ids = []
with canal_group.connect(**options, destination=destination, client_id="installed", wait_s=60) as consumer:
    while len(ids) < 6:
        batch = consumer.get_without_ack(timeout=60)
        ids += [int(dict(row)["id"]) for row in batch.envelope()["after"].to_pylist()]
        consumer.ack(batch.batch_id)
print(*ids)
files = [name for name, module in sys.modules.items() if getattr(module, "__file__", None)]
names = {name.partition(".")[0] for name in files} - sys.stdlib_module_names
# The standard library's own, which has the platform in its name.
print(*(name for name in names if not name.startswith("_sysconfigdata")))
print(canal_group.__file__)
"""


def in_wheel(path):
    return f"canal_group/{path.relative_to(ROOT).as_posix().removeprefix('canal_group/')}"


def ran(*command, status=0, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **options)
    assert done.returncode == status, done.stderr + done.stdout
    return done


def sources(folder, *left_out):
    """Copy what a build reads; links stay links."""
    for name in FILES:
        shutil.copy2(ROOT / name, folder / name)
    ignored = shutil.ignore_patterns("__pycache__", *left_out)
    for name in ROOMS:
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
    return folder


def content(wheel):
    """Return the names of its files, but for those that describe it."""
    with zipfile.ZipFile(wheel) as opened:
        return {name for name in opened.namelist() if ".dist-info/" not in name}


def kept():
    """Return the names of all files of the rooms, as a wheel has them."""
    paths = [path for room in ROOMS for path in (ROOT / room).rglob("*") if path.is_file()]
    return {in_wheel(path) for path in paths if "__pycache__" not in path.parts}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = sources(tmp_path_factory.mktemp("sources"))
    compiled = [path for room in ROOMS for path in (ROOT / room).rglob("*.so")]
    assert compiled
    for path in compiled:
        built = folder / "built" / in_wheel(path)
        built.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, built)
    ran(sys.executable, "-c", BUILD, "-q", "build", "--build-lib", "built", "bdist_wheel", cwd=folder)
    (made,) = (folder / "dist").iterdir()
    return made


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A virtual environment with the wheel, and links to what its library asks for; no pip, no setuptools."""
    folder = tmp_path_factory.mktemp("environment")
    ran(sys.executable, "-m", "venv", "--without-pip", folder)
    ours = (sys.executable, "-m", "pip", "--python", folder / "bin/python", "--disable-pip-version-check")
    ran(*ours, "install", "--no-compile", "--no-deps", "--no-index", wheel)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in LIBRARY:
        files = distribution(name).files or ()
        for top in {file.parts[0] for file in files} - {".."}:
            (site / top).symlink_to(distribution(name).locate_file(top))
    ran(*ours, "check")
    return folder


def test_a_wheel_has_the_rooms_and_nothing_else(wheel):
    assert content(wheel) == kept()
    assert {name.partition("/")[0] for name in content(wheel)} == OURS


@pytest.mark.parametrize("found_by", ["address", "zookeeper"])
def test_an_installed_consumer_reads_beside_modules_with_names_of_ours(
    found_by, environment, served, tmp_path
):
    served.write_everywhere(3)
    script = tmp_path / "script" / "read.py"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    for name in OF_THE_USER:
        script.with_name(f"{name}.py").write_text(f"raise SystemExit('{name} is the user's')")
    where = served.instance.uri if found_by == "address" else served.zookeeper_hosts
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    reads = (environment / "bin/python", script, where, served.destination)
    done = ran(*reads, cwd=tmp_path, env=clean, timeout=DEADLINE_S)
    ids, modules, file = done.stdout.splitlines()
    assert sorted(map(int, ids.split())) == sorted(chain(*served.written.values()))
    assert set(modules.split()) - {"__main__"} <= {*OURS, *LIBRARY}
    assert ("kazoo" in modules.split()) is (found_by == "zookeeper")
    assert Path(file).is_relative_to(environment)


def test_the_installed_command_names_the_extra_that_it_lacks(environment):
    done = ran(environment / "bin/canal-group", "status", "-d", "shop", status=1)
    assert done.stderr == (
        "canal-group needs typer, which is not installed: pip install 'canal-group[server]'.\n"
    )


@pytest.mark.soak
def test_a_wheel_of_the_sdist_is_the_same(wheel, tmp_path):
    folder = sources(tmp_path, "*.so")
    ran(sys.executable, "-c", "import setuptools.build_meta as b; b.build_sdist('dist')", cwd=folder)
    (sdist,) = (folder / "dist").iterdir()
    build = ("--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", tmp_path / "wheel")
    ran(sys.executable, "-m", "pip", "wheel", *build, sdist, cwd=tmp_path)
    (made,) = (tmp_path / "wheel").iterdir()
    assert content(made) == content(wheel)
