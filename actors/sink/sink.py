"""Sink: which tables of a source are kept, and under which names.

Filters see the source's own names; everything after the sink sees the routed ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from canal_group.actors.sink.route import Route, routed
from canal_group.merge.rows.table_filter import TableFilter
from canal_group.merge.values.chunk import TableName

#: size of the cache of answers; for a source with more tables the rarely changed ones are computed again
TABLES_MAX = 8192


class Sink:
    """The filters and routes of one group; called once for each table map.

    Args:
        white: comma-separated regular expressions of wanted `schema.table`; empty: every table.
        black: the same for tables that are not wanted; takes precedence over `white`.
        routes: new names, in order; the first match wins.

    Raises:
        ConfigError: an expression of `white` or `black` is not a valid regular expression.
    """

    def __init__(self, white: str = "", black: str = "", routes: Iterable[Route] = ()) -> None:
        self._filter = TableFilter(white, black)
        self._routes = tuple(routes)
        self._decision = lru_cache(maxsize=TABLES_MAX)(self._decide)

    def select(self, schema: str, table: str) -> TableName | None:
        """Return consumers' name of the source's table, or None if it is not wanted.

        Args:
            schema: as the source has it.
            table: as the source has it; empty for a statement on the schema as a whole.

        Raises:
            ConfigError: a route gives the table an empty name.
        """
        return self._decision(schema, table)

    def _decide(self, schema: str, table: str) -> TableName | None:
        name = TableName(schema, table)
        return routed(name, self._routes) if self._filter.matches(name) else None
