"""Page connections: a connection by which the tables of a snapshot are planned, and their pages read."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from canal_group.actors.snapshot.page_chunk import read_rows
from canal_group.actors.snapshot.work import SelectedPage, TablePlan
from canal_group.binlog.columns.columns import Losses
from canal_group.binlog.schema.ancestry import Ancestry
from canal_group.binlog.schema.definition import Generated, SourceName, TableDefinition
from canal_group.binlog.schema.sql import probe, quoted
from canal_group.binlog.server.access_hint import SELECT_DENIED
from canal_group.binlog.server.definitions.dictionary import Dictionary
from canal_group.binlog.server.preflight.preflight import account_of
from canal_group.binlog.server.source import SourceAddress, connect, query, server_facts
from canal_group.binlog.snapshot.condition import ConditionRefused, checked_condition
from canal_group.binlog.snapshot.page_reader import ALTERED, PageReader, TableAltered
from canal_group.binlog.snapshot.page_size import PageSize
from canal_group.binlog.snapshot.point_reader import PointReader
from canal_group.binlog.snapshot.ranges import ranges_of
from canal_group.binlog.snapshot.row_order import RowOrder
from canal_group.binlog.snapshot.selected_table import SelectedTable
from canal_group.binlog.snapshot.server_load import ServerLoad
from canal_group.binlog.snapshot.table_index import TableIndex
from canal_group.binlog.snapshot.table_pages import PageSelect, TablePages
from canal_group.binlog.snapshot.visibility import SettledLog, proof_found
from canal_group.merge.errors import CanalGroupError, DataError, SourceUnavailable
from canal_group.merge.snapshot.cursor import KeyRange
from canal_group.merge.snapshot.key import Key
from canal_group.merge.snapshot.steps import ReadPage
from canal_group.merge.snapshot.table_key import TableKey
from canal_group.merge.values.chunk import Lineage, TableName, TableRows

#: longest silence of a server while it selects a page, seconds
PAGE_TIMEOUT_S: Final = 60.0
#: codes with which a server refuses a statement now and not for ever: too many connections, shutting down,
#: deadlock, lock wait, interrupted, timed out, killed; the driver's own are from 2000 to 2999
_PASSING: Final = {
    0,
    1040,
    1053,
    1152,
    1158,
    1159,
    1160,
    1161,
    1203,
    1205,
    1213,
    1317,
    1412,
    1927,
    1969,
    3024,
}
_DRIVERS: Final = range(2000, 3000)


#: returns the columns of a table whose values must not leave the shard as they are, see `Processing.hidden`
Hidden: TypeAlias = Callable[[TableName, Sequence[str], Lineage], Sequence[str]]


class TableRefused(Exception):  # noqa: N818  it is what an operator is told of one table
    """A table cannot be read, and why."""


@dataclass(frozen=True, slots=True)
class Readable:
    """A table as it is read."""

    selected: SelectedTable
    #: None: in one piece
    order: RowOrder | None
    #: shared by all connections that read the table
    size: PageSize
    #: which rows; empty: all
    where: str
    #: columns whose absence from an image does not say that they were not changed
    computed: frozenset[str]

    @property
    def key(self) -> TableKey:
        """The columns by which its rows are told apart."""
        names = () if self.order is None else self.order.names
        image = self.selected.schema.arrow.field("after").type
        return TableKey(names, tuple(image.field(name).type for name in names))

    @property
    def signature(self) -> str:
        """What its keys mean."""
        return "" if self.order is None else self.order.signature

    def takes(self, rows: KeyRange | Sequence[Key]) -> bool:
        """Return whether rows are named by keys of this table: a caller's position may name others."""
        return self.order is None or self.order.takes(rows)


