"""The paths of operators' calls: each is derived from the call's declaration, and so is its OpenAPI entry.

A field is in the path, the query or the body, as `canal_group.merge.calls.call.Path` says. It is read as a
field of the Flight action is. The summary and the texts are from the call's docstring, the answer's schema
from its type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from inspect import Parameter, Signature
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Body, Query, Request
from fastapi import Path as InPath

from canal_group.actors.admission.audit_log import audited
from canal_group.actors.http.ascii_json import AsciiJson
from canal_group.actors.http.callers import Callers
from canal_group.actors.http.changes import Changes
from canal_group.actors.http.errors import Malformed, NotFound
from canal_group.actors.http.served import Served
from canal_group.merge.calls import values
from canal_group.merge.calls.answer_type import answer_type, schema_of
from canal_group.merge.calls.body import MALFORMED, call_of
from canal_group.merge.calls.call import OperatorCall, Path, operator_calls
from canal_group.merge.calls.call_field import CallField, fields_of
from canal_group.merge.calls.docstring import docstring_of
from canal_group.merge.calls.operators import Operation
from canal_group.merge.errors import UsageError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CallPaths:
    """Answers operators' calls. Safe to use from several threads."""

    callers: Callers
    changes: Changes

    def router(self) -> APIRouter:
        """Return the paths; one with fixed words goes before one that has a field instead."""
        router = APIRouter(prefix="/api/instances/{destination}")
        for path, kind in sorted(_calls(), key=lambda each: _order(each[0].template)):
            said = docstring_of(kind)
            router.add_api_route(
                path.template,
                self._endpoint(kind, path),
                methods=[path.method],
                response_model=None,
                operation_id=kind.declared.name,
                summary=said.summary,
                description=said.text,
                responses={200: {"content": {"application/json": {"schema": schema_of(answer_type(kind))}}}},
            )
        return router

    def _endpoint(self, kind: type[OperatorCall[Any]], path: Path) -> Callable[..., AsciiJson]:
        """Return the function that answers a path, whose parameters are the call's fields."""

        def answer(request: Request, destination: str, **said: Any) -> AsciiJson:
            return AsciiJson(self._answer(request, destination, kind, said))

        texts = docstring_of(kind).fields
        given = [
            Parameter("request", Parameter.KEYWORD_ONLY, annotation=Request),
            Parameter("destination", Parameter.KEYWORD_ONLY, annotation=str),
            *(_parameter(each, path, texts.get(each.name)) for each in fields_of(kind)),
        ]
        vars(answer)["__signature__"] = Signature(given)
        return answer

    def _answer(
        self, request: Request, destination: str, kind: type[OperatorCall[Any]], said: Mapping[str, Any]
    ) -> Any:
        """Answer a call; a shard or a client id that it names has to exist.

        Args:
            request: of the caller, who has to have the right to the call.
            destination: the instance.
            kind: the call.
            said: its fields.
        """
        served, grant = self.callers.operator(request, destination, kind.declared.name)
        call = well_formed(lambda: call_of(kind, said))
        for field in fields_of(kind):
            value = getattr(call, field.name)
            if field.reader is values.client_id:
                grant.check(destination, value)
            if value is not None and field.reader in _KNOWN:
                _KNOWN[field.reader](served, value)
        if isinstance(call, Operation):
            call = replace(call, by=grant.name)
        answer = partial(served.requests.answer, call)
        if kind.declared.audited is None:
            with self.changes.questions.one_of(grant.name):
                return answer()
        return self.changes.make((request, served, grant), kind.declared.name, audited(call), answer)


def well_formed(read: Callable[[], T]) -> T:
    """Return the value that `read` reads from a request; raises Malformed if it cannot."""
    try:
        return read()
    except UsageError as error:
        raise Malformed(error.message, hint=error.hint) from error
    except MALFORMED as error:
        raise Malformed(
            f"A value is malformed ({type(error).__name__}).", hint="See /openapi.json."
        ) from error


def check_shard(served: Served, shard: str) -> None:
    """Raise NotFound if an instance that is served here has no such shard."""
    known = [each["shard"] for each in served.state()["group"].get("shards", ())]
    if known and shard not in known:
        raise NotFound(f"{served.destination} has no shard {shard}.", hint=f"It has {', '.join(known)}.")


def client_of(served: Served, client_id: str) -> dict[str, Any]:
    """Return the state of a client id; raises NotFound if there is none."""
    found = served.requests.client(client_id)
    if found is None:
        raise NotFound(f"{served.destination} has no client {client_id}.", hint="Its state lists them.")
    return found


#: what has to exist, by the reader of a field
_KNOWN: Mapping[Any, Callable[[Served, str], object]] = {
    values.shard: check_shard,
    values.client_id: client_of,
}


def _calls() -> list[tuple[Path, type[OperatorCall[Any]]]]:
    return [
        (kind.declared.path, kind) for kind in operator_calls().values() if kind.declared.path is not None
    ]


def _order(template: str) -> list[bool]:
    return [part.startswith("{") for part in template.split("/")]


def _parameter(field: CallField, path: Path, text: str | None) -> Parameter:
    said: dict[str, Any] = {"description": text, **_bounds(field)}
    if field.name in path.fields:
        # A parameter of the path is always given, so the parameter has no default and cannot be None.
        annotation: Any = Annotated[field.type, InPath(**said)]
        return Parameter(field.name, Parameter.KEYWORD_ONLY, annotation=annotation)
    where = Body(embed=True, **said) if path.has_body else Query(**said)
    default = Parameter.empty if field.is_needed else field.default
    annotation = Annotated[field.annotation, where]
    return Parameter(field.name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _bounds(field: CallField) -> dict[str, int]:
    if field.bounds is None:
        return {}
    if field.type is str:
        return {"max_length": field.bounds.most}
    return {"ge": field.bounds.least, "le": field.bounds.most}
