"""Processing: the table rules of a group, applied to each chunk before the shard stores it.

Headers stay where they are, also those of transactions of which nothing is kept. Ordinals (`_row`,
`row_begin`, `row_end`) are the parser's: a dropped row keeps its number, and no other row gets it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import starmap, zip_longest
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from canal_group.actors.sink.sink import TABLES_MAX
from canal_group.actors.sink.table_rule import KEPT, TableRule
from canal_group.merge.values.chunk import (
    Chunk,
    Lineage,
    StatementKind,
    StatementSource,
    TableName,
    TableRows,
    rows_schema,
)
from canal_group.merge.values.header import Flag, Headers

#: the names that tools of migrations give to copies of a table, before and after they swap it:
#: gh-ost                       _t_gho  _t_ghc  _t_del  _t_20260131120000_del
#: pt-online-schema-change      _t_new  _t_old, with up to ten underscores before
#: spirit                       _t_new  _t_old  _t_old_20260131_120000  _t_chkpnt
#: OnlineSchemaChange           __osc_new_t  __osc_old_t  __osc_chg_t
#: LHM                          lhmn_t  lhma_2026_01_31_12_00_00_000_t
_COPY = re.compile(
    r"_+(?P<framed>.+?)_(?:gho|ghc|new|chkpnt|(?:\d{14}_)?del|old(?:_\d{8}_\d{6})?)"
    r"|__osc_(?:new|old|chg)_(?P<osc>.+)"
    r"|lhm(?:n|a_[\d_]{23})_(?P<lhm>.+)",
    re.IGNORECASE,
)


class Processing:
    """The rules of all tables; the first that matches a table applies."""

    def __init__(self, rules: Sequence[TableRule] = ()) -> None:
        self._rules = tuple(rules)
        self._decision = lru_cache(maxsize=TABLES_MAX)(self._decide)

    def rule(self, source: TableName, origins: tuple[TableName, ...] = ()) -> TableRule | None:
        """Return the rule of a table; None if it has none.

        It is the first that matches the table's name in the source, or one of those under which its rows were
        before, or the name of the table that a migration's tool copies to it.

        Args:
            source: its name in the source.
            origins: see `Lineage`.
        """
        return self._decision(source, origins)

    def protects(self, source: TableName, origins: tuple[TableName, ...]) -> bool:
        """Return whether columns of a table must not be read through others."""
        rule = self._decision(source, origins)
        return rule is not None and bool(rule.protected)

    def hidden(self, source: TableName, columns: Sequence[str], lineage: Lineage) -> tuple[str, ...]:
        """Return the columns of a table whose values must not leave the shard as they are.

        Args:
            source: the table's name in the source.
            columns: names of all its columns.
            lineage: where their values come from.
        """
        rule = self._decision(source, lineage.origins)
        clear = None if rule is None else rule.clear(columns, lineage)
        return tuple(name for name in columns if clear is not None and name.lower() not in clear)

    def _decide(self, source: TableName, origins: tuple[TableName, ...]) -> TableRule | None:
        names = {source, *origins}
        names |= {TableName(name.schema, table) for name in names for table in _copied_tables(name.table)}
        return next((rule for rule in self._rules if any(map(rule.matches, names))), None)

    def apply(self, chunk: Chunk) -> Chunk:
        """Return a chunk with what the rules keep of its rows and statements; its headers count only that.

        Raises:
            DataError: see `TableRule.apply`.
        """
        tables = tuple(self._of_table(table, chunk) for table in chunk.tables)
        statements, sources = self._statements(chunk)
        if statements is chunk.statements and all(
            new is old for new, old in zip(tables, chunk.tables, strict=True)
        ):
            return chunk
        headers = counted(chunk.headers, tables, statements)
        return replace(
            chunk,
            headers=headers,
            tables=tuple(table for table in tables if table.rows.num_rows),
            statements=statements,
            statement_sources=sources,
            ddls={index: mark for index, mark in chunk.ddls.items() if headers["flags"][index] & Flag.DDL},
        )

    def columns(self, source: TableName, columns: pa.Schema, lineage: Lineage | None = None) -> pa.Schema:
        """Return the columns of a table that leave the shard, as they leave it.

        Args:
            source: the table's name in the source.
            columns: the source's columns.
            lineage: where their values come from; None: nothing is known.

        Raises:
            DataError: see `TableRule.schema`.
        """
        lineage = lineage or Lineage()
        rule = self._decision(source, lineage.origins)
        if rule is None:
            return columns
        schema = rows_schema(list(columns), b"[]")
        return pa.schema(list(rule.schema(source, schema, lineage).field("after").type))

    def _of_table(self, table: TableRows, chunk: Chunk) -> TableRows:
        assert table.source is not None, "the parser names the source's table"
        rule = self._decision(table.source, table.lineage.origins)
        if rule is None or rule.leaves_rows:
            return table

        def locate(row: int) -> str:
            header = chunk.headers[table.rows.column("_header")[row].as_py()]
            return f"{chunk.names[header['file']]}:{int(header['begin_offset'])}"

        rows = rule.apply(table.source, table.rows, table.lineage, locate)
        return TableRows(table.name, rows, table.source)

    def _statements(self, chunk: Chunk) -> tuple[Any, tuple[StatementSource, ...]]:
        if chunk.statements is None:
            return None, ()
        keeps = [self._keeps(source) for source in chunk.statement_sources]
        if all(keeps):
            return chunk.statements, chunk.statement_sources
        sources = tuple(source for source, keep in zip(chunk.statement_sources, keeps, strict=True) if keep)
        return (chunk.statements.filter(pa.array(keeps)) if sources else None), sources

    def _keeps(self, source: StatementSource) -> bool:
        """Return whether a statement is kept for any of its tables; a mark always is."""
        rules = starmap(self._decision, zip_longest(source.names, source.origins, fillvalue=()))
        keeps = any(source.kind in (KEPT if rule is None else rule.kinds) for rule in rules)
        return keeps or source.kind is StatementKind.MARK


def counted(headers: Headers, tables: Sequence[TableRows], statements: Any) -> Headers:
    """Return headers with the rows and bytes that are left of each."""
    count = len(headers)
    rows, size = np.zeros(count, np.int64), np.zeros(count, np.float64)
    batches: list[Any] = [table.rows for table in tables]
    for batch in [*batches, *([] if statements is None else [statements])]:
        if batch.num_rows:
            own: NDArray[np.int64] = np.bincount(batch.column("_header").to_numpy(), minlength=count)
            rows += own
            size += own * (batch.nbytes / batch.num_rows)
    result = headers.copy()
    result["rows"], result["bytes"] = rows, np.ceil(size)
    # A definition that is left out needs no batch of its own.
    result["flags"] = np.where(rows > 0, result["flags"], result["flags"] & ~np.uint16(Flag.DDL))
    return result


def _copied_tables(name: str) -> list[str]:
    """Return the names of tables (without their schema) of which a table may be a copy; none for most."""
    match = _COPY.fullmatch(name)
    if match is None:
        return []
    copied = match["framed"] or match["osc"] or match["lhm"]
    # A table's own name may begin with underscores.
    return [copied, *(f"{'_' * count}{copied}" for count in range(1, len(name) - len(name.lstrip("_"))))]
