"""The body of a call: its fields as a JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from canal_group.merge.calls.call import Call
from canal_group.merge.calls.call_field import fields_of
from canal_group.merge.calls.values import said

C = TypeVar("C", bound=Call[Any])

#: what `call_of` raises for a value that is malformed, beside UsageError
MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def body_of(call: Call[Any]) -> dict[str, Any]:
    """Return a call's fields as JSON values; of one that need not be given and is None, nothing."""
    values = ((each, getattr(call, each.name)) for each in fields_of(type(call)))
    return {each.name: said(value) for each, value in values if value is not None or each.is_needed}


def call_of(kind: type[C], body: Mapping[str, Any]) -> C:
    """Return the call that a body describes; fields that whoever admits it says are not read.

    Raises:
        KeyError: a field is missing that has no default.
        UsageError: a value is not what its reader expects.
        ArithmeticError, AttributeError, LookupError, TypeError, ValueError: it is malformed.
    """
    given = (each for each in fields_of(kind) if each.is_needed or each.name in body)
    return kind(**{each.name: each.read(body[each.name]) for each in given})
