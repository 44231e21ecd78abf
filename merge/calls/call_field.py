"""A call's field, as whoever makes the call from outside gives it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from canal_group.merge.calls.call import Call
from canal_group.merge.calls.values import ADMITTED, SAID_AS
from canal_group.merge.whole import Bounds

Reader = Callable[[str, Any], Any]


@dataclass(frozen=True, slots=True)
class CallField:
    """What an annotation and a default say of a field."""

    name: str
    #: reads what JSON says of it; raises what `canal_group.merge.calls.body.call_of` raises
    reader: Reader
    #: the field's type in JSON, without None
    type: Any
    #: whether it may be None
    is_optional: bool
    #: bounds of the value; None: only `reader` knows the bounds
    bounds: Bounds | None
    #: `MISSING`: it has to be given
    default: Any

    @property
    def is_needed(self) -> bool:
        """Whether it has to be given."""
        return self.default is MISSING

    @property
    def annotation(self) -> Any:
        """The field's type in JSON."""
        return self.type | None if self.is_optional else self.type

    def read(self, value: Any) -> Any:
        """Return the field's value. An optional field may be None."""
        return None if self.is_optional and value is None else self.reader(self.name, value)


def fields_of(kind: type[Call[Any]]) -> tuple[CallField, ...]:
    """Return the fields of a call, but for those that whoever admits it says."""
    declared: Any = kind
    return _fields_of(declared)


@cache
def _fields_of(kind: Any) -> tuple[CallField, ...]:
    hints = get_type_hints(kind, include_extras=True)
    found = (_field(each.name, hints[each.name], each.default) for each in fields(kind))
    return tuple(each for each in found if each.reader is not ADMITTED)


def _field(name: str, hint: Any, default: Any) -> CallField:
    parts = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
    read = next(each for each in parts if each is not NoneType)
    assert get_origin(read) is Annotated, f"{hint} has no reader"
    said, reader, *bounds = get_args(read)
    return CallField(
        name,
        reader,
        SAID_AS.get(said, said),
        is_optional=NoneType in parts,
        bounds=next(iter(bounds), None),
        default=default,
    )
