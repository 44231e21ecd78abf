"""Session tables: which statements are about temporary tables that their sessions have logged."""

from __future__ import annotations

import pytest

from canal_group.binlog.formats.events import THREAD_SPECIFIC_FLAG, Query
from canal_group.binlog.schema.statement import ServerVersion, Statement
from canal_group.binlog.statements.session_tables import TABLES_MAX, SessionTables

MARIADB = ServerVersion.parse("10.11.6-MariaDB-log")


def taken(tables, session, *statements):
    return [tables.take(session, Statement(sql, "app", MARIADB)) for sql in statements]


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE t ADD b INT",
        "ALTER TABLE app.t ADD b INT",
        "CREATE INDEX i ON t (a)",
        "DROP INDEX i ON t",
        "TRUNCATE t",
        "RENAME TABLE t TO u",
        "CREATE TABLE n LIKE t",
    ],
)
def test_a_statement_is_about_a_table_that_its_own_session_has_made(sql):
    tables = SessionTables()
    assert taken(tables, 1, sql) == [False]
    assert taken(tables, 1, "CREATE TEMPORARY TABLE IF NOT EXISTS t (a INT)") == [True]
    assert taken(tables, 2, sql) == [False]
    assert taken(tables, 1, sql) == [True]


def test_a_temporary_table_has_its_new_name_and_ends_with_its_drop():
    tables = SessionTables()
    taken(tables, 1, "CREATE TEMPORARY TABLE t (a INT)", "RENAME TABLE t TO u")
    assert taken(tables, 1, "TRUNCATE t", "TRUNCATE u") == [False, True]
    taken(tables, 1, "DROP TEMPORARY TABLE IF EXISTS `x`, `u`")
    assert taken(tables, 1, "TRUNCATE u") == [False]
    taken(tables, 1, "CREATE TEMPORARY TABLE u (a INT)", "DROP TABLE u")
    assert taken(tables, 1, "TRUNCATE u") == [False]
    taken(tables, 1, "CREATE TEMPORARY TABLE u (a INT)")
    tables.clear()
    assert taken(tables, 1, "TRUNCATE u") == [False]


def test_statements_are_looked_at_while_temporary_tables_are_known():
    tables = SessionTables()
    assert not tables.may_concern(Query("app", "RENAME TABLE t TO u"))
    assert tables.may_concern(Query("app", "RENAME TABLE t TO u", flags=THREAD_SPECIFIC_FLAG))
    taken(tables, 1, "CREATE TEMPORARY TABLE t (a INT)")
    assert tables.may_concern(Query("app", "RENAME TABLE t TO u"))


def test_the_oldest_of_too_many_temporary_tables_is_forgotten():
    tables = SessionTables()
    taken(tables, 1, *(f"CREATE TEMPORARY TABLE t{number} (a INT)" for number in range(TABLES_MAX + 1)))
    assert taken(tables, 1, "TRUNCATE t0", "TRUNCATE t1", f"TRUNCATE t{TABLES_MAX}") == [False, True, True]


@pytest.mark.parametrize("end", ["/* no end", "'no end", "`no end"])
@pytest.mark.parametrize(
    "begin", ["CREATE TEMPORARY TABLE u", "CREATE TABLE u LIKE t", "DROP TEMPORARY TABLE u"]
)
def test_a_statement_that_cannot_be_read_changes_nothing(begin, end):
    tables = SessionTables()
    taken(tables, 1, "CREATE TEMPORARY TABLE t (a INT)", f"{begin} {end}")
    assert taken(tables, 1, "TRUNCATE t", "TRUNCATE u") == [True, False]
