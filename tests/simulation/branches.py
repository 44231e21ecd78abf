"""Branches of the deciding code: where they are, and how often each was taken.

Modules are compiled with a count in each branch: a function is entered, a condition holds or not, a loop goes
round or ends, an error is caught, a case matches, `x if y else z` gives x or z. That needs no tracing, so
seeds run nearly as fast as without. Not counted: what `assert_never` and `assert` exclude, conditions of
comprehensions, and which operand of `and` and `or` decides.
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

_COUNT = "__count__"
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Key(NamedTuple):
    """Identifies a branch, wherever its lines are moved to."""

    file: str
    function: str
    #: the condition, error or case, and which way it went
    branch: str
    #: to tell equal ones of a function apart
    number: int = 1


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch in a file."""

    key: Key
    line: int
    #: index of the branch that it is in; a branch that was never taken hides those in it
    within: int | None

    def __str__(self) -> str:
        return f"{self.key.file}:{self.line}: {self.key.function}: {self.key.branch}"


class Counted(ast.NodeTransformer):
    """A module's tree with a count in each branch.

    Args:
        source: its text.
        file: its path, as it is printed.
    """

    def __init__(self, source: str, file: str) -> None:
        self.branches: list[Branch] = []
        self._file = file
        self._names: list[str] = []
        self._within: int | None = None
        self.tree = ast.fix_missing_locations(self.visit(ast.parse(source)))

    # ---- what has branches -----------------------------------------------------------------------------

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        """Name what is in a class."""
        self._names.append(node.name)
        node.body = self._all(node.body)
        self._names.pop()
        return node

    def _function(self, node: _Function) -> _Function:
        self._names.append(node.name)
        first = ast.get_docstring(node, clean=False) is not None
        if not _says_nothing(node.body[first:]):
            node.body[first:] = self._taken(node, "entered", node.body[first:])
        self._names.pop()
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = _function  # noqa: N815 - ast's names

    def visit_If(self, node: ast.If) -> ast.If:
        """Count both ways."""
        text = f"if {ast.unparse(node.test)}"
        node.test = self.visit(node.test)
        node.body = self._taken(node, text, node.body)
        node.orelse = self._taken(node, f"{text}: not", node.orelse)
        return node

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> ast.stmt:
        endless = isinstance(node, ast.While) and isinstance(node.test, ast.Constant)
        about = node.test if isinstance(node, ast.While) else node.iter
        text = f"loop {ast.unparse(about)}"
        if isinstance(node, ast.While):
            node.test = self.visit(node.test)
        else:
            node.iter = self.visit(node.iter)
        if not endless:
            node.body = self._taken(node, text, node.body)
            node.orelse = self._taken(node, f"{text}: ends", node.orelse)
        else:
            node.body = self._all(node.body)
        return node

    visit_For = visit_AsyncFor = visit_While = _loop  # noqa: N815 - ast's names

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.ExceptHandler:
        """Count what is caught."""
        caught = ast.unparse(node.type) if node.type is not None else ""
        node.body = self._taken(node, f"except {caught}", node.body)
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.match_case:
        """Count the case, unless types exclude it."""
        if "assert_never" not in ast.unparse(node.body[0]):
            node.body = self._taken(node.pattern, f"case {ast.unparse(node.pattern)}", node.body)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.IfExp:
        """Count both values."""
        text = f"{ast.unparse(node.body)} if {ast.unparse(node.test)}"
        node.test = self.visit(node.test)
        node.body = self._given(node, text, node.body)
        node.orelse = self._given(node, f"{text}: not", node.orelse)
        return node

    # ---- counting --------------------------------------------------------------------------------------

    def _all(self, body: list[ast.stmt]) -> list[ast.stmt]:
        return [self.visit(statement) for statement in body]

    def _branch(self, node: Any, text: str) -> int:
        function, index = ".".join(self._names), len(self.branches)
        text = " ".join(text.split())
        equal = sum(each.key[:3] == (self._file, function, text) for each in self.branches)
        key = Key(self._file, function, text, equal + 1)
        self.branches.append(Branch(key, node.lineno, self._within))
        return index

    def _taken(self, node: Any, text: str, body: list[ast.stmt]) -> list[ast.stmt]:
        before, self._within = self._within, self._branch(node, text)
        counted = [ast.copy_location(ast.Expr(_count(self._within)), node), *self._all(body)]
        self._within = before
        return counted

    def _given(self, node: ast.expr, text: str, value: ast.expr) -> ast.expr:
        before, self._within = self._within, self._branch(node, text)
        both = ast.Tuple([_count(self._within), self.visit(value)], ast.Load())
        self._within = before
        return ast.copy_location(ast.Subscript(both, ast.Constant(1), ast.Load()), node)


