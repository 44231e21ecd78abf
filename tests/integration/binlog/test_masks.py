"""What a mask hides leaves a shard by no other way: no hash, copy, generated column or error has it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from integration.unprepared_servers import end_of
from support.defaults import definitions_of
from support.sources.recorder import await_rows, of_app, reading

from canal_group.actors.shard.rules import processing_of
from canal_group.actors.sink.consumer_view import ConsumerView, History
from canal_group.binlog.server.described import shown_now
from canal_group.binlog.snapshot.selected_table import SelectedTable
from canal_group.conf.stream_settings import FilterSettings
from canal_group.merge.errors import UnsupportedEvent
from canal_group.merge.values.chunk import TableName
from canal_group.programs.command.check.filter_check import check_filter

SECRET = "secret@example.org"
FILTER = FilterSettings(
    tables=[{"match": r"app\.customers", "masks": [{"column": "mail", "kind": "constant", "value": "x"}]}]
)
COLUMNS = "(id INT PRIMARY KEY, mail VARCHAR(999) {}, low VARCHAR(999) AS (LOWER(mail)), t INT)"
ROW = f"(id, mail, t) VALUES ({{0}}, '{SECRET}{{0}}', 1)"


def stored(chunks, processing):
    """Return the stored bytes of chunks, all of them."""
    sink, tables = pa.BufferOutputStream(), []
    for chunk in chunks:
        for table in processing.apply(ConsumerView(History.DROP).apply(chunk)).tables:
            tables.append(table)
            with pa.ipc.new_stream(sink, table.rows.schema) as writer:
                writer.write_batch(table.rows)
    return tables, sink.getvalue().to_pybytes()


@pytest.mark.parametrize("metadata", ["MINIMAL", "FULL"])
def test_rules_follow_a_table_and_what_is_made_of_its_values(unprepared, source_address, metadata):
    """1. a tool copies the table under a name of its own and swaps both; 2. the table is renamed and copied;
    3. a reader begins after that, with what the one before has stored.
    """
    unique = "UNIQUE" if unprepared.engine == "mariadb" else ""
    address, processing = source_address(unprepared), processing_of(FILTER)
    start = end_of(unprepared, source_address)
    (before,) = unprepared.execute("SELECT @@GLOBAL.binlog_row_metadata")[0]
    unprepared.execute(f"SET GLOBAL binlog_row_metadata = {metadata}")
    try:
        unprepared.execute(
            f"CREATE TABLE app.customers {COLUMNS.format(unique)}",
            f"INSERT INTO app.customers {ROW.format(1)}",
            "CREATE TABLE app._customers_gho LIKE app.customers",
            f"INSERT INTO app._customers_gho {ROW.format(1)}",
            "RENAME TABLE app.customers TO app._customers_del, app._customers_gho TO app.customers",
            f"INSERT INTO app._customers_del {ROW.format(2)}",
            "CREATE TABLE app.copies LIKE app.customers",
            f"INSERT INTO app.copies {ROW.format(2)}",
            "RENAME TABLE app.customers TO app.archive",
            "CREATE TABLE app.last (id INT PRIMARY KEY)",
            "INSERT INTO app.last VALUES (1)",
        )
        definitions = definitions_of(address.name, of_app, always=True, protects=processing.protects)
        with reading(address, start=start, definitions=definitions) as recorder:
            await_rows(recorder, "last", 1)
        middle = end_of(unprepared, source_address)
        unprepared.execute(f"INSERT INTO app.archive {ROW.format(3)}", "INSERT INTO app.last VALUES (2)")
        again = definitions_of(address.name, of_app, always=True, protects=processing.protects)
        again.restore(definitions.news())
        with reading(address, start=middle, definitions=again) as later:
            await_rows(later, "last", 1)
    finally:
        unprepared.execute(f"SET GLOBAL binlog_row_metadata = {before}")
    tables, data = stored([*recorder.chunks, *later.chunks], processing)
    assert {table.name.table for table in tables} >= {
        "customers",
        "_customers_gho",
        "_customers_del",
        "copies",
        "archive",
    }
    assert SECRET.encode() not in data
    for table in tables:
        if table.name.table != "last":
            assert [each.name for each in table.rows.schema.field("after").type] == ["id", "mail", "t"]


def test_a_column_that_gave_its_name_to_another_stays_hidden(unprepared, source_address):
    """1. A new column takes the name of a masked one, in one statement, and in two; 2. rows change."""
    address, processing = source_address(unprepared), processing_of(FILTER)
    start = end_of(unprepared, source_address)
    unprepared.execute(
        "CREATE TABLE app.customers (id INT PRIMARY KEY, mail VARCHAR(99), t INT)",
        f"INSERT INTO app.customers VALUES (1, '{SECRET}', 1)",
        "ALTER TABLE app.customers ADD new VARCHAR(99)",
        "ALTER TABLE app.customers CHANGE mail old VARCHAR(99), CHANGE new mail VARCHAR(99)",
        "UPDATE app.customers SET t = 2",
        "ALTER TABLE app.customers CHANGE mail older VARCHAR(99)",
        "ALTER TABLE app.customers ADD mail VARCHAR(99)",
        "UPDATE app.customers SET t = 3",
        "CREATE TABLE app.last (id INT PRIMARY KEY)",
        "INSERT INTO app.last VALUES (1)",
    )
    definitions = definitions_of(address.name, of_app, always=True, protects=processing.protects)
    with reading(address, start=start, definitions=definitions) as recorder:
        await_rows(recorder, "last", 1)
    tables, data = stored(recorder.chunks, processing)
    assert SECRET.encode() not in data
    names = [[each.name for each in table.rows.schema.field("after").type] for table in tables]
    assert names.count(["id", "t", "mail"]) + names.count(["id", "mail", "t"]) == 3


def test_values_computed_of_a_mask_stay_hidden_when_plain(unprepared, source_address):
    """1. columns of computed values become plain; 2. a reader goes on with the stored history."""
    address, processing = source_address(unprepared), processing_of(FILTER)
    start = end_of(unprepared, source_address)
    columns = COLUMNS.format("").replace("(LOWER(mail))", "(LOWER(mail)) STORED")
    columns = columns.replace("t INT", "d VARCHAR(999) DEFAULT (CONCAT(mail, '!')), t INT")
    unprepared.execute(
        f"CREATE TABLE app.customers {columns} CHARACTER SET latin1",
        f"INSERT INTO app.customers {ROW.format(1)}",
        "ALTER TABLE app.customers MODIFY low VARCHAR(99), ALTER d DROP DEFAULT",
        "UPDATE app.customers SET t = 2",
        "ALTER TABLE app.customers CONVERT TO CHARACTER SET utf8mb4",
        "UPDATE app.customers SET t = 3",
        "CREATE TABLE app.last (id INT PRIMARY KEY)",
        "INSERT INTO app.last VALUES (1)",
    )
    definitions = definitions_of(address.name, of_app, always=True, protects=processing.protects)
    with reading(address, start=start, definitions=definitions) as recorder:
        await_rows(recorder, "last", 1)
    middle = end_of(unprepared, source_address)
    unprepared.execute(
        "ALTER TABLE app.customers CHANGE low copy VARCHAR(99), RENAME TO app.archive",
        "UPDATE app.archive SET t = 4",
        "INSERT INTO app.last VALUES (2)",
    )
    again = definitions_of(address.name, of_app, always=True, protects=processing.protects)
    again.restore(definitions.news())
    with reading(address, start=middle, definitions=again) as later:
        await_rows(later, "last", 1)
    tables, data = stored([*recorder.chunks, *later.chunks], processing)
    assert SECRET.encode() not in data
    names = [[each.name for each in table.rows.schema.field("after").type] for table in tables]
    assert names.count(["id", "mail", "t"]) == 4
    known = [table for table in again.tables() if table.table == "archive"]
    selected = SelectedTable.of(known[0], TableName("app", "archive"), again.ancestry(known[0].name))
    assert selected.schema.lineage.reading({"mail"}) == {"copy", "d"}


def test_check_warns_of_what_rules_do_not_cover(unprepared, source_address):
    unprepared.execute(
        f"CREATE TABLE app.customers {COLUMNS.format('')}",
        "CREATE TABLE app._customers_new (id INT PRIMARY KEY, mail TEXT)",
        "CREATE TABLE app.backup (mail TEXT)",
        "CREATE TABLE app.other (id INT)",
    )
    checks = check_filter(FILTER, source_address(unprepared))
    assert all(check.ok for check in checks)
    backup = "app.backup has no rule, and the columns of app.customers that rule 'app.customers' "
    backup += "masks or drops: mail"
    found = [check.found.replace("\\", "") for check in checks]
    assert found == [
        "rule 'app.customers' applies to app._customers_new, which has the name of a tool's copy",
        "column low of app.customers is left out: it reads mail, which rule 'app.customers' masks or drops",
        backup,
        "fits 2 tables",
    ]
    assert len(list(shown_now(source_address(unprepared), lambda schema, _: schema == "app"))) == 4


def test_the_refusal_of_a_statement_names_it_and_quotes_nothing(unprepared, source_address):
    start = end_of(unprepared, source_address)
    connection = unprepared.connect("app")
    with connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE customers {COLUMNS.format('')}")
        cursor.execute("SET SESSION binlog_format = 'STATEMENT'")
        cursor.execute(f"INSERT INTO customers {ROW.format(1)}")
    with (
        pytest.raises(
            UnsupportedEvent, match=r"changes rows: INSERT on app\.customers\. \(shard s1, QUERY"
        ) as caught,
        reading(source_address(unprepared), start=start, connects=False) as recorder,
    ):
        await_rows(recorder, "customers", 1)
    assert SECRET not in str(caught.value.to_dict())


LOSE_THE_NAME = {
    "more than are read": [f"RENAME TABLE app.customers /* {'x' * (1 << 20)} */ TO app.other"],
    "had more than 100 names": [
        "RENAME TABLE app.customers TO app.n0",
        *(f"RENAME TABLE app.n{number} TO app.n{number + 1}" for number in range(105)),
    ],
}


@pytest.mark.parametrize("why", LOSE_THE_NAME)
def test_a_table_that_would_lose_its_rule_stops_the_shard(unprepared, source_address, why):
    address, processing = source_address(unprepared), processing_of(FILTER)
    start = end_of(unprepared, source_address)
    unprepared.execute(
        "CREATE TABLE app.customers (id INT PRIMARY KEY, mail VARCHAR(99))",
        *LOSE_THE_NAME[why],
        "CREATE TABLE app.last (id INT PRIMARY KEY)",
        "INSERT INTO app.last VALUES (1)",
    )
    definitions = definitions_of(address.name, of_app, always=True, protects=processing.protects)
    with (
        pytest.raises(UnsupportedEvent, match=f"{why}.*columns of app"),
        reading(address, start=start, definitions=definitions) as recorder,
    ):
        await_rows(recorder, "last", 1)
