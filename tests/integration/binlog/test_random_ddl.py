"""Random statements and rows, executed before anything is read: each row has the columns that it had.

Several processes read the binlog one after another, each with the history that the one before has stored.
What is expected is what the server itself said of each row when it was written.
"""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import closing
from random import Random

import pymysql
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from integration.unprepared_servers import end_of
from support.ddl.ddl_sequences import EXPLORES, MODES, SCHEMAS, Author, comparable
from support.ddl.stored_history import continued
from support.ddl.twin import Twin
from support.deadline import await_true
from support.defaults import definitions_of
from support.sources.recorder import reading

from canal_group.binlog.schema.definition import TableDefinition
from canal_group.binlog.server.definitions.present import PresentReader
from canal_group.binlog.server.source import connect, server_facts
from canal_group.merge.values.chunk import TableName

STATEMENTS = 30
#: positions at which another process goes on
RESTARTS = 3
#: what MariaDB adds to rows without showing it
HIDDEN = re.compile(r"DB_ROW_HASH_\d+|row_start|row_end")
COLUMNS = (
    "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    " ORDER BY ORDINAL_POSITION"
)


def of_schemas(schema, table):
    return TableName(schema, table) if schema in SCHEMAS else None


def rows_of(recorder):
    """Return the columns of each inserted row, in order, by table."""
    found = defaultdict(list)
    for chunk in recorder.of("chunk"):
        # A chunk has one group for each version of a table.
        rows = [(str(each.name), row) for each in chunk.tables for row in each.rows.to_pylist()]
        for name, row in sorted(rows, key=lambda named: (named[1]["_header"], named[1]["_row"])):
            if row["before"] is None:  # a DELETE of a versioned table is an UPDATE
                found[name].append(row["after"])
    return found


class Writer(Twin):
    """Writes rows between statements, and knows what they are."""

    def __init__(self, server, mode):
        super().__init__(server, mode, explicit=True)
        self.rows = []

    def insert(self, random):
        """Insert a row of defaults into a table, if the server takes one."""
        known = [table for table in self.catalog.tables() if isinstance(table, TableDefinition)]
        if not known:
            return
        table = random.choice(known)
        name = f"`{table.schema}`.`{table.table}`"
        try:
            self.answers(f"DELETE FROM {name}")
            self.answers(f"INSERT IGNORE INTO {name} () VALUES ()")
        except pymysql.Error:
            self.snapshots.rollback()
            return
        finally:
            for _ in self.new_events():
                pass
        self.shows.execute(COLUMNS, (table.schema, table.table))
        columns = [column for (column,) in self.shows.fetchall()]
        found = self.answers(f"SELECT {', '.join(f'`{column}`' for column in columns)} FROM {name}")
        if found:
            self.rows.append((f"{table.schema}.{table.table}", dict(zip(columns, found[0], strict=True))))


def written(server, source_address, random):
    """Execute statements and rows; return the rows, and (position, rows before it) of each restart."""
    mode = random.choice(MODES)
    positions = [(end_of(server, source_address), 0)]
    writer = Writer(server, mode)
    with closing(writer.connection), closing(writer.snapshots):
        author = Author(random, writer.catalog, writer.mariadb, mode)
        for number in range(STATEMENTS):
            if number and number % (STATEMENTS // RESTARTS) == 0:
                positions.append((end_of(server, source_address), len(writer.rows)))
            sql = author.statement()
            accepted = writer.run(sql)
            if accepted:
                author.executed(sql)
            # MariaDB does that, fails over a value of the table, and does not log it.
            half_done = not accepted and "DROP SYSTEM VERSIONING" in sql
            for table in writer.catalog.tables():
                if half_done or not isinstance(table, TableDefinition):
                    writer.drop(table)
            writer.insert(random)
        return writer.rows, positions


def require_equal(name, row, model):
    shown = {column: value for column, value in row.items() if not HIDDEN.fullmatch(column)}
    assert list(shown) == [column for column in model if not HIDDEN.fullmatch(column)], name
    for column, value in shown.items():
        # A date of zeros is null in Arrow.
        null = model[column] is None or str(model[column]).startswith("0000-00-00")
        assert (value is None) == null, (name, column, value, model[column])
        if type(value) is type(model[column]) is int:
            assert value == model[column], (name, column)


def require_rows(address, begin, definitions, expected):
    """Read from a position until these rows have come, and compare each with the server's."""
    models = defaultdict(list)
    for name, model in expected:
        models[name].append(model)
    with reading(address, start=begin, select=of_schemas, definitions=definitions) as recorder:

        def came():
            found = rows_of(recorder)
            return recorder.error or all(len(found[name]) >= len(rows) for name, rows in models.items())

        await_true(came, f"{len(expected)} rows")
    found = rows_of(recorder)
    for name, rows in models.items():
        for own, model in zip(found[name], rows, strict=False):
            require_equal(name, own, model)


def read(server, source_address, expected, positions):
    address, stored = source_address(server), None
    definitions = definitions_of(address.name, of_schemas)
    (begin, first), *later = positions
    for following, last in [*later, (None, len(expected))]:
        if first == last:
            continue  # It would end before it has read anything: the next one begins where it began.
        definitions = definitions_of(address.name, of_schemas)
        definitions.restore(stored)
        require_rows(address, begin, definitions, expected[first:last])
        stored = continued(stored, definitions.news())
        begin, first = following, last
    with reading(
        address, start=end_of(server, source_address), select=of_schemas, definitions=definitions
    ) as recorder:
        await_true(lambda: recorder.error or recorder.of("caught_up"), "the end")
    with closing(connect(address)) as connection:
        reader = PresentReader(address, server_facts(address, connection))
    shown = reader.maker()()
    with reader.asking() as asked:
        tables = [name for name in asked.listed().tables if of_schemas(*name)]
        for table in map(asked.show, tables):
            shown.set(table)
    tables = [table for table in definitions.tables() if of_schemas(table.schema, table.table)]
    # What is not known at the end is not a table: else the server would have been asked.
    known = [table for table in tables if isinstance(table, TableDefinition)]
    assert [comparable(table) for table in known] == [comparable(table) for table in shown.tables()]


@pytest.mark.parametrize(
    "sequences", [3, pytest.param(500, marks=[pytest.mark.soak, pytest.mark.timeout(2400)])]
)
def test_rows_have_the_columns_that_they_had(unprepared_server, source_address, sequences):
    @settings(
        max_examples=sequences,
        database=None,
        derandomize=not EXPLORES,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**32))
    def run(seed):
        rows, positions = written(unprepared_server, source_address, Random(seed))
        # Without a row nothing would have to be known.
        assume(rows)
        read(unprepared_server, source_address, rows, positions)

    run()
