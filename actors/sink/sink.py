"""The sink: which tables of a source are kept, and what they are called from here on.

Filters see the source's own names; everything behind the sink sees the routed ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from actors.sink.route import Route, routed
from merge.rows.table_filter import TableFilter
from merge.values.chunk import TableName

#: remembered answers; a source with more tables costs time for the ones that are seldom changed, not memory
TABLES_MAX = 8192


class Sink:
    """Filters and routes of one group, asked once per table event.

    Args:
        white: comma-separated regular expressions of wanted `schema.table`; empty: every table.
        black: the same for tables that are not wanted; wins over `white`.
        routes: new names, in order; the first match wins.

    Raises:
        ConfigError: an expression of `white` or `black` is no regular expression.
    """

    def __init__(self, white: str = "", black: str = "", routes: Iterable[Route] = ()) -> None:
        self._filter = TableFilter(white, black)
        self._routes = tuple(routes)
        self._known = lru_cache(maxsize=TABLES_MAX)(self._decide)

    def select(self, schema: str, table: str) -> TableName | None:
        """Return what consumers call the source's table, or None if it is not wanted.

        Args:
            schema: as the source has it.
            table: as the source has it; empty for a statement on the schema as a whole.

        Raises:
            ConfigError: a route leaves the table without a name.
        """
        return self._known(schema, table)

    def _decide(self, schema: str, table: str) -> TableName | None:
        name = TableName(schema, table)
        return routed(name, self._routes) if self._filter.matches(name) else None
