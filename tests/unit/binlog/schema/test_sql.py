"""How values enter SQL: by the functions of one border, which a walk over the product's tree sees everywhere.

An expression is closed if it has constants, numbers and what the border returns, and no other value. The SQL
of each query is closed, and so is what functions return, and attributes hold, of which SQL is made.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canal_group.binlog.schema.sql import plain_text, quoted
from canal_group.merge.errors import PositionRefused

ROOT = Path(__file__).parents[4]
#: functions that run SQL at a source, and the index of the argument that has it
RUNS = {"query": 2, "query_one": 2, "_query": 0, "execute": 0, "PageQuery": 1}
#: functions that make a part of a statement of any value
BORDER = {"quoted", "quoted_table", "plain_text", "literal", "checked", "checked_condition", "range"}
#: functions, arguments and attributes that hold SQL
MADE = {"set_session", "probe", "selected", "select", "statement", "hint", "sql", "session", "assignment"}
MADE |= {"within", "after", "among", "prefix", "strict", "weak", "last", "_until", "_beyond", "not_less"}
MADE |= {
    "_equal",
    "_greater",
    "_not_less",
    "_less",
    "_not_greater",
    "_numbers",
    "_from",
    "_explain",
    "_status",
}
MADE |= {"where", "_where", "condition", "_condition", "_from", "_explain"}
MADE |= {"binlog_status_statement", "replicas_statement"}
#: SQL of the instance file's owner, what is made of the code's own names of variables, and a type's size
GIVEN = {"values", "variables", "detecting", "size"}
#: whose functions of these names return SQL
MODULES = {"page.py", "row_order.py", "selected_table.py", "table_index.py"}
MODULES |= {"source.py", "sql.py", "dump_request.py", "table_pages.py", "page_connection.py"}
NUMBERS = {"int", "int | None", "float", "bool"}
#: return a text of closed parts
JOINS = {"join", "format", "items", "str", "map", "tuple"}
#: the expressions of which one is made
PARTS = {
    ast.JoinedStr: lambda node: node.values,
    ast.BoolOp: lambda node: node.values,
    ast.FormattedValue: lambda node: [node.value],
    ast.Starred: lambda node: [node.value],
    ast.BinOp: lambda node: [node.left, node.right] if isinstance(node.op, ast.Add | ast.Mult) else [node],
    ast.IfExp: lambda node: [node.body, node.orelse],
    ast.List: lambda node: node.elts,
    ast.Tuple: lambda node: node.elts,
    ast.Dict: lambda node: [*node.keys, *node.values],
    ast.GeneratorExp: lambda node: [node.elt],
    ast.ListComp: lambda node: [node.elt],
    ast.DictComp: lambda node: [node.key, node.value],
    ast.Subscript: lambda node: [node.value],
}


def name_of(node):
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def assigned(node):
    """Yield name -> expression of the assignments below a node."""
    for each in ast.walk(node):
        targets, value = (
            getattr(each, "targets", [getattr(each, "target", None)]),
            getattr(each, "value", None),
        )
        value = getattr(each, "iter", value)
        for target in targets:
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and not hasattr(each, "iter"):
                yield from zip(map(name_of, target.elts), value.elts, strict=False)
            elif isinstance(target, ast.Tuple):
                counts = isinstance(value, ast.Call) and name_of(value.func) == "enumerate"
                for index, part in enumerate(target.elts):
                    yield name_of(part), ast.Constant(0) if counts and not index else value
            elif target is not None and value is not None:
                yield name_of(target), value


class Scope:
    """A function and its module: which values names have there."""

    def __init__(self, path, node, constants):
        self.path, self.node, self.constants = path, node, constants
        every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        self.arguments = {each.arg: each.annotation and ast.unparse(each.annotation) for each in every}
        self.values = defaultdict(list)
        for name, value in assigned(node):
            self.values[name].append(value)

    def is_closed(self, node, seen=frozenset()):
        """Return whether an expression is closed."""
        if id(node) in seen:
            return True
        seen |= {id(node)}
        if isinstance(node, ast.Constant):
            return True
        if isinstance(node, ast.Call):
            return self._is_call_closed(node, seen)
        if isinstance(node, ast.Name | ast.Attribute):
            return self._is_name_closed(name_of(node), seen)
        parts = PARTS[type(node)](node) if type(node) in PARTS else [node]
        return node not in parts and all(self.is_closed(each, seen) for each in parts)

    def _is_call_closed(self, node, seen):
        name = name_of(node.func)
        if name in BORDER | MADE:
            return True
        made = name == "map" and name_of(node.args[0]) in BORDER | MADE
        receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        given = node.args[1:] if name == "map" else node.args
        return made or (name in JOINS and all(self.is_closed(each, seen) for each in [*receiver, *given]))

    def _is_name_closed(self, name, seen):
        if self.arguments.get(name) in NUMBERS or name in MADE | GIVEN:
            return True
        if name in self.arguments:
            return False
        values = self.values[name] or self.constants[self.path][name]
        values = values or [value for each in self.constants.values() for value in each.get(name, ())]
        return bool(values) and all(self.is_closed(each, seen) for each in values)


@cache
def scopes():
    """Return all functions of the modules that can talk to a source."""
    paths = [path for room in ("binlog", "actors", "programs") for path in (ROOT / room).rglob("*.py")]
    texts = {path.relative_to(ROOT): path.read_text() for path in sorted(paths)}
    modules = {
        path: ast.parse(text)
        for path, text in texts.items()
        if "server.source" in text or "pymysql" in text or {"server", "snapshot", "sql.py"} & {*path.parts}
    }
    constants = {path: defaultdict(list) for path in modules}
    for path, module in modules.items():
        for node in module.body:
            for name, value in assigned(node) if isinstance(node, ast.Assign | ast.AnnAssign) else ():
                constants[path][name].append(value)
    return [
        Scope(path, node, constants)
        for path, module in modules.items()
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef)
    ]


def test_no_query_has_a_value_that_did_not_pass_the_border():
    """An open one joins a value to SQL: let it enter by `canal_group.binlog.schema.sql` or `literal`."""
    opened, count = [], 0
    for scope in scopes():
        calls = (each for each in ast.walk(scope.node) if isinstance(each, ast.Call))
        for call in calls if scope.node.name not in RUNS else ():
            index = RUNS.get(name_of(call.func), len(call.args))
            if index < len(call.args):
                count += 1
                if not scope.is_closed(call.args[index]):
                    opened.append(f"{scope.path}:{call.lineno}: {ast.unparse(call)}")
    assert count > 40, "the walk sees the queries"
    assert not opened, "\n".join(opened)


def test_sql_that_is_returned_or_kept_is_closed():
    opened, counted, kept = [], set(), {"where", "_from", "_explain"}
    for scope in (each for each in scopes() if each.path.name in MODULES):
        for node in ast.walk(scope.node):
            held = isinstance(node, ast.Return) and scope.node.name in MADE
            held |= isinstance(node, ast.Assign) and name_of(node.targets[0]) in kept
            held |= isinstance(node, ast.keyword) and node.arg in {"where", "condition"}
            if held and node.value is not None:
                counted.add(scope.node.name)
                if not scope.is_closed(node.value):
                    opened.append(f"{scope.path}:{node.value.lineno}: {ast.unparse(node.value)}")
    assert {
        "select",
        "statement",
        "_beyond",
        "_equal",
        "selected",
        "probe",
        "read",
        "within",
        "session",
    } <= counted
    assert not opened, "\n".join(opened)


@given(st.text())
def test_a_quoted_name_ends_where_it_should(name):
    text = quoted(name)
    assert text[0] == text[-1] == "`"
    assert text[1:-1].replace("``", "") == name.replace("`", "")


@given(st.text())
def test_a_plain_text_has_no_character_that_ends_it(text):
    try:
        assert plain_text(text) == f"'{text}'"
    except PositionRefused:
        assert set(text) & {"'", '"', "`", "\\", "\x7f", *map(chr, range(32))}
    else:
        assert not set(text) & {"'", "\\", "\n"}


@pytest.mark.parametrize("file", ["x', 0) OR SLEEP(9) -- ", "a\\", "a\0"])
def test_a_name_of_a_file_that_is_sql_is_refused(file):
    with pytest.raises(PositionRefused, match="is not the name of a binlog file"):
        plain_text(file)
