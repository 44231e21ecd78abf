"""A setting's default is declared once, in `conf`: no field and no parameter of other code repeats it."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from canal_group import conf
from canal_group.conf.load import PRESETS, load_preset
from canal_group.conf.value import Settings

ROOT = Path(__file__).parents[3]
ROOMS = ("actors", "binlog", "canal_group", "merge", "programs")
#: name in other code -> that of the setting, where it is not the same but for the unit
OTHER_NAMES = {
    "bytes_max": "chunk_bytes_max",
    "rows_max": "chunk_rows_max",
    "chars_max": "statement_chars_max",
    "count_max": "client_ids_max",
}
UNITS_US = {"us": 1, "ms": 1_000, "s": 1_000_000}
#: defaults of both a consumer, which imports no settings, and of `conf`
SHARED = "canal_group.merge.well_known"
#: parameters that are named as a setting and are none, with the reason
OTHERS = {
    ("actors/transport/rpc_server.py", "host"): "of a server that only this machine reaches",
    ("canal_group/client/consumer.py", "bytes_max"): "of an offset range",
    ("merge/values/offset_range.py", "bytes_max"): "of an offset range",
    ("binlog/snapshot/page_reader.py", "bytes_max"): "of a page",
    ("canal_group/gateway/discovery.py", "session_timeout_s"): "of a consumer's own session",
    ("canal_group/spark/options.py", "partitions"): "parts of an offset range",
    ("canal_group/zookeeper/login.py", "verify"): "of a consumer's own connection",
}


def settings_classes(base: type[Settings] = Settings) -> Iterator[type[Settings]]:
    for module in pkgutil.walk_packages(conf.__path__, "canal_group.conf."):
        importlib.import_module(module.name)
    for each in base.__subclasses__():
        # An output declares its own settings beside itself.
        if each.__module__.startswith("canal_group.conf."):
            yield each
        yield from settings_classes(each)


def plain(value: Any) -> bool:
    """Return whether it is a number or text that says more than "none"."""
    return isinstance(value, int | float | str) and bool(value)


@cache
def defaults() -> Mapping[str, set[tuple[str, Any]]]:
    """Return by stem of a setting's name: the unit, and each default that the model or a preset has."""
    by_name: dict[str, set[tuple[str, Any]]] = {}

    def add(name: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for key, each in value.items():
                add(key, each)
        elif plain(value):
            stem, unit = parted(name)
            by_name.setdefault(stem, set()).add((unit, value))

    for settings in settings_classes():
        for name, each in settings.model_fields.items():
            if not each.is_required():
                add(name, each.get_default(call_default_factory=True))
    for preset in PRESETS:
        add(preset, load_preset(preset))
    return by_name


def parted(name: str) -> tuple[str, str]:
    """Return a name's stem and its unit of time; empty: it has none."""
    stem, _, unit = name.rpartition("_")
    return (stem, unit) if stem and unit in UNITS_US else (name, "")


def is_setting(name: str, value: Any) -> bool:
    """Return whether a default is that of a setting with the name, maybe in another unit."""
    for stem, unit in map(parted, {name, OTHER_NAMES.get(name, name)}):
        for its_unit, default in defaults().get(stem, ()):
            if isinstance(value, str | bool) or isinstance(default, str | bool):
                same = (type(value), value) == (type(default), default)
            else:
                same = value * UNITS_US.get(unit, 1) == default * UNITS_US.get(its_unit, 1)
            if same and bool(unit) == bool(its_unit):
                return True
    return False


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def constant(node: ast.expr | None, file: Path) -> Any:
    """Return the value of a default, through names of constants; None if it is not a literal."""
    match node:
        case ast.Name(id=name):
            return named(name, file)
        case ast.Call(func=ast.Name(id="field"), keywords=keywords):
            return next((constant(each.value, file) for each in keywords if each.arg == "default"), None)
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            return member(owner, name, file)
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(operand=operand) | ast.BinOp(left=operand):
            right = constant(node.right, file) if isinstance(node, ast.BinOp) else 0
            operands = {"left": constant(operand, file), "right": right}
            return None if None in operands.values() else evaluated(node, operands)
        case _:
            return None


def evaluated(node: ast.UnaryOp | ast.BinOp, operands: dict[str, Any]) -> Any:
    """Return an operation of constants."""
    left, right = (ast.Name(name, ast.Load()) for name in operands)
    made: ast.expr = (
        ast.UnaryOp(node.op, left) if isinstance(node, ast.UnaryOp) else ast.BinOp(left, node.op, right)
    )
    return eval(compile(ast.fix_missing_locations(ast.Expression(made)), "default", "eval"), operands)


def member(owner: str, name: str, file: Path) -> Any:
    """Return the value of an enum's member; None if it is something else."""
    for each in parsed(file).body:
        match each:
            case ast.ClassDef(name=found, body=body) if found == owner:
                values = {
                    ast.unparse(part.targets[0]): part.value for part in body if isinstance(part, ast.Assign)
                }
                return constant(values.get(name), file)
            case ast.ImportFrom(module=str(module), names=names) if any(of.name == owner for of in names):
                source = ROOT.joinpath(*module.split(".")).with_suffix(".py")
                return member(owner, name, source) if source.is_file() else None
    return None


def named(name: str, file: Path) -> Any:
    """Return the value of a constant; None if it is shared with `conf`, or something else."""
    for each in parsed(file).body:
        match each:
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                return constant(value, file)
            case ast.AnnAssign(target=ast.Name(id=target), value=value) if target == name:
                return constant(value, file)
            case ast.ImportFrom(module=str(module), names=names) if any(of.name == name for of in names):
                source = ROOT.joinpath(*module.split(".")).with_suffix(".py")
                return named(name, source) if module != SHARED and source.is_file() else None
    return None


def given_defaults(tree: ast.Module) -> Iterator[tuple[int, str, ast.expr | None]]:
    """Yield line, name and default of each field of a class and of each parameter."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(body=body):
                for each in body:
                    if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                        yield each.lineno, each.target.id, each.value
            case ast.FunctionDef(args=args) | ast.AsyncFunctionDef(args=args) | ast.Lambda(args=args):
                placed = [*args.posonlyargs, *args.args]
                yield from (
                    (each.lineno, each.arg, default)
                    for each, default in [
                        *zip(placed[len(placed) - len(args.defaults) :], args.defaults, strict=True),
                        *zip(args.kwonlyargs, args.kw_defaults, strict=True),
                    ]
                )


def repeated(file: Path, tree: ast.Module) -> list[str]:
    """Return a line for each default of a file that repeats one of `conf`."""
    return [
        f"{file}:{line}: {name} = {value!r}"
        for line, name, default in given_defaults(tree)
        if plain(value := constant(default, file)) and is_setting(name, value)
    ]


def test_no_default_is_declared_twice():
    lines = []
    for file in sorted(file for room in ROOMS for file in (ROOT / room).rglob("*.py")):
        exempt = {name for where, name in OTHERS if where == str(file.relative_to(ROOT))}
        lines += [line for line in repeated(file, parsed(file)) if line.split()[1] not in exempt]
    assert lines == [], "take it from `conf`: pass the settings, or make the parameter required"


@pytest.mark.parametrize(
    "planted",
    [
        "@dataclass\nclass Twin:\n    lease_s: float = 10.0",
        "@dataclass\nclass Twin:\n    lease_us: int = 10_000_000",
        "@dataclass\nclass Twin:\n    chunk_bytes_max: int = field(default=4 << 20)",
        "class Limits:\n    bytes_max: int = 4 << 20",
        "def read(*, heartbeat_ms: int = 100): ...",
        "def read(heartbeat_s: float = 0.1): ...",
        "async def store(size=1 << 14): ...",
        "MODE = 'memory'\ndef store(mode=MODE): ...",
        "from canal_group.merge.values.loss import Purged\ndef begin(purged=Purged.FAIL): ...",
        "def connect(*, flush_s=1): ...",
        "_SECOND_US = 1_000_000\nFALLBACK_US = 60 * _SECOND_US\ndef read(*, fallback_us=FALLBACK_US): ...",
        "def connect(*, verify: bool = True): ...",
        (
            "from canal_group.binlog.grammar.xa import XA_BYTES_MAX\nBYTES = 16 << 20\n"
            "def batch(bytes_max=BYTES): ..."
        ),
    ],
)
def test_a_planted_default_is_found(planted: str, tmp_path: Path):
    file = tmp_path / "planted.py"
    file.write_text(planted)
    assert len(repeated(file, parsed(file))) == 1


@pytest.mark.parametrize(
    "allowed",
    [
        "def read(*, heartbeat_ms: int): ...",
        "def read(*, heartbeat_ms: int = 0): ...",
        "def read(heartbeat_ms: int | None = None): ...",
        "from canal_group.merge.well_known import PREFIX\ndef connect(prefix=PREFIX): ...",
        "def poll(lease_s=1.5): ...",
    ],
)
def test_other_assignments_are_not_second_defaults(allowed: str, tmp_path: Path):
    file = tmp_path / "allowed.py"
    file.write_text(allowed)
    assert repeated(file, parsed(file)) == []
