"""A number from outside is read within bounds by one function, and nothing goes round it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from canal_group.merge.calls.call import CALLS
from canal_group.merge.calls.call_field import fields_of
from canal_group.merge.calls.values import wait_s
from canal_group.merge.values.header import HEADER

ROOT = Path(__file__).parents[3]
#: rooms that read what callers, other processes and stores say, and the functions that read it
ROOMS = ("actors", "canal_group", "merge")
#: names of objects of JSON: others may be headers, whose fields have 64 bits
OBJECTS = {"value", "body", "request", "ticket", "fields"}
#: members of answers that may be negative, or fractions of a second
OTHERS = {"skew_us", "retry_after_s", "lease_s"}


def modules(*rooms: str) -> dict[str, str]:
    files = (file for room in rooms for file in sorted((ROOT / room).rglob("*.py")))
    return {str(file.relative_to(ROOT)): file.read_text() for file in files}


def member(node: ast.expr) -> str | None:
    """Return the name of the member of a JSON object that an expression is; None: it is not one."""
    match node:
        case ast.BoolOp(values=[first, *_]):
            return member(first)
        case ast.Subscript(value=ast.Name(id="match")):
            return None
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(field))):
            return None if field in HEADER.names and name not in OBJECTS else field
        case ast.Subscript(slice=ast.Constant(value=str(field))):
            return None if field in HEADER.names else field
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(name)), *_]):
            return name
    return None


def conversions(text: str) -> list[str]:
    """Return the members of JSON objects that `int` or `float` reads, without fields of headers."""
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and len(node.args) == 1)
    names = (
        member(call.args[0])
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id in {"int", "float"}
    )
    return [name for name in names if name is not None and name not in OTHERS]


@pytest.mark.parametrize(
    "text", ['int(value["epoch"])', 'int(body.get("rows") or 0)', 'float(request["timeout_s"])']
)
def test_a_way_round_is_noticed(text):
    assert conversions(text)


def test_no_member_of_an_object_is_read_by_int():
    found = {file: names for file, text in modules(*ROOMS).items() if (names := conversions(text))}
    assert found == {}


@pytest.mark.parametrize(
    ("what", "room", "files"),
    [
        # The bodies and tickets of all requests.
        (r"json\.loads?\(", "actors/gateway", ["actors/gateway/gateway.py"]),
        (r"json\.loads?\(", "merge/calls", []),
        # Positions of callers, and of stores.
        (r"Position\(\*\*", "merge", []),
    ],
)
def test_requests_and_positions_are_read_in_one_file(what, room, files):
    assert [file for file, text in modules(room).items() if re.search(what, text)] == files


@pytest.mark.parametrize("kind", CALLS.values(), ids=CALLS.keys())
def test_each_number_of_a_call_has_bounds(kind: type[Any]):
    for field in fields_of(kind):
        if field.type is int:
            assert field.bounds is not None, field.name
        assert field.type is not float or field.reader is wait_s, field.name
