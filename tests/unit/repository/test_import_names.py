"""A module has one name: the folders at the repository's top are imported as parts of `canal_group` alone."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = ("actors", "binlog", "conf", "merge", "programs")
CODE = (*ROOMS, "benchmarks", "canal_group", "examples", "playground", "scripts", "tests")
SHELL = ("Makefile", ".ci/run", "scripts", "deploy", "docs", "README.md", "CONTRIBUTING.md")
PARTS = {
    room: {path.stem for path in (ROOT / room).iterdir() if path.suffix in {"", ".py", ".pyx", ".pxd"}}
    for room in ROOMS
}
#: the dotted name of a module, or of what is in it, not part of a path or a longer name
DOTTED = re.compile(rf"(?<![\w./\-])({'|'.join(ROOMS)})\.(\w+)")
IMPORT = re.compile(
    rf"^[ ]*(?:from ({'|'.join(ROOMS)})[.\w]* c?import |c?import ({'|'.join(ROOMS)})(?:[.,]|$))", re.MULTILINE
)


def files(*suffixes: str) -> Iterator[Path]:
    for folder in CODE:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes and "fixtures" not in path.parts:
                yield path


def dotted(text: str) -> list[str]:
    """Return the names of a room's modules in a text that do not begin with our package's."""
    return [match[0] for match in DOTTED.finditer(text) if match[2] in PARTS[match[1]]]


def in_code(text: str) -> list[str]:
    """Return those, and what a program in a text imports."""
    return dotted(text) + [match[0].strip() for match in IMPORT.finditer(text)]


def top_level(text: str) -> list[str]:
    """Return a Python file's imports from the rooms, or names in a string, without our package's name."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names if each.name.partition(".")[0] in ROOMS]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found += [node.module] if str(node.module).partition(".")[0] in ROOMS else []
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += in_code(node.value)
    return [str(each) for each in found]


@pytest.mark.parametrize(
    "code",
    [
        "import merge",
        "import conf.load",
        "from actors import ports",
        "def f():\n    from merge.errors import UsageError",
        "run('-m', 'programs.command.cli')",
        "patch('binlog.server.source.connect')",
        "code = '''\nimport sys\nfrom actors.driver import local_ray\n'''",
        '"""See `merge.errors`."""',
    ],
)
def test_a_name_at_the_top_is_noticed(code: str) -> None:
    assert top_level(code) != []


@pytest.mark.parametrize(
    "code",
    [
        "import canal_group.merge",
        "from canal_group import conf",
        "conf.folder",
        "'spark.conf.value'",
        "'merge.order_by'",
        "'conf/load.py'",
        "'binlog.000003'",
    ],
)
def test_other_names_are_not_ours(code: str) -> None:
    assert top_level(code) == []


def test_nothing_is_imported_by_a_name_at_the_top() -> None:
    paths = [path for path in files(".py", ".pyi") if path != Path(__file__)]
    assert {str(path): found for path in paths if (found := top_level(path.read_text()))} == {}


def test_nothing_compiled_is_either() -> None:
    assert {str(path): found for path in files(".pyx", ".pxd") if (found := in_code(path.read_text()))} == {}


def test_no_command_and_no_page_names_a_module_so() -> None:
    named = [ROOT / name for name in SHELL]
    paths = [path for each in named for path in (each.rglob("*") if each.is_dir() else [each])]
    texts = {
        path: path.read_text() for path in paths if path.suffix not in {".png", ".pyc"} and path.is_file()
    }
    assert {str(path): found for path, text in texts.items() if (found := dotted(text))} == {}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_a_link_in_the_package(room: str) -> None:
    link = ROOT / "canal_group" / room
    assert link.is_symlink()
    assert link.readlink() == Path("..") / room
    assert {path.name for path in (ROOT / "canal_group").iterdir() if path.is_symlink()} == set(ROOMS)


def test_no_module_is_loaded_under_two_names() -> None:
    """Those that serve, those of the command line, and their imports."""
    modules = ("actors.driver.server", "actors.gateway.gateway", "actors.group.group", "actors.shard.shard")
    names = ", ".join(f"canal_group.{name}" for name in (*modules, "programs.command.cli", "spark"))
    look = f"import sys; print(*{set(ROOMS)!r} & sys.modules.keys())"
    done = subprocess.run(
        [sys.executable, "-c", f"import {names}; {look}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.split() == []
