r"""Routes: what a table is called in the merged stream.

Shards cut one logical table into many (`shop_3.orders_17`); a route gives all of them one name
(`shop.orders`). Routes are tried in order and the first match wins; a table that none matches keeps its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from merge.chunk import TableName
from merge.errors import ConfigError
from merge.table_filter import compiled


@dataclass(frozen=True, slots=True)
class Route:
    r"""One renaming: names that `pattern` matches as a whole become `to`.

    Raises:
        ConfigError: `pattern` is no regular expression, or `to` is no `schema.table` or refers to a group
            that `pattern` does not have.
    """

    #: regular expression on `schema.table` as the source has it, upper and lower case alike
    pattern: str
    #: `schema.table`; `\1` or `\g<name>` stand for the pattern's groups
    to: str
    _compiled: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        pattern = compiled(self.pattern, "routes")
        object.__setattr__(self, "_compiled", pattern)
        try:
            pattern.sub(self.to, "")  # the template is checked before anything is matched
        except (re.error, IndexError) as error:
            raise self._bad(f"({error})") from error
        if not re.fullmatch(r"[^.]+\..+", self.to):
            raise self._bad("(no schema.table)")

    def apply(self, name: TableName) -> TableName | None:
        """Return the new name, or None if the route is not for this table.

        Raises:
            ConfigError: the groups that matched leave no schema or no table name.
        """
        match = self._compiled.fullmatch(str(name))
        if match is None:
            return None
        schema, _, table = match.expand(self.to).partition(".")
        if not schema or (name.table and not table):
            raise self._bad(f"for {name} (it leaves '{schema}.{table}')")
        return TableName(schema, table)

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
