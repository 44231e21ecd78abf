"""Table indexes: first and last keys of a table, and how many rows a condition reads, by its server."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pymysql

from canal_group.binlog.charsets.charsets import BINARY_COLLATION, charset_of
from canal_group.binlog.schema.definition import ColumnDefinition, SourceName
from canal_group.binlog.schema.sql import quoted, quoted_table
from canal_group.binlog.server.source import ServerFacts, SourceAddress, query
from canal_group.binlog.snapshot.row_order import RowOrder
from canal_group.merge.errors import CorruptEvent, SourceUnavailable
from canal_group.merge.snapshot.key import Key, literal
from canal_group.merge.values.types.kinds import Storage
from canal_group.merge.values.types.table import BY_NAME

#: names in a statement that no column has
_TABLE: Final = "canal_group_table"
_ONE: Final = "canal_group_one"
_NUMBERED: Final = {Storage.BIT, Storage.ENUM}
#: how a value is read that is not selected in hex
_TYPED: Final[dict[Storage, Callable[[str], Any]]] = {
    Storage.INTEGER: int,
    Storage.YEAR: int,
    Storage.BIT: int,
    Storage.ENUM: int,
    Storage.REAL: float,
    Storage.DECIMAL: Decimal,
    Storage.DATE: str,
    Storage.MOMENT: str,
}


class TableIndex:
    """The index of one table's order.

    Args:
        address: the server, for errors.
        connection: an open connection to it, on which pages may be read.
        facts: what the server reports about itself.
        table: its name there.
        order: of the table.
    """

    def __init__(
        self,
        address: SourceAddress,
        connection: pymysql.Connection[Any],
        facts: ServerFacts,
        table: SourceName,
        order: RowOrder,
    ) -> None:
        self._address, self._connection, self._order = address, connection, order
        self._from = f"FROM {quoted_table(table)} AS {_TABLE} {order.hint}"
        self._explain = f"EXPLAIN SELECT 1 {self._from}"
        if not facts.mariadb:
            # Of a single table with a forced index it does not look into the index.
            self._explain = (
                f"EXPLAIN FORMAT = TRADITIONAL SELECT 1 {self._from} JOIN (SELECT 1 AS {_ONE}) AS {_ONE}"
            )

    def first(self, where: str, *, last: bool = False) -> Key | None:
        """Return the first or last key for which a condition holds; None: no row fulfils the condition.

        Raises:
            SourceUnavailable, SourceUnfit: the server does not answer, or refuses.
        """
        columns = self._order.columns
        texts = ", ".join(f"{selected(each)} AS k{index}" for index, each in enumerate(columns))
        ends = ", ".join(quoted(name) + (" DESC" if last else "") for name in self._order.names)
        rows = self._query(f"SELECT {texts} {self._from}{_where(where)} ORDER BY {ends} LIMIT 1")
        if not rows:
            return None
        return tuple(shown_literal(each, rows[0][f"k{index}"]) for index, each in enumerate(columns))

    def rows(self, where: str) -> int:
        """Return about how many rows a condition holds for; raises as `first`."""
        rows = [row for row in self._query(self._explain + _where(where)) if row["table"] == _TABLE]
        return rows[0].number("rows") if rows and rows[0]["rows"] is not None else 0

    def _query(self, sql: str) -> Any:
        return query(self._address, self._connection, sql)


def _where(condition: str) -> str:
    return f" WHERE {condition}" if condition else ""


def selected(column: ColumnDefinition) -> str:
    """Return an expression for a value whose text is ASCII and complete: hex of what may be any text."""
    name, row = quoted(column.name), BY_NAME[column.type]
    if row.storage in _NUMBERED:
        return f"CAST({name} AS UNSIGNED)"
    if row.storage is Storage.REAL:
        return f"{name} + 0e0"
    if row.storage in _TYPED:
        return f"CAST({name} AS CHAR)"
    return f"HEX({name})" if row.hidden_in is None else f"HEX(CAST({name} AS BINARY({row.size})))"


def shown_literal(column: ColumnDefinition, value: Any) -> str:
    """Return the literal of a value that was selected so.

    Raises:
        SourceUnavailable: it is NULL: the column was altered since its definition was read.
        CorruptEvent: it is not a value of the column's type.
    """
    if value is None:
        raise SourceUnavailable(f"Column {column.name} of a key has NULL: its table was altered meanwhile.")
    row = BY_NAME[column.type]
    try:
        text = value.decode("ascii") if isinstance(value, bytes) else str(value)
        typed = _TYPED.get(row.storage)
        if typed is not None:
            return literal(typed(text))
        is_text = row.of_bytes and column.collation != BINARY_COLLATION
        return literal(bytes.fromhex(text), charset_of(column.collation).name if is_text else "")
    except (ValueError, InvalidOperation) as error:
        raise CorruptEvent(f"A value of column {column.name} of a key is not a {column.type}.") from error
