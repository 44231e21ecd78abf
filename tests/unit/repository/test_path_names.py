"""A name joins a path through `file_name`, so that no name from outside leads out of its folder.

A join is a `/` after a path, a part of `Path(...)`, `joinpath` or `os.path.join`, a name of `with_name`, or a
text that is put together inside `open(...)` or `Path(...)`. What is joined has to be a constant, or a call of
`file_name`. `SAFE` lists every other one, with the reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = ("actors", "binlog", "canal_group", "conf", "merge", "programs")
#: what the left side of a `/` has in it if it is a path: a division of numbers has none of them
PATH = re.compile(
    r"folder|path|parent|Path\(|root|home|cache|\bdir|\bfile|\brelay\b|_data\(|\bbase\b", re.IGNORECASE
)
CONSTANT = re.compile(r"[A-Za-z_.]*\b_?[A-Z][A-Z_0-9]*")
JOINS = ("joinpath", "with_name", "with_stem", "with_suffix")
OPENS = ("Path", "open")

#: (file, what is joined) -> where the name comes from
SAFE = {
    ("actors/admission/audit_log.py", "self._file.name + '.1'"): "the path's own name",
    ("actors/driver/ray_private.py", "f'{name}-12345678'"): "made of the user's id",
    ("actors/driver/ray_private.py", "name"): "made of the user's id",
    ("actors/driver/spare_process.py", "f'/proc/{pid}/cmdline'"): "a process id",
    ("actors/driver/spare_process.py", "f'/proc/{raylet.process.pid}/task'"): "a process id",
    ("actors/meta/file.py", "f'{destination}@epoch.json'"): "compared with NAME and a length before",
    ("actors/meta/file.py", "f'{file.name}.lock'"): "the path's own name",
    ("actors/meta/file.py", "f'{self._stem(key.kind)}{key.name}.json'"): "`Key` compares the name with NAME",
    ("actors/process/durable.py", "file.name + '.tmp'"): "the path's own name",
    ("actors/sink/table_rule.py", "self.renamed.get(name, column.name)"): "a column of Arrow, not a path",
    ("binlog/archive/archive.py", "name"): "the folder lists the name",
    ("binlog/archive/disk.py", "f'{file.name}-{number}.{why}'"): "the path's own name",
    ("binlog/archive/disk.py", "f'{file.name}.tmp'"): "the path's own name",
    ("binlog/archive/disk.py", "f'{file.name}.{why}'"): "the path's own name",
    ("binlog/archive/recovery.py", "name"): "the folder lists the name",
    (
        "canal_group/gateway/operator_token.py",
        "f'{target.name}.{secrets.token_hex(4)}'",
    ): "the path's own name",
    ("conf/archive/archive_settings.py", "value"): "a path in the operator's settings",
    ("conf/listeners/admission.py", "name"): "compared with `is_name` before the file is read",
    ("conf/listeners/admission.py", "value"): "refused if it has `..` or leads out of the folder",
    ("conf/load.py", "f'{name}.yaml'"): "a file of the package",
    ("conf/value.py", "value"): "a path in the operator's settings",
    ("programs/migration/secrets.py", "f'{path.stem}-{number}'"): "the path's own name",
    ("programs/output/sinks/lines.py", "f'{self._position_path.name}.part'"): "the path's own name",
    ("programs/output/sinks/lines.py", "f'{settings.path.name}.position'"): "the path's own name",
}


def modules() -> Iterator[Path]:
    """Yield the product's modules; the links in `canal_group/` lead to the rooms beside it."""
    for room in ROOMS:
        yield from _below(ROOT / room)


def _below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            yield from _below(path)
        elif path.suffix == ".py":
            yield path


def joined(source: str) -> list[str]:
    """Return the parts that a module joins to paths and that are neither constants nor checked."""
    found = (part for node in ast.walk(ast.parse(source)) for part in _parts(node))
    return [ast.unparse(part) for part in found if not _is_checked(part)]


def _parts(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        if isinstance(node.right, ast.JoinedStr) or PATH.search(ast.unparse(node.left)):
            yield node.right
    elif isinstance(node, ast.Call) and node.args:
        name = ast.unparse(node.func).rpartition(".")[2]
        if name in JOINS or ast.unparse(node.func).endswith("path.join"):
            yield from node.args
        elif name in OPENS:
            yield from node.args[1:] if name == "Path" else ()
            if isinstance(node.args[0], ast.JoinedStr) or (
                isinstance(node.args[0], ast.BinOp) and isinstance(node.args[0].op, ast.Add)
            ):
                yield node.args[0]


def _is_checked(part: ast.expr) -> bool:
    if isinstance(part, ast.Constant):
        return True
    if isinstance(part, ast.Call):
        return ast.unparse(part.func) == "file_name"
    if isinstance(part, ast.JoinedStr):
        return all(
            _is_checked(each.value if isinstance(each, ast.FormattedValue) else each) for each in part.values
        )
    return CONSTANT.fullmatch(ast.unparse(part)) is not None


def test_a_name_joins_a_path_through_file_name():
    found = {
        (str(path.relative_to(ROOT)), part) for path in modules() for part in joined(path.read_text("utf-8"))
    }
    assert found - SAFE.keys() == set(), "check these with `file_name`"
    assert SAFE.keys() - found == set(), "these are no longer joined: remove them"


@pytest.mark.parametrize(
    "source",
    [
        "folder / name",
        "self._folder / f'{entry.name}.tmp'",
        "Path(folder, name)",
        "Path(f'{folder}/{name}')",
        "open(folder + name)",
        "os.open(f'{folder}/{name}', flags)",
        "os.path.join(FOLDER, name)",
        "path.with_name(rotate.file)",
        "folder.joinpath(name)",
    ],
)
def test_each_way_to_join_a_name_is_noticed(source):
    assert joined(source)


@pytest.mark.parametrize(
    "source", ["folder / file_name(name)", "folder / MANIFEST", "root / 'a'", "rows / took_s"]
)
def test_constants_checked_names_and_divisions_pass(source):
    assert joined(source) == []
