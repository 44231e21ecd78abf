"""The type of an operator's answer: JSON is read as it, and described by it.

It is made of numbers, texts, `bool`, `None`, string enums, lists, dictionaries, `Any` and the typed
dictionaries of `canal_group.merge.calls.answers`. These may have more keys than they declare.
"""

from __future__ import annotations

from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints, is_typeddict

from canal_group.merge.calls.call import OperatorCall

R = TypeVar("R")

_NAMES: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    NoneType: "null",
    list: "array",
    dict: "object",
}


def answer_type(kind: type[OperatorCall[Any]]) -> Any:
    """Return the type of the answer that a call declares."""
    (base,) = kind.__orig_bases__  # type: ignore[attr-defined]
    return get_args(base)[0]


def read_answer(call: OperatorCall[R], value: Any) -> R:
    """Return an answer as the type that its call declares.

    Raises:
        KeyError: a key is missing.
        TypeError, ValueError: a value is not of its type.
    """
    return cast("R", _read(answer_type(type(call)), value))


def schema_of(hint: Any) -> dict[str, Any]:
    """Return the JSON schema of a type of answers."""
    if hint is Any:
        return {}
    if is_typeddict(hint):
        keys = get_type_hints(hint)
        return {
            "type": "object",
            "title": hint.__name__,
            "description": " ".join((hint.__doc__ or "").split()),
            "properties": {name: schema_of(each) for name, each in keys.items()},
            "required": [name for name in keys if name in hint.__required_keys__],
        }
    origin, parts = get_origin(hint) or hint, get_args(hint)
    if origin in {Union, UnionType}:
        return {"anyOf": [schema_of(each) for each in parts]}
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return {"type": "string", "enum": [each.value for each in hint]}
    schema: dict[str, Any] = {"type": _NAMES[origin]}
    if origin is list:
        schema["items"] = schema_of(parts[0])
    if origin is dict:
        schema["additionalProperties"] = schema_of(parts[1]) or True
    return schema


def _read(hint: Any, value: Any) -> Any:
    origin, parts = get_origin(hint) or hint, get_args(hint)
    read: Any
    if hint is Any:
        read = value
    elif is_typeddict(hint):
        read = _read_object(hint, _of(dict, value))
    elif origin in {Union, UnionType}:
        read = None if value is None else _read(next(each for each in parts if each is not NoneType), value)
    elif origin is list:
        read = [_read(parts[0], each) for each in _of(list, value)]
    elif origin is dict:
        read = {name: _read(parts[1], each) for name, each in _of(dict, value).items()}
    elif issubclass(hint, StrEnum):
        read = hint(value)
    else:
        read = _of(hint, value)
    return read


def _read_object(hint: Any, given: dict[str, Any]) -> dict[str, Any]:
    keys = get_type_hints(hint).items()
    needed = hint.__required_keys__
    return {
        **given,
        **{name: _read(each, given[name]) for name, each in keys if name in given or name in needed},
    }


def _of(kind: Any, value: Any) -> Any:
    # JSON has one kind of numbers: 1.0 may be written as 1.
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise TypeError(f"expected {_NAMES[kind]}, not {type(value).__name__}")
    return value
