"""What a wheel has in it, and what it leaves in the repository."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from setuptools import find_packages
from typer.testing import CliRunner

from canal_group.merge.errors import UsageError
from canal_group.programs.command.cli import app
from canal_group.programs.demo.recorded_shards import FOLDER

ROOT = Path(__file__).parents[3]
ROOMS = {"actors", "binlog", "conf", "merge", "programs"}


@pytest.fixture
def settings():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def test_the_rooms_are_installed_and_nothing_that_tests_use(settings):
    packages = find_packages(str(ROOT), **settings["packages"]["find"])
    assert {name.partition(".")[0] for name in packages} == {"canal_group"}
    assert {f"canal_group.{room}" for room in ROOMS} <= set(packages)
    assert {"canal_group.programs.demo", "canal_group.programs.command"} <= set(packages)


def test_the_recorded_binlogs_are_installed(settings):
    (pattern,) = settings["package-data"]["canal_group.programs"]
    shipped = set((ROOT / "canal_group/programs").glob(pattern))
    assert shipped == {path for path in FOLDER.rglob("*") if path.is_file()} != set()


def test_the_demo_of_servers_is_a_sentence_where_they_are_not_installed():
    result = CliRunner().invoke(app, ["demo"])
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == (
        "The demo that starts database servers is not installed. Read recorded binlogs with --files, or run"
        " `make demo` in the project's repository."
    )
