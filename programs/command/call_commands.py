"""Commands that are derived from operators' calls: one for each call without a command of its own.

`client_rollback` is `client rollback`. Fields of the path are arguments, the others options; what removes
something asks before. The answer is printed as one JSON object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from canal_group.merge.calls.body import call_of
from canal_group.merge.calls.call import OperatorCall, operator_calls
from canal_group.merge.calls.call_field import CallField, fields_of
from canal_group.merge.calls.docstring import docstring_of
from canal_group.operator import Operator
from canal_group.programs.command.json_line import json_line
from canal_group.programs.command.operator_command import COMMANDED, operated
from canal_group.programs.command.options.command_group import command_group
from canal_group.programs.command.output import echo

_Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


def add_commands(app: typer.Typer, groups: Mapping[str, typer.Typer]) -> None:
    """Add a command for each call that has none.

    Args:
        app: what a command without a group, and a new group, is added to.
        groups: those that there are, by name.
    """
    known = dict(groups)
    for name, kind in operator_calls().items():
        if kind in COMMANDED:
            continue
        group, _, verb = name.partition("_")
        if verb and group not in known:
            known[group] = command_group(f"Operate a {group} of a running instance.")
            app.add_typer(known[group], name=group)
        within = known[group] if verb else app
        within.command(name=(verb or name).replace("_", "-"))(operated(kind)(command_of(kind)))


def command_of(kind: type[OperatorCall[Any]]) -> Callable[..., None]:
    """Return a function that makes a call: its first parameter is the operator, the others are the fields."""
    path, said = kind.declared.path, docstring_of(kind)
    assert path is not None, "an operator's call has a path"
    removes = path.method == "DELETE"

    def command(operator: Operator, **given: Any) -> None:
        if removes and not given.pop("yes"):
            what = " ".join([*kind.declared.name.split("_"), *map(str, given.values())])
            typer.confirm(f"{what} of {operator.destination}?", abort=True, err=True)
        echo(json_line(operator.ask(call_of(kind, given))))

    fields = [
        _parameter(each, said.fields.get(each.name), in_path=each.name in path.fields)
        for each in fields_of(kind)
    ]
    yes = [Parameter("yes", Parameter.KEYWORD_ONLY, annotation=_Yes, default=False)] if removes else []
    operator = Parameter("operator", Parameter.POSITIONAL_OR_KEYWORD, annotation=Operator)
    command.__name__, command.__doc__ = kind.declared.name, said.text
    vars(command)["__signature__"] = Signature([operator, *fields, *yes])
    return command


def _parameter(field: CallField, text: str | None, *, in_path: bool) -> Parameter:
    simple = field.type in {str, int, float, bool} or issubclass(field.type, Enum)
    assert simple, f"{field.name} cannot be an option: write the command by hand"
    if in_path and field.is_needed:
        annotation: Any = Annotated[field.annotation, typer.Argument(help=text, show_default=False)]
    elif field.type is bool:
        annotation = Annotated[bool, typer.Option(_option(field), help=text)]
    else:
        annotation = Annotated[field.annotation, typer.Option(_option(field), help=text)]
    default = Parameter.empty if field.is_needed else field.default
    return Parameter(field.name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _option(field: CallField) -> str:
    return f"--{field.name.replace('_', '-')}"
