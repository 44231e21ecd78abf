"""A call: what somebody asks of a destination, and what is declared of it.

A call is a frozen dataclass under one of three decorators, which say who may make it. Its name is that of the
Flight action; its fields are the action's body, read by `canal_group.merge.calls.body`; the group's machine
gets it in an `Asked`. A call without a right cannot be written, and an operator's call says what of it the
audit log has, and its path over HTTP. Whoever shows a call to people (HTTP, its OpenAPI document, the command
line) has the rest from its fields (`canal_group.merge.calls.call_field`), its docstring
(`canal_group.merge.calls.docstring`) and the type of its answer (`canal_group.merge.calls.answer_type`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Final, Generic, TypeVar, dataclass_transform

#: how long sources may search their binlogs for a time, seconds
SEARCH_S: Final = 60.0

R_co = TypeVar("R_co", covariant=True)
C = TypeVar("C", bound="Call[Any]")
OC = TypeVar("OC", bound="OperatorCall[Any]")

_PATH = re.compile(r"(GET|POST|PUT|DELETE) ((?:/(?:[a-z-]+|\{[a-z_]+\}))+)")


class Right(StrEnum):
    """What a caller must be allowed."""

    #: nobody outside: the processes of a server make it
    INSIDE = "inside"
    #: to read the destination, under the client id of the call if it has one
    READ = "read"
    #: to operate it
    OPERATE = "operate"


@dataclass(frozen=True, slots=True)
class Path:
    """Where a call is over HTTP, below its instance."""

    method: str
    #: `/shards/{shard}`: what is in braces are fields. Other fields are in the query of a GET and a DELETE,
    #: and in the body of a POST and a PUT
    template: str

    @classmethod
    def parse(cls, text: str) -> Path:
        """Return the path that a text such as `GET /tables/{table}` declares."""
        match = _PATH.fullmatch(text)
        assert match is not None, f"{text} is not a method and a path"
        return cls(match[1], match[2])

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields in the template, in its order."""
        return tuple(part[1:-1] for part in self.template.split("/") if part.startswith("{"))

    @property
    def changes(self) -> bool:
        """Whether the method is one of a call that changes something."""
        return self.method != "GET"

    @property
    def has_body(self) -> bool:
        """Whether the fields that are not in the template are in the body."""
        return self.method in {"POST", "PUT"}


@dataclass(frozen=True, slots=True)
class Declared:
    """What is declared of a call beside its fields."""

    name: str
    right: Right
    #: fields written to the audit log; None: the call is not logged
    audited: tuple[str, ...] | None = None
    #: whether it may take as long as a search of every shard's binlogs
    searches: bool = False
    #: method and path over HTTP; None: not over HTTP
    path: Path | None = None


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


class OperatorCall(Call[R_co]):
    """What an operator asks; the answer is JSON of the declared type."""

    __slots__ = ()


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
    name: str, path: str, *, audited: tuple[str, ...] | None, searches: bool = False
) -> Callable[[type[OC]], type[OC]]:
    """Declare a call of whoever may operate the destination.

    Args:
        name: of the call.
        path: its method and path over HTTP, below the instance: `DELETE /shards/{shard}`.
        audited: the fields that the audit log has; None: it changes nothing, and its method is GET.
        searches: whether it may take as long as a search of every shard's binlogs.
    """
    where = Path.parse(path)
    assert where.changes == (audited is not None), f"{name} is a {where.method}"
    return _outside(Declared(name, Right.OPERATE, audited, searches, where))


def operator_calls() -> dict[str, type[OperatorCall[Any]]]:
    """Return the calls of operators, by name."""
    return {name: kind for name, kind in CALLS.items() if issubclass(kind, OperatorCall)}


def _outside(declared: Declared) -> Callable[[type[C]], type[C]]:
    def declare(cls: type[C]) -> type[C]:
        assert declared.name not in CALLS, f"{declared.name} is declared twice"
        made = _declared(cls, declared)
        CALLS[declared.name] = made
        return made

    return declare


def _declared(cls: type[C], declared: Declared) -> type[C]:
    made = dataclass(frozen=True, slots=True)(cls)
    names = made.__dataclass_fields__.keys()  # type: ignore[attr-defined]
    assert set(declared.audited or ()) <= names, "what is audited is a field"
    assert declared.path is None or set(declared.path.fields) <= names, "what a path names is a field"
    made.declared = declared
    return made
