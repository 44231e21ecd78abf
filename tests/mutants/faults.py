"""Faults: possible errors in a function, as edits of its syntax tree.

Code that changes no decision is excluded: assertions, messages (f-strings, raised errors, hints), text for
people (`__str__`, `describe`), annotations, and assignments without which a name would not exist.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

#: an operator, and its replacement
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
#: a function or method, and its replacement
CALLS = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "minimum": "maximum",
    "maximum": "minimum",
    "sorted": "list",
    "reversed": "iter",
}
#: functions whose results are read by people
FOR_PEOPLE = ("__str__", "__repr__", "describe", "_describe", "hint", "_hint")
#: arguments that people read, or that control checks or copying and not the result
ASIDE = {"hint", "message", "reason", "strict", "copy", "safe", "zero_copy_only"}
#: parts of a node that change no decision
APART = {"annotation", "returns", "decorator_list", "type_params"}

Function = ast.FunctionDef | ast.AsyncFunctionDef
_TRUE, _FALSE = ast.Constant(value=True), ast.Constant(value=False)


@dataclass
class Edit:
    """One part of a node, and its replacement."""

    node: ast.AST
    part: str
    index: int | None
    now: Any

    def swap(self) -> None:
        """Swap the part and its replacement; a second swap undoes it."""
        if self.index is None:
            was = getattr(self.node, self.part)
            setattr(self.node, self.part, self.now)
        else:
            parts = getattr(self.node, self.part)
            was, parts[self.index] = parts[self.index], self.now
        self.now = was


def edits(function: Function) -> Iterator[tuple[tuple[Any, ...], Edit]]:
    """Yield (enclosing nodes, edit) for each fault; the statement is the first of the nodes."""
    known = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    tells = isinstance(function.returns, ast.Name) and function.returns.id == "bool"
    yield from _edits_in((function,), known, tells=tells)


def _edits_in(
    around: tuple[ast.AST, ...], known: set[str], *, tells: bool
) -> Iterator[tuple[tuple[Any, ...], Edit]]:
    node = around[-1]
    for part, index, child in _parts(node):
        for now in _replacements(node, part, child, known, tells=tells):
            yield (child,) if isinstance(child, ast.stmt) else around, Edit(node, part, index, now)
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            known.add(child.id)
        if not _for_people(child):
            inside = (child,) if isinstance(child, ast.stmt) else (*around, child)
            yield from _edits_in(inside, known, tells=tells)


def _parts(node: ast.AST) -> Iterator[tuple[str, int | None, ast.AST]]:
    fields = list(ast.iter_fields(node))
    if isinstance(node, ast.Assign | ast.AugAssign):  # the value is evaluated before the name exists
        fields.reverse()
    for part, value in fields:
        if part in APART or (part == "args" and isinstance(node, Function | ast.Lambda)):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST):
                yield part, index, child


def _for_people(node: ast.AST) -> bool:
    """Return whether nothing below a node changes a decision."""
    return (
        isinstance(node, ast.Assert | ast.Raise | ast.JoinedStr | ast.pattern)
        or (isinstance(node, ast.keyword) and node.arg in ASIDE)
        or (isinstance(node, Function) and node.name.startswith(FOR_PEOPLE))
    )


def _replacements(
    node: ast.AST, part: str, child: ast.AST, known: set[str], *, tells: bool
) -> Iterator[ast.AST]:
    """Yield the replacements of a child of a node."""
    if type(child) in SWAPS:
        yield SWAPS[type(child)]()
    elif isinstance(child, ast.stmt):
        yield from _instead(child, known)
    elif isinstance(child, ast.expr):
        yield from _conditions(node, part)
        if isinstance(node, ast.Return):
            yield from _returned(child, tells=tells)
        yield from _values(child)


def _conditions(node: ast.AST, part: str) -> Iterator[ast.expr]:
    """Yield the replacements of a condition, but no endless loop: it would show nothing new."""
    if isinstance(node, ast.comprehension) and part == "ifs":
        yield _TRUE
    elif part in {"test", "guard"} and not isinstance(node, ast.Assert):
        if not isinstance(node, ast.While):
            yield _TRUE
        yield _FALSE


def _values(value: ast.expr) -> Iterator[ast.expr]:
    """Yield the replacements of a value."""
    match value:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.Constant(value=bool() as said):
            yield ast.Constant(value=not said)
        case ast.Constant(value=int() as number):
            yield ast.Constant(value=number + 1)
            if number:
                yield ast.Constant(value=number - 1)
        case ast.Subscript(value=array, slice=ast.Slice(lower=None, upper=None, step=ast.UnaryOp())):
            yield array
        case ast.Call():
            yield from _called(value)


def _returned(value: ast.expr, *, tells: bool) -> Iterator[ast.expr]:
    """Yield the replacements of a returned value."""
    if tells:
        if not isinstance(value, ast.Constant | ast.Compare | ast.UnaryOp):
            yield ast.UnaryOp(op=ast.Not(), operand=value)
    elif not (isinstance(value, ast.Constant) and value.value is None):
        yield ast.Constant(value=None)


def _called(call: ast.Call) -> Iterator[ast.expr]:
    """Yield the replacements of a called function."""
    match call.func:
        case ast.Name(id=name) if name in CALLS:
            keywords = [] if CALLS[name] == "list" else call.keywords
            yield ast.Call(func=ast.Name(id=CALLS[name], ctx=ast.Load()), args=call.args, keywords=keywords)
        case ast.Attribute(value=value, attr=name) if name in CALLS:
            func = ast.Attribute(value=value, attr=CALLS[name], ctx=ast.Load())
            yield ast.Call(func=func, args=call.args, keywords=call.keywords)


def _instead(statement: ast.stmt, known: set[str]) -> Iterator[ast.stmt]:
    """Yield the replacements of a statement."""
    match statement:
        case ast.Continue():
            yield ast.Break()
        # Without its last `super()` a method has another closure, and its code cannot be replaced.
        case ast.Expr(value=ast.Call()) if "super()" not in ast.unparse(statement):
            yield ast.Pass()
        case ast.AugAssign() | ast.Delete():
            yield ast.Pass()
        case ast.Assign(targets=targets) if all(_there(each, known) for each in targets):
            yield ast.Pass()


def _there(target: ast.expr, known: set[str]) -> bool:
    """Return whether a target of an assignment exists without the assignment."""
    if isinstance(target, ast.Tuple):
        return all(_there(each, known) for each in target.elts)
    return isinstance(target, ast.Attribute | ast.Subscript) or (
        isinstance(target, ast.Name) and target.id in known
    )
