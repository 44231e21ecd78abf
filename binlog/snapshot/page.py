"""Pages: what is selected of a table at once, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

from canal_group.binlog.schema.sql import quoted
from canal_group.binlog.snapshot.selected_table import SelectedTable
from canal_group.merge.snapshot.key import Key
from canal_group.merge.values.chunk import TableRows

#: bytes of rows, as they are sent, after which a page ends; its last row may be of up to 1 GiB
PAGE_BYTES = 2 << 20


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Rows of a table, in an order.

    `where` is SQL. Values in it are literals: of `Page.last_key`, or of the operator.
    """

    table: SelectedTable
    #: empty: all rows
    where: str = ""
    #: names of the columns by which rows are ordered, upwards; empty: the server's order
    order: tuple[str, ...] = ()
    #: most rows; None: all
    limit: int | None = None
    #: what follows the table's name: which index is used; empty: the server chooses
    hint: str = ""

    @property
    def statement(self) -> str:
        """The SELECT."""
        where = f" WHERE {self.where}" if self.where else ""
        order = f" ORDER BY {', '.join(map(quoted, self.order))}" if self.order else ""
        limit = "" if self.limit is None else f" LIMIT {self.limit}"
        hint = f" {self.hint}" if self.hint else ""
        return self.table.select + hint + where + order + limit


@dataclass(frozen=True, slots=True)
class Page:
    """Rows of a table, at least one."""

    #: they are reads of one transaction, whose header is the first of a chunk
    rows: TableRows
    #: values of the last row in the columns of `PageQuery.order`
    last_key: Key
    #: of the rows, as they were sent
    bytes: int
