"""Table settings: which rows and columns of a table leave its shard, and how they are changed."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from canal_group.conf.filters.expression_text import ExpressionText
from canal_group.conf.plugins.entry_points import Group
from canal_group.conf.plugins.plug_in import PlugInSettings
from canal_group.conf.value import Count, RegexList, Settings, Text, unfit

#: `ddl`: a change of definitions. `dcl`: of users, roles and rights. `query`: every other statement
Kind: TypeAlias = Literal["insert", "update", "delete", "ddl", "dcl", "query"]
KINDS: tuple[Kind, ...] = ("insert", "update", "delete", "ddl", "dcl", "query")
_KEPT: tuple[Kind, ...] = ("insert", "update", "delete", "ddl", "query")


class RenameSettings(Settings):
    """A new name of a column."""

    column: Text
    to: Text


class MaskSettings(Settings):
    """What replaces the values of a column."""

    #: name in the source
    column: Text
    #: `hash`: HMAC-SHA256 under the salt, in hexadecimal digits
    kind: Literal["hash", "last", "null", "constant"]
    #: only with `last`: characters that remain
    last: Count | None = None
    #: only with `constant`: the value
    value: Text | int | None = None

    @model_validator(mode="after")
    def _has_its_value(self) -> MaskSettings:
        for key, kind in (("last", "last"), ("value", "constant")):
            is_given = getattr(self, key) is not None
            if is_given != (self.kind == kind):
                found = f"kind is '{self.kind}'" if is_given else "is missing"
                raise unfit(
                    f"be given {'only ' if is_given else ''}with `kind: {kind}`", key=key, found=found
                )
        return self


class ComputedSettings(Settings):
    """A column that is added."""

    name: Text
    #: its value, from the source's columns
    expression: ExpressionText


class ProcessSettings(PlugInSettings):
    """A plug-in's function that adds columns."""

    group = Group.PROCESSING
    named_by = "function"

    function: Text


class TableSettings(Settings):
    """What happens to the tables that `match` names; the first entry that matches applies."""

    #: the tables, by their names in the source
    match: Annotated[RegexList, Field(min_length=1)]
    #: columns to keep; empty: all
    white_columns: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    #: columns to drop from those
    black_columns: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    #: what is kept of the table's changes; by default not statements on accounts
    keep: Annotated[tuple[Kind, ...], Field(strict=False)] = _KEPT
    #: which rows are kept; None: all
    where: ExpressionText | None = None
    #: new names of columns
    rename: Annotated[tuple[RenameSettings, ...], Field(strict=False)] = ()
    masks: Annotated[tuple[MaskSettings, ...], Field(strict=False)] = ()
    computed: Annotated[tuple[ComputedSettings, ...], Field(strict=False)] = ()
    #: what else adds columns; None: nothing
    process: ProcessSettings | None = None
    #: whether updates are dropped that change nothing in what is kept
    drop_unchanged: bool = False

    @model_validator(mode="after")
    def _once_each(self) -> TableSettings:
        listed = {
            "rename": [each.column for each in self.rename],
            "masks": [each.column for each in self.masks],
            "computed": [each.name for each in self.computed],
        }
        for key, columns in listed.items():
            lower = [column.lower() for column in columns]
            twice = next((name for name in lower if lower.count(name) > 1), None)
            if twice is not None:
                raise unfit("name each column once", key=key, found=f"names '{twice}' twice")
        return self