class PageConnection:
    """One connection; used by one thread, but for `interrupt`.

    Args:
        address: the server.
        settled: tells what is visible of a server without GTIDs; None: such a server is not read.
        rows_max: most rows of a page of a table that has a key.

    Raises:
        SourceUnavailable, SourceUnfit: it does not answer, or refuses.
    """

    def __init__(self, address: SourceAddress, settled: SettledLog | None, rows_max: int) -> None:
        self._rows_max = rows_max
        self._address = replace(address, read_timeout_s=max(address.read_timeout_s, PAGE_TIMEOUT_S))
        self._connection = connect(self._address)
        try:
            self._facts = server_facts(self._address, self._connection)
            self._dictionary = Dictionary(self._address, self._connection, self._facts)
            self._reader = PageReader(self._address, self._connection, Losses())
            self._points = PointReader(self._address, self._connection, self._facts, settled)
            self._load = ServerLoad(self._address, self._connection, self._facts)
            after_s = None if settled is None else settled.after_s
            self._proof = proof_found(self._facts, after_s, exact=self._points.exact)
        except BaseException:
            self.close()
            raise

    def interrupt(self) -> None:
        """End what waits for the server; from any thread."""
        driver: Any = self._connection
        with contextlib.suppress(OSError, AttributeError):
            driver._sock.shutdown(socket.SHUT_RDWR)  # noqa: SLF001 - no public way

    def close(self) -> None:
        """Close it."""
        driver: Any = self._connection
        with contextlib.suppress(OSError):
            driver._force_close()  # noqa: SLF001 - it takes no COM_QUIT while it sends

    @property
    def open(self) -> bool:
        """Whether it can be used."""
        return bool(self._connection.open)

    # ---- questions -----------------------------------------------------------------------------------------

    def listed(self) -> list[TableName]:
        """Return the names of all tables that the account sees."""
        return [TableName(*name) for name in self._dictionary.listed().tables]

    def estimates(self) -> dict[TableName, int]:
        """Return about how many rows tables have."""
        return {TableName(*name): count for name, count in self._dictionary.estimates().items()}

    def excess(self, limits: Mapping[str, float]) -> str | None:
        """Return which limit the server exceeds, see `ServerLoad.excess`."""
        return self._load.excess(limits)

    # ---- tables --------------------------------------------------------------------------------------------

    def readable(
        self,
        name: TableName,
        consumers: TableName,
        ancestry: Ancestry | None,
        where: str,
        hidden: Hidden,
    ) -> Readable:
        """Return how a table is read.

        Args:
            name: in the source.
            consumers: its name for them.
            ancestry: where its values have come from; None: not known.
            where: which rows, SQL; empty: all.
            hidden: see there.

        Raises:
            TableAltered: it was altered just now.
            TableRefused: it cannot be read.
            SourceUnavailable, SourceUnfit: the server does not answer, or refuses.
        """
        proven, what, mends = self._proof
        if not proven:
            raise TableRefused(f"what a page of it sees is {what}: {mends}")
        definition = self._dictionary.definition(SourceName(*name))
        if definition is None:
            self._dictionary.check_shown(SourceName(*name))
            query(self._address, self._connection, probe(name))
            raise TableRefused(
                "its definition is not understood, or the account does not see all of its columns: then run"
                f" {self._grant(name)}"
            )
        try:
            selected = SelectedTable.of(definition, consumers, ancestry)
        except DataError as error:
            raise TableRefused(error.message) from error
        columns = [column.name for column in definition.logged]
        kept_back = hidden(name, columns, selected.schema.lineage)
        order = _order(definition, kept_back)
        try:
            where = checked_condition(where, set(columns).difference(kept_back), kept_back)
        except ConditionRefused as refused:
            raise TableRefused(str(refused)) from refused
        # `a) OR (b` is refused as it stands, and `a LIMIT 1 -- ` in parentheses: pages need one expression.
        for condition in (f" WHERE {where}", f" WHERE ({where})") if where else ("",):
            with _noting_alters():
                query(self._address, self._connection, f"{selected.select}{condition} LIMIT 0")
        computed = frozenset(
            column.name for column in definition.logged if column.generated is not Generated.NO
        )
        return Readable(selected, order, PageSize(self._rows_max), where, computed)

    def plan(self, table: Readable) -> TablePlan:
        """Return how the snapshot of a table begins; raises TableAltered, SourceUnavailable, SourceUnfit."""
        whole: tuple[KeyRange, ...] = (KeyRange(),)
        if table.order is not None:
            with _noting_alters():
                whole = ranges_of(self._index(table, table.order), table.order)
        return TablePlan(table.signature, table.key, table.computed, whole)

    def page(self, table: Readable, step: ReadPage) -> SelectedPage:
        """Read a page.

        Raises:
            TableAltered, PageTooLarge: see there; the connection is closed.
            SourceUnavailable, SourceUnfit: the server does not answer, or refuses.
            CorruptEvent, UnsupportedEvent: a row cannot be read.
        """
        select = PageSelect(self._reader, table.selected)
        index = None if table.order is None else self._index(table, table.order)
        pages = TablePages(select, self._points, table.order, table.size, condition=table.where, index=index)
        page = pages.read(step.rows, step.attempt)
        schema, source = table.selected.schema, TableName(*table.selected.source)
        rows = read_rows(schema.arrow, page.selected.rows)
        return SelectedPage(
            page.point,
            TableRows(schema.name, rows, source, schema.special, schema.lineage),
            page.last,
            page.end,
        )

    def _index(self, table: Readable, order: RowOrder) -> TableIndex:
        return TableIndex(self._address, self._connection, self._facts, table.selected.source, order)

    def why(self, name: TableName, error: CanalGroupError) -> str:
        """Return why the server refuses a table, and the statement that lets the account select its rows.

        Args:
            name: in the source.
            error: one that does not pass.

        Raises:
            SourceUnavailable: the server does not answer.
        """
        if error.details.get("code") not in SELECT_DENIED:
            return str(error)
        return f"{error.message} {self._grant(name)}"

    def _grant(self, name: TableName) -> str:
        """Return the statement that lets the account select all rows and columns of a table's schema."""
        account = account_of(self._address, self._connection)
        return f"GRANT SELECT ON {quoted(name.schema)}.* TO {account};"


@contextlib.contextmanager
def _noting_alters() -> Iterator[None]:
    """Raise TableAltered for a server's error that an ALTER explains."""
    try:
        yield
    except CanalGroupError as error:
        if error.details.get("code") in ALTERED:
            raise TableAltered(error.message) from error
        raise


def _order(definition: TableDefinition, hidden: Sequence[str]) -> RowOrder | None:
    """Return the order by which a table is read, whose values are in its cursor; None: in one piece.

    Raises:
        TableRefused: each of its keys has a column whose values must not leave the shard as they are.
    """
    orders = RowOrder.all_of(definition)
    clear = next((order for order in orders if not set(hidden).intersection(order.names)), None)
    if clear is None and orders:
        kept_back = [sorted(set(hidden).intersection(order.names)) for order in orders]
        keys = [
            f"{order.index} has {', '.join(names)}" for order, names in zip(orders, kept_back, strict=True)
        ]
        raise TableRefused(
            "the cursor of its snapshot would show columns that a rule of the filter keeps from consumers:"
            f" key {'; key '.join(keys)}. Give it a UNIQUE key of other columns, NOT NULL, or leave it out of"
            " the snapshot"
        )
    return clear


def passes(error: CanalGroupError) -> bool:
    """Return whether an error of a server is worth another attempt."""
    code = error.details.get("code", 0)
    return isinstance(error, SourceUnavailable) and (code in _PASSING or code in _DRIVERS)
