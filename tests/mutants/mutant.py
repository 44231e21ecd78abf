"""Mutants: a module with one small fault in a function, see `faults`.

Code that runs at import (constants, defaults, fields) is not changed.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

from mutants.faults import FOR_PEOPLE, Edit, Function, edits

#: a mutant is named by the largest part of its statement that is no longer than this
SHOWN_CHARS = 90
REMOVED = "(removed)"


#: (qualified name, first line) of a function, within its file
FunctionKey = tuple[str, int]


@dataclass(frozen=True)
class Key:
    """The identity of a mutant, which stays valid while its function is unchanged; line numbers would not."""

    file: str
    function: str
    was: str
    now: str
    #: 1 for the first of several with the same name
    number: int = 1

    def __str__(self) -> str:
        again = f"  (no. {self.number})" if self.number > 1 else ""
        return f"{self.file} {self.function}: {self.was}  ->  {self.now}{again}"


@dataclass
class Mutant:
    """A fault that can be put into a function of a module."""

    key: Key
    line: int
    module: Module
    function: FunctionKey
    edit: Edit

    def code(self) -> CodeType:
        """Return the code of the function with the fault in it."""
        self.edit.swap()
        try:
            return self.module.compiled()[self.function]
        finally:
            self.edit.swap()


@dataclass
class Module:
    """A module as a syntax tree.

    Args:
        path: its file.
        file: its name in names of mutants.
    """

    path: Path
    file: str
    tree: ast.Module = field(init=False)

    def __post_init__(self) -> None:
        self.tree = ast.parse(self.path.read_bytes())

    def compiled(self) -> dict[FunctionKey, CodeType]:
        """Return the code of each function of the module and of its classes."""
        found: dict[FunctionKey, CodeType] = {}
        classes = {name for name, _ in _scopes(self.tree, ast.ClassDef)}
        waiting = [compile(ast.fix_missing_locations(self.tree), str(self.path), "exec", dont_inherit=True)]
        while waiting:
            for code in (each for each in waiting.pop().co_consts if isinstance(each, CodeType)):
                if code.co_qualname in classes:
                    waiting.append(code)
                elif not code.co_name.startswith("<"):
                    found[key_of(code)] = code
        return found

    def names(self) -> dict[FunctionKey, str]:
        """Return each function's name in names of mutants."""
        functions = _scopes(self.tree, Function)
        return {_function_key(name, function): _named(name, function) for name, function in functions}

    def mutants(self) -> list[Mutant]:
        """Return every mutant of the module, in the order of its lines."""
        found, seen = [], Counter[tuple[str, str, str]]()
        for qualified, function in _scopes(self.tree, Function):
            name = _named(qualified, function)
            if function.name.startswith(FOR_PEOPLE):
                continue
            for around, edit in edits(function):
                shown = next((node for node in around[:-1] if len(_text(node)) <= SHOWN_CHARS), around[-1])
                was = _text(shown)
                if isinstance(edit.now, ast.stmt):
                    now = REMOVED if isinstance(edit.now, ast.Pass) else _text(edit.now)
                else:
                    edit.swap()
                    now = _text(shown)
                    edit.swap()
                seen[name, was, now] += 1
                key = Key(self.file, name, was, now, seen[name, was, now])
                found.append(Mutant(key, around[0].lineno, self, _function_key(qualified, function), edit))
        return found


def key_of(code: CodeType) -> FunctionKey:
    """Return the key of a code object within its file."""
    return code.co_qualname, code.co_firstlineno


def _function_key(name: str, function: ast.FunctionDef) -> FunctionKey:
    return name, min([function.lineno, *(each.lineno for each in function.decorator_list)])


def _named(name: str, function: ast.FunctionDef) -> str:
    """Return a function's name; for functions named `_`, with the type that they are registered for."""
    last = function.args.args[-1:]
    if function.name != "_" or not last or last[0].annotation is None:
        return name
    return f"{name}({ast.unparse(last[0].annotation)})"


def _scopes(tree: ast.AST, kind: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (qualified name, node) of a module's functions or classes, including those inside classes."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, kind):
            yield f"{prefix}{node.name}", node
        if isinstance(node, ast.ClassDef):
            yield from _scopes(node, kind, f"{prefix}{node.name}.")


def _text(node: ast.AST) -> str:
    """Return a node's source on one line; a compound statement without its body."""
    if isinstance(node, ast.stmt):
        kept = {part: value for part, value in ast.iter_fields(node) if part not in _BODIES}
        bodies: dict[str, Any] = {part: [] for part in _BODIES if part in node._fields}
        node = ast.copy_location(type(node)(**kept, **bodies), node)
    return " ".join(ast.unparse(ast.fix_missing_locations(node)).split())


_BODIES = ("body", "orelse", "handlers", "finalbody", "cases")
