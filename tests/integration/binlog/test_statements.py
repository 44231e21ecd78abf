"""Statements that real servers log as text: what changes rows is known, and nothing else is refused."""

from __future__ import annotations

import contextlib

import pymysql
import pytest
from support.deadline import await_true
from support.defaults import definitions_of
from support.soak import first_quick
from support.sources.recorder import of_app, reading

from canal_group.binlog.files.binlog_files import BinlogFiles
from canal_group.binlog.schema.clauses.beginnings import BEGINNINGS
from canal_group.binlog.statements.native_functions import NATIVE, NO_CALL
from canal_group.merge.errors import UnsupportedEvent
from canal_group.merge.values.chunk import StatementKind

TABLES = (
    "CREATE TABLE app.t (id INT, v INT)",
    "CREATE TABLE app.src (id INT)",
    "CREATE TABLE app.log (id INT)",
    "CREATE FUNCTION app.f() RETURNS INT BEGIN INSERT INTO app.log VALUES (7); RETURN 1; END",
    "CREATE PROCEDURE app.p() INSERT INTO app.log VALUES (8)",
    "CREATE TRIGGER app.tr AFTER INSERT ON app.src FOR EACH ROW INSERT INTO app.log VALUES (9)",
    "INSERT INTO app.t VALUES (100, 1)",
)
STATEMENTS = (
    "INSERT INTO t VALUES (1, 1)",
    "REPLACE INTO t VALUES (1, 1)",
    "UPDATE t SET v = 9",
    "DELETE FROM t WHERE id = 100",
    "/* app */ -- x\n UPDATE t SET v = 9",
    "/*!50000 INSERT INTO t VALUES (1, 1) */",
    "/*!99999 INSERT INTO t VALUES (1, 1) */ FLUSH TABLES",
    "(SELECT f())",
    "SELECT f()",
    "DO f()",
    "SET @a = f()",
    "WITH x AS (SELECT 1) SELECT f() FROM x",
    "SHOW TABLES WHERE f() = 1",
    "CALL p()",
    "INSERT INTO src VALUES (1)",
    "CREATE TABLE c SELECT * FROM t",
    "CREATE TABLE c (id INT) IGNORE AS SELECT id FROM t",
    "CREATE TABLE c WITH q AS (SELECT id FROM t) SELECT * FROM q",
    "CREATE TABLE c LIKE t",
    "CREATE TABLE c (`select` INT AS (1)) COMMENT 'AS SELECT'",
    "CREATE TEMPORARY TABLE c SELECT COUNT(*), MAX(v) FROM t WHERE id IN (1, 100) GROUP BY id",
    "CREATE TEMPORARY TABLE c SELECT f()",
    "CREATE VIEW c AS SELECT f()",
    "FLUSH TABLES",
    "OPTIMIZE TABLE t",
    "ANALYZE TABLE t",
    "CREATE USER u@'%'",
    "DROP USER u@'%'",
)
OF_MARIADB = (
    "SET STATEMENT max_statement_time = 10 FOR INSERT INTO t VALUES (1, 1)",
    "ANALYZE INSERT INTO t VALUES (1, 1)",
    "ANALYZE FORMAT = JSON UPDATE t SET v = 9",
    "EXECUTE IMMEDIATE 'INSERT INTO t VALUES (1, 1)'",
    "BEGIN NOT ATOMIC INSERT INTO t VALUES (1, 1); END",
    "/*M!100000 INSERT INTO t VALUES (1, 1) */",
    "CREATE OR REPLACE TABLE t AS SELECT 1 id, 2 v",
    "VALUES (f())",
    "DELETE HISTORY FROM t",
)
OF_MYSQL = (
    "TABLE t",
    "CREATE TABLE c TABLE t",
    "CREATE TABLE c VALUES ROW(1), ROW(2)",
    "WITH x AS (SELECT 100 id) UPDATE t JOIN x USING (id) SET v = 9",
)


on_both = pytest.mark.parametrize("server", ["mariadb", "mysql"], indirect=True)


def rows_of(cursor):
    """Return the rows of all tables."""
    cursor.execute("SHOW FULL TABLES FROM app WHERE Table_type = 'BASE TABLE'")
    found = {}
    for name, _ in cursor.fetchall():
        cursor.execute(f"SELECT * FROM app.`{name}`")
        found[name] = cursor.fetchall()
    return {name: rows for name, rows in found.items() if rows}


def logged(server, form, sql):
    """Run a statement; return whether it changed rows, and what of that is in the binlog."""
    with contextlib.closing(server.connect()) as connection, connection.cursor() as cursor:
        for each in ("DROP DATABASE app", "CREATE DATABASE app", *TABLES, "FLUSH BINARY LOGS", "USE app"):
            cursor.execute(each)
        before = rows_of(cursor)
        cursor.execute("SHOW BINARY LOGS")
        file = server.folder / "data" / cursor.fetchall()[-1][0]
        cursor.execute(f"SET SESSION binlog_format = '{form}'")
        with contextlib.suppress(pymysql.MySQLError):  # MySQL refuses to call a function in some of them
            cursor.execute(sql)
        changed = rows_of(cursor) != before
    server.execute("FLUSH BINARY LOGS")
    chunks = list(BinlogFiles([file], of_app, verbatim=True))
    kinds = [source.kind for chunk in chunks for source in chunk.statement_sources]
    return changed, StatementKind.ROWS in kinds, any(chunk.tables for chunk in chunks)