def _count(index: int) -> ast.expr:
    return ast.Call(ast.Name(_COUNT, ast.Load()), [ast.Constant(index)], [])


def _says_nothing(body: Sequence[ast.stmt]) -> bool:
    return all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in body)


class Counts(importlib.abc.MetaPathFinder):
    """Counts the branches of modules that are imported while it is in `sys.meta_path`.

    Args:
        root: the folder of the code.
        paths: its files and folders whose branches are counted.
        prefix: of its modules' names.
    """

    def __init__(self, root: Path, paths: Sequence[str], prefix: str = "") -> None:
        self._root, self._paths, self._prefix = root, paths, prefix
        #: by file
        self.branches: dict[str, list[Branch]] = {}
        self._taken: dict[str, list[int]] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module whose branches are counted; None for any other."""
        spec = PathFinder.find_spec(name, path, target)
        origin = spec.origin if spec is not None else None
        if origin is None or not origin.endswith(".py") or not Path(origin).is_relative_to(self._root):
            return None
        file = Path(origin).relative_to(self._root).as_posix()
        if not any(file == each or file.startswith(f"{each}/") for each in self._paths):
            return None
        return spec_from_file_location(name, origin, loader=_Loader(name, origin, file, self))

    def count(self, file: str, branches: list[Branch]) -> Callable[[int], None]:
        """Count these branches of a file, too; return the function that counts one of them."""
        all_branches, taken = self.branches.setdefault(file, []), self._taken.setdefault(file, [])
        first = len(all_branches)
        all_branches += branches
        taken += [0] * len(branches)

        def count(index: int) -> None:
            taken[first + index] += 1

        return count

    def count_table(self, file: str, name: str) -> None:
        """Count how often each entry of a module's dictionary is looked up."""
        module = importlib.import_module(self._prefix + file.removesuffix(".py").replace("/", "."))
        table = getattr(module, name)
        lines = (self._root / file).read_text(encoding="utf-8").splitlines()
        line = next(number for number, text in enumerate(lines, 1) if text.startswith(name))
        texts = [", ".join(map(str, key)) for key in table]
        count = self.count(file, [Branch(Key(file, name, text), line, None) for text in texts])
        setattr(module, name, _Table(table, count))

    def collect(self) -> dict[str, list[int]]:
        """Return how often each branch was taken since the last call, by file."""
        taken = {file: list(counts) for file, counts in self._taken.items()}
        for counts in self._taken.values():
            counts[:] = [0] * len(counts)
        return taken


class _Loader(SourceFileLoader):
    """Runs a module's code with counts."""

    def __init__(self, name: str, path: str, file: str, counts: Counts) -> None:
        super().__init__(name, path)
        self._file, self._counts = file, counts

    def exec_module(self, module: ModuleType) -> None:
        counted = Counted(Path(self.path).read_text(encoding="utf-8"), self._file)
        setattr(module, _COUNT, self._counts.count(self._file, counted.branches))
        exec(compile(counted.tree, self.path, "exec", dont_inherit=True), module.__dict__)


class _Table(dict[Any, Any]):
    """A dictionary that counts look-ups."""

    def __init__(self, table: dict[Any, Any], count: Callable[[int], None]) -> None:
        super().__init__(table)
        self._indexes = {key: index for index, key in enumerate(table)}
        self._count = count

    def __getitem__(self, key: Any) -> Any:
        self._count(self._indexes[key])
        return super().__getitem__(key)
