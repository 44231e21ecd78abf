"""The body of a call: its fields as a JSON object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from merge.calls.call import Call
from merge.calls.values import ADMITTED, said

C = TypeVar("C", bound=Call[Any])
Reader = Callable[[str, Any], Any]


def body_of(call: Call[Any]) -> dict[str, Any]:
    """Return what JSON says of a call's fields; of one that is None, nothing."""
    kind: Any = type(call)
    values = ((name, getattr(call, name)) for name, _ in _readers(kind))
    return {name: said(value) for name, value in values if value is not None}


def call_of(kind: type[C], body: Mapping[str, Any]) -> C:
    """Return the call that a body describes; fields that whoever admits it says are not read.

    Raises:
        KeyError: a field is missing that has no default.
        UsageError: a value is not what its reader expects.
        ArithmeticError, AttributeError, LookupError, TypeError, ValueError: it is malformed.
    """
    declared: Any = kind
    needed = {each.name for each in fields(declared) if each.default is MISSING}
    return kind(
        **{
            name: reader(name, body[name])
            for name, reader in _readers(declared)
            if name in needed or name in body
        }
    )


@cache
def _readers(kind: Any) -> tuple[tuple[str, Reader], ...]:
    hints = get_type_hints(kind, include_extras=True)
    readers = {each.name: _reader(hints[each.name]) for each in fields(kind)}
    return tuple((name, reader) for name, reader in readers.items() if reader is not ADMITTED)


def _reader(hint: Any) -> Any:
    """Return the reader that an annotation names; `X | None` reads null as None."""
    if get_origin(hint) is Annotated:
        return get_args(hint)[1]
    assert get_origin(hint) in {Union, UnionType}, f"{hint} has no reader"
    reader = next(_reader(each) for each in get_args(hint) if each is not type(None))
    return lambda name, value: None if value is None else reader(name, value)
