"""Extras: what the consumer's library does without, and what is said where one is not installed."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions as _packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import canal_group
from canal_group.extras import EXTRAS

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LIBRARY = {"kazoo", "numpy", "pyarrow"}
#: it reads the files of every distribution
packages_distributions = cache(_packages_distributions)
#: of canal_group, what has an extra of its own
APART = re.compile(r"canal_group\.(spark|ray_data|canal_protocol)\b")

#: hides what extras bring, as if it were not installed
HIDE = f"""
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {set(EXTRAS)}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
"""
COMMAND = "sys.argv[0] = 'canal-group'; from canal_group.programs.console_script import main; main()"


def run(code, *arguments, status=0):
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == status, done.stderr
    return done


def required(extra):
    """Return the requirements of an extra, and the other extras that it includes."""
    each = [Requirement(text) for text in PROJECT["optional-dependencies"][extra]]
    names = {canonicalize_name(one.name) for one in each if one.name != PROJECT["name"]}
    return names, {name for one in each if one.name == PROJECT["name"] for name in one.extras}


def brought(extra):
    """Return everything that an extra brings of those who are asked for."""
    names, others = required(extra)
    return names.union(*map(brought, others))


def test_the_library_asks_for_what_it_imports():
    assert {canonicalize_name(Requirement(each).name) for each in PROJECT["dependencies"]} == LIBRARY


def test_an_import_brings_none_of_the_heavy_modules():
    look = "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    before = "import sys, pyarrow.flight; before = set(sys.modules); "
    imported = run(f"{before}import canal_group; {look}").stdout.split()
    assert set(imported) - set(sys.stdlib_module_names) == {"canal_group"}


def modules(package):
    """Return the names of a package's modules."""
    folder = Path(package.__file__).parent
    paths = (path.relative_to(folder.parent).with_suffix("") for path in folder.rglob("*.py"))
    return [".".join(path.parts).removesuffix(".__init__") for path in paths]


def test_all_of_the_library_needs_its_dependencies_alone():
    names = [name for name in modules(canal_group) if not APART.match(name)]
    assert "canal_group.gateway.discovery" in names
    imports = f"import sys; before = set(sys.modules); import {', '.join(names)}"
    look = "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    imported = set(run(f"{HIDE}{imports}; {look}").stdout.split()) - set(sys.stdlib_module_names)
    assert imported & set(packages_distributions()) == LIBRARY | {"canal_group"}


def test_each_public_name_is_there_and_no_other():
    assert dir(canal_group) == canal_group.__all__
    typed = re.search(r"if TYPE_CHECKING:\n(.*?)\nelse:", Path(canal_group.__file__).read_text(), re.DOTALL)
    assert typed is not None
    imports = {}
    exec(re.sub(r"^    ", "", typed[1], flags=re.MULTILINE), imports)  # its own lines
    for name in canal_group.__all__:
        assert getattr(canal_group, name) is imports.pop(name)
    assert set(imports) == {"__builtins__"}
    with pytest.raises(AttributeError, match="module 'canal_group' has no attribute 'nothing'"):
        canal_group.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import canal_group.spark", "canal_group.spark needs pyspark, {}'canal-group[spark]'."),
        ("import canal_group.spark.source", "canal_group.spark needs pyspark, {}'canal-group[spark]'."),
        ("import canal_group.ray_data", "canal_group.ray_data needs ray, {}'canal-group[ray-data]'."),
    ],
)
def test_an_import_that_lacks_an_extra_names_it(code, said):
    last = run(HIDE + code, status=1).stderr.splitlines()[-1]
    assert last == "canal_group.extras.MissingExtraError: " + said.format(
        "which is not installed: pip install "
    )


def test_the_command_without_extras_names_the_one_to_install():
    done = run(HIDE + COMMAND, "status", "-d", "shop", status=1)
    assert done.stderr == (
        "canal-group needs typer, which is not installed: pip install 'canal-group[server]'.\n"
    )


@pytest.mark.parametrize(
    ("kind", "module", "extra"),
    [("kafka", "confluent_kafka", "kafka"), ("rabbitmq", "pika", "rabbitmq")],
)
def test_a_relay_without_the_library_of_its_output_names_the_extra(kind, module, extra):
    hide = HIDE.replace(str(set(EXTRAS)), str({module}))
    file = ROOT / "examples" / f"relay-{kind}.yaml"
    done = run(hide + COMMAND, "relay", "-c", str(file), status=1)
    assert done.stderr == (
        f"canal-group needs {module}, which is not installed: pip install 'canal-group[{extra}]'.\n"
    )


@pytest.mark.parametrize("hidden", ["ray", "pymysql", "sqlglot", "confluent_kafka", "pyspark"])
def test_the_command_line_reads_without_what_serves(hidden):
    """`canal-group[relay]`: whoever reads, relays or asks needs no server."""
    hide = HIDE.replace(str(set(EXTRAS)), str({hidden}))
    assert "relay" in run(hide + COMMAND, "--help").stdout


def test_a_server_without_ray_names_the_extra(tmp_path):
    hide = HIDE.replace(str(set(EXTRAS)), str({"ray"}))
    file = tmp_path / "shop.yaml"
    file.write_text(
        "preset: memory\ndestination: shop\nshards:\n"
        "  - {name: a, host: 127.0.0.1, port: 1, user: u, password_file: p}\n"
    )
    (tmp_path / "p").write_text("p")
    done = run(hide + COMMAND, "serve", "-c", str(file), status=1)
    assert done.stderr.splitlines()[-1] == (
        "canal-group needs ray, which is not installed: pip install 'canal-group[server]'."
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("module", EXTRAS)
def test_the_extra_that_is_named_brings_the_module(module):
    distributions = {canonicalize_name(name) for name in packages_distributions()[module]}
    assert distributions & brought(EXTRAS[module])


def test_each_module_of_an_extra_is_named_by_its_extra():
    named = {canonicalize_name(each) for name in EXTRAS for each in packages_distributions()[name]}
    for extra in ("kafka", "rabbitmq", "ray-data", "relay", "server", "spark"):
        assert required(extra)[0] - {"click"} <= named, extra


def test_all_is_every_extra_of_users():
    extras = set(PROJECT["optional-dependencies"]) - {"all", "dev", "examples"}
    assert brought("all") == set().union(*map(brought, extras))
    assert brought("all") <= brought("dev")
