"""A call: what somebody asks of a destination, and what is declared of it.

A call is a frozen dataclass under one of three decorators, which say who may make it. Its name is that of the
Flight action; its fields are the action's body, read by `merge.calls.body`; the group's machine gets it in an
`Asked`. A call without a right cannot be written, and an operator's call says what of it the audit log has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Final, Generic, TypeVar, dataclass_transform

#: how long sources may search their binlogs for a time, seconds
SEARCH_S: Final = 60.0

R_co = TypeVar("R_co", covariant=True)
C = TypeVar("C", bound="Call[Any]")


class Right(StrEnum):
    """What a caller must be allowed."""

    #: nobody outside: the processes of a server make it
    INSIDE = "inside"
    #: to read the destination, under the client id of the call if it has one
    READ = "read"
    #: to operate it
    OPERATE = "operate"


@dataclass(frozen=True, slots=True)
class Declared:
    """What is declared of a call beside its fields."""

    name: str
    right: Right
    #: the fields that the audit log has; None: the call changes nothing that it keeps
    audited: tuple[str, ...] | None = None
    #: whether it may take as long as a search of every shard's binlogs
    searches: bool = False


class Call(Generic[R_co]):
    """What somebody asks; `R_co` is the type of the answer."""

    __slots__ = ()

    declared: ClassVar[Declared]

    @property
    def searches(self) -> bool:
        """Whether this call may take as long as a search of every shard's binlogs."""
        return self.declared.searches

    @property
    def wait_s(self) -> float:
        """How long its answer may take beyond that of a call that waits for nothing, seconds."""
        return SEARCH_S if self.searches else 0.0


#: calls that come from outside, by name
CALLS: Final[dict[str, type[Call[Any]]]] = {}


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def inside(cls: type[C]) -> type[C]:
    """Declare a call between the processes of a server."""
    return _declared(cls, Declared(cls.__name__, Right.INSIDE))


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def read(name: str, *, searches: bool = False) -> Callable[[type[C]], type[C]]:
    """Declare a call of whoever may read the destination."""
    return _outside(Declared(name, Right.READ, searches=searches))


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def operate(
    name: str, *, audited: tuple[str, ...] | None, searches: bool = False
) -> Callable[[type[C]], type[C]]:
    """Declare a call of whoever may operate the destination.

    Args:
        name: of the call.
        audited: the fields that the audit log has; None: it changes nothing.
        searches: whether it may take as long as a search of every shard's binlogs.
    """
    return _outside(Declared(name, Right.OPERATE, audited, searches))


def _outside(declared: Declared) -> Callable[[type[C]], type[C]]:
    def declare(cls: type[C]) -> type[C]:
        assert declared.name not in CALLS, f"{declared.name} is declared twice"
        made = _declared(cls, declared)
        CALLS[declared.name] = made
        return made

    return declare


def _declared(cls: type[C], declared: Declared) -> type[C]:
    made = dataclass(frozen=True, slots=True)(cls)
    assert set(declared.audited or ()) <= set(made.__dataclass_fields__), "what is audited is a field"  # type: ignore[attr-defined]
    made.declared = declared
    return made
