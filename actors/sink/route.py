r"""Routes: the names of tables in the merged stream.

Sharding splits one logical table into many (`shop_3.orders_17`); a route gives all of them one name
(`shop.orders`). Routes are tried in order and the first match wins. A table that no route matches keeps its
name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from canal_group.merge.errors import ConfigError
from canal_group.merge.rows.pattern import Pattern
from canal_group.merge.rows.pattern_syntax import PatternSyntax
from canal_group.merge.rows.table_filter import refused
from canal_group.merge.values.chunk import TableName

#: what stands for a group in a target
_REFERENCE = re.compile(r"\\(?:g<(?P<name>\w+)>|(?P<number>[0-9]{1,2})|(?P<escaped>.?))", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Route:
    r"""One renaming: names that `pattern` matches as a whole become `to`.

    Raises:
        ConfigError: `pattern` is not a valid regular expression, `to` is not a `schema.table`, or
            `to` refers to a group that `pattern` does not have.
    """

    #: regular expression on `schema.table` as the source has it, case-insensitive
    pattern: str
    #: `schema.table`; `\1` or `\g<name>` stand for the pattern's groups
    to: str
    _compiled: Pattern = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "_compiled", Pattern(self.pattern))
        except PatternSyntax as error:
            raise refused(self.pattern, "routes", error) from None
        try:
            self._filled(("",) * (1 + self._compiled.group_count))
        except (ValueError, LookupError) as error:
            raise self._bad(f"({error})") from error
        if not re.fullmatch(r"[^.]+\..+", self.to):
            raise self._bad("(it is not a schema.table)")

    def apply(self, name: TableName) -> TableName | None:
        """Return the new name, or None if the route is not for this table.

        Raises:
            ConfigError: the new name has an empty schema or table.
        """
        groups = self._compiled.groups(str(name))
        if groups is None:
            return None
        schema, _, table = self._filled(groups).partition(".")
        if not schema or (name.table and not table):
            raise self._bad(f"for {name} (the name would be '{schema}.{table}')")
        return TableName(schema, table)

    def _filled(self, groups: tuple[str, ...]) -> str:
        """Return the target with references replaced by their groups; group 0 is the whole name.

        Raises:
            LookupError: there is no such group.
            ValueError: the target has an invalid escape.
        """
        names = self._compiled.group_names

        def value(reference: re.Match[str]) -> str:
            group_name, number = reference["name"], reference["number"]
            if group_name is None and number is None:
                if reference["escaped"] != "\\":
                    raise ValueError(f"bad escape {reference[0]}")
                return "\\"
            name = group_name or number
            index = int(name) if name.isdecimal() else names.get(name, len(groups))
            if index >= len(groups):
                raise LookupError(f"the pattern has no group {name}")
            return groups[index]

        return _REFERENCE.sub(value, self.to)

    def _bad(self, why: str) -> ConfigError:
        return ConfigError(
            f"{self.to!r} cannot be the target of route {self.pattern!r} {why}.",
            hint=r"Expected schema.table, with groups of the pattern as \1 or \g<name>.",
            pattern=self.pattern,
            to=self.to,
        )


def routed(name: TableName, routes: Iterable[Route]) -> TableName:
    """Return the name that the first matching route gives, or `name` if none matches."""
    for route in routes:
        target = route.apply(name)
        if target is not None:
            return target
    return name