@on_both
@pytest.mark.parametrize("form", first_quick(1, ["STATEMENT", "MIXED", "ROW"]))
def test_what_changes_rows_is_in_the_binlog_as_rows_or_is_refused(server, form):
    server.execute("SET GLOBAL log_bin_trust_function_creators = 1")
    statements = (*STATEMENTS, *(OF_MARIADB if server.engine == "mariadb" else OF_MYSQL))
    wrong = {}
    for sql in statements:
        changed, refused, rows = logged(server, form, sql)
        if changed != (refused or rows) or (form == "ROW" and refused):
            wrong[sql] = changed, refused, rows
    # MariaDB logs it, whether there was history to delete or not.
    assert wrong.keys() <= {"DELETE HISTORY FROM t"}
    server.execute("DROP DATABASE app", "DROP USER IF EXISTS u@'%'", "CREATE DATABASE app")


@on_both
def test_a_table_that_is_filled_by_a_statement_stops_the_stream(server, source_address):
    server.execute("CREATE TABLE app.t (id INT)", "INSERT INTO app.t VALUES (1)")

    def run():
        with reading(source_address(server)) as recorder:
            server.execute(
                "SET SESSION binlog_format = 'STATEMENT'", "CREATE TABLE app.c SELECT * FROM app.t"
            )
            await_true(lambda: recorder.error, "the stream stops")

    with pytest.raises(
        UnsupportedEvent, match=r"CREATE TABLE on app\.c\. .*shard s1, QUERY .*:\d+"
    ) as caught:
        run()
    assert "binlog_format=ROW" in caught.value.hint


@on_both
def test_a_temporary_table_that_hides_a_table(server, source_address):
    """Its statements change no definition, and are not those of the table."""
    address = source_address(server)
    definitions = definitions_of(address.name, of_app)
    with reading(address, definitions=definitions) as recorder:
        server.execute("CREATE TABLE app.t (a INT, b INT)", "INSERT INTO app.t VALUES (1, 2)")
        server.execute(
            "SET SESSION binlog_format = 'STATEMENT'",
            "CREATE TEMPORARY TABLE t SELECT 7 a, 8 b",
            "ALTER TABLE t RENAME COLUMN a TO x",
            "ALTER TABLE t RENAME COLUMN b TO a",
            "CREATE INDEX i ON t (a)",
            "DROP INDEX i ON t",
            "TRUNCATE TABLE t",
            "ALTER TABLE t RENAME TO u",
            "DROP TABLE u",
            database="app",
        )
        server.execute(
            "INSERT INTO app.t VALUES (1, 2)",
            "ALTER TABLE app.t ADD c INT",
            "INSERT INTO app.t VALUES (1, 2, 3)",
        )
        await_true(lambda: len(recorder.rows("t")) == 3, "the rows come")
    assert [row["after"] for row in recorder.rows("t")] == [{"a": 1, "b": 2}] * 2 + [{"a": 1, "b": 2, "c": 3}]
    told = [(each["op"], each["table"]) for each in recorder.statements]
    assert [each for each in told if each != ("QUERY", "")] == [("CREATE", "t"), ("ALTER", "t")]
    assert len(told) == 10


@on_both
def test_every_word_that_can_begin_a_statement_is_known(server):
    """A server says of a word that cannot begin a statement that the syntax is wrong near this word."""
    with contextlib.closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT WORD FROM information_schema.KEYWORDS")
        words = [str(word) for (word,) in cursor.fetchall() if str(word).isidentifier()]
        assert len(words) > 500
        unknown = []
        for word in words:
            try:
                cursor.execute("PREPARE p FROM %s", (word,))
            except pymysql.MySQLError as error:
                code, text = error.args
                if code == 1064 and f"near '{word}'" in text:
                    continue
            unknown += [word] if word not in {beginning[0] for beginning in BEGINNINGS} else []
        assert unknown == []


def test_native_functions_are_those_of_the_server(mariadb):
    """A call of any of them is read as one, whatever stored functions there are."""
    with contextlib.closing(mariadb.connect("app")) as connection, connection.cursor() as cursor:
        stored = []
        for name in (*NATIVE.split(), *NO_CALL.split()):
            for arguments in ("", "1", "1, 2", "1, 2, 3"):
                with contextlib.suppress(pymysql.MySQLError):
                    cursor.execute(f"PREPARE p FROM 'SELECT {name}({arguments})'")
                    break
            else:
                try:
                    cursor.execute(f"PREPARE p FROM 'SELECT {name}(1)'")
                except pymysql.MySQLError as error:
                    stored += [name] if error.args[0] == 1305 else []
        assert stored == []
