"""What a statement costs, whatever it says: time in proportion to its length, and little memory.

Time is counted: the calls of Python and of what is compiled. What the compiled lexer does in one call is
timed, as a ratio, because it has nothing to count.
"""

from __future__ import annotations

import contextlib
import sys
import time
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given, settings, target
from hypothesis import strategies as st
from support.soak import cases, first_quick

from canal_group.binlog.grammar.tables import statement_id
from canal_group.binlog.schema.catalog import Catalog
from canal_group.binlog.schema.clauses.tokens import UnreadableError
from canal_group.binlog.schema.clauses.words import Words
from canal_group.binlog.schema.named import named_in
from canal_group.binlog.schema.statement import ServerVersion, Statement
from canal_group.binlog.statements.statement_reader import read_control, read_statement
from canal_group.merge.values.chunk import TableName

MARIADB, MYSQL = ServerVersion.parse("10.11.6-MariaDB"), ServerVersion.parse("9.7.4")
UTF8MB4 = 45
#: times the length, and bytes that no statement exceeds by
MEMORY_FACTOR, MEMORY_BYTES = 16, 8 << 20
#: calls for a character, and those that do not depend on the length
CALLS_FACTOR, CALLS = 250, 4_000

#: accents that stand in another order once they are normalized as a whole
MARKS = "\u0301\u0316"

BEGINNINGS = (
    "CREATE TABLE t (a INT",
    "CREATE TABLE t (a INT DEFAULT 1",
    "CREATE TABLE t (a ENUM('a'",
    "CREATE TABLE t (a INT) COMMENT 'x' ",
    "CREATE TABLE t (a VARCHAR(",
    "CREATE OR REPLACE TABLE t AS ",
    "CREATE TEMPORARY TABLE t SELECT ",
    "CREATE UNIQUE INDEX i ON t (a",
    "CREATE VIEW v AS SELECT ",
    "CREATE DATABASE d ",
    "CREATE PROCEDURE p() BEGIN ",
    "ALTER TABLE t ",
    "ALTER TABLE t ADD a INT ",
    "ALTER TABLE t RENAME ",
    "DROP TABLE t",
    "DROP INDEX i ",
    "RENAME TABLE a TO b",
    "SET STATEMENT a = 1, ",
    "INSERT INTO t VALUES ",
    "SAVEPOINT `",
    "XA START ",
    "",
)
PARTS = (
    *(
        "'",
        "''",
        '"',
        "`",
        "``",
        "\\",
        "'x'",
        "--",
        "-- ",
        "#",
        "\n",
        "/*",
        "*/",
        "/*!",
        "/*!50000 x */",
        "/*M!",
    ),
    *(
        "(",
        ")",
        "()",
        ",",
        ".",
        ";",
        "0",
        "9",
        "1.",
        "e",
        "a",
        " a",
        "\u0301",
        "\U0001f600",
        "x'",
        "b'",
        "0x",
        "@",
    ),
    *(
        ", a INT",
        ", KEY (a)",
        ", 'a'",
        ", a",
        ", ADD a INT AFTER b",
        ", RENAME TO c",
        ", a TO b",
        "NULL ",
        "FOR ",
    ),
    *(
        "SELECT ",
        "RENAME ",
        "TABLE ",
        "AS ",
        "WITH ",
        "CASE ",
        "END ",
        "DEFAULT ",
        "CHECK ",
        "PARTITION ",
        "ON ",
    ),
)


@st.composite
def statements(draw: st.DrawFn) -> tuple[str, str, str, str]:
    """Return a beginning, what is repeated, what is nested in it, and an end."""
    repeated = "".join(draw(st.lists(st.sampled_from(PARTS), min_size=1, max_size=3)))
    closing = "".join(draw(st.lists(st.sampled_from(("", ")", "'", "`", "*/", " END")), max_size=2)))
    return (
        draw(st.sampled_from(BEGINNINGS)),
        repeated,
        closing,
        draw(st.sampled_from(("", ")", "'", ";", " x"))),
    )


def text_of(parts: tuple[str, str, str, str], chars: int) -> str:
    beginning, repeated, closing, end = parts
    times = max(1, chars // len(repeated + closing))
    return beginning + repeated * times + closing * times + end


def read(statement: Statement) -> None:
    """Do all that is done with a statement: nothing of it may raise."""
    read_control(statement.sql)
    read_statement(statement)
    named_in(statement)
    statement_id("ALTER", TableName("app", "t"), TableName("app", "t"), statement, TableName)
    known = Catalog(UTF8MB4)
    known.set_schema("app", UTF8MB4)
    known.apply(Statement("CREATE TABLE t (a INT, b INT, c VARCHAR(9))", "app", statement.server))
    known.apply(statement)
    nothing = Catalog(UTF8MB4)
    nothing.forget_all("Nothing is known.")
    nothing.apply(statement)


def calls(statement: Statement) -> int:
    """Return how many calls reading takes."""
    counted = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal counted
        counted += event.endswith("call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        read(statement)
    finally:
        sys.setprofile(before)
    return counted


@settings(max_examples=cases(100), deadline=None)
@given(parts=statements(), server=st.sampled_from((MARIADB, MYSQL)), chars=st.integers(50, 3_000))
def test_a_statement_costs_as_much_as_it_is_long(parts, server, chars):
    statement = Statement(text_of(parts, chars), "app", server)
    found = calls(statement)
    target(found / (CALLS_FACTOR * len(statement.sql) + CALLS))
    assert found <= CALLS_FACTOR * len(statement.sql) + CALLS


@settings(max_examples=cases(60), deadline=None)
@given(parts=statements(), server=st.sampled_from((MARIADB, MYSQL)), chars=st.integers(1_000, 60_000))
def test_a_statement_takes_little_memory(parts, server, chars):
    statement = Statement(text_of(parts, chars), "app", server)
    tracemalloc.start()
    try:
        read(statement)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= MEMORY_FACTOR * len(statement.sql.encode(errors="surrogatepass")) + MEMORY_BYTES


@pytest.mark.parametrize(
    "sql",
    first_quick(
        1,
        [
            f"CREATE TABLE t ({','.join(f'c{number} INT' for number in range(25_000))})",
            f"CREATE TABLE t (a INT{', KEY (a)' * 25_000})",
            f"CREATE TABLE t (a ENUM({','.join(f'{chr(39)}v{number}{chr(39)}' for number in range(9_999))}))",
            f"ALTER TABLE t {', ADD c INT' * 25_000}",
            f"RENAME TABLE {','.join(f'a{number} TO b{number}' for number in range(25_000))}",
            f"DROP TABLE {','.join(f't{number}' for number in range(25_000))}",
            f"ALTER TABLE t {','.join(f'RENAME TO t{number}' for number in range(50_000))}",
        ],
    ),
    ids=lambda sql: sql[:24],
)
def test_long_lists_take_little_memory(sql):
    tracemalloc.start()
    try:
        read(Statement(sql, "app", MARIADB))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= MEMORY_FACTOR * len(sql) + MEMORY_BYTES


def lexed(sql: str) -> None:
    """Read a statement with the lexer alone."""
    with contextlib.suppress(UnreadableError):
        Words(Statement(sql, "app", MARIADB))


def seconds(run: Callable[[str], object], sql: str) -> float:
    """Return how much processor time something takes, the least of five times."""
    taken = []
    for _ in range(5):
        begun = time.thread_time()
        run(sql)
        taken.append(time.thread_time() - begun)
    return min(taken)


@pytest.mark.parametrize(
    ("before", "repeated"),
    [
        ("DROP INDEX i --", "'"),
        ("'", "''"),
        ("'", "\\'"),
        ("`", "``"),
        ("", "/*!50000 x */"),
        ("", "/*!99999 /* */ */"),
        ("/*!99999 ", "/* */"),
        ("/*", "/*"),
        ("x'", "a"),
        ("x'", "ax'"),
        ("b'", "0"),
        ("0x", "a"),
        ("1.", "1"),
        ("", "1."),
        ("", "1e"),
        ("", "--"),
        ("a", ";"),
        ("", "N"),
    ],
)
def test_the_lexer_reads_each_character_once(before, repeated):
    """Four times the length costs four times as much, and would cost 16 times as much if it went back."""
    one, four = (seconds(lexed, before + repeated * (size // len(repeated))) for size in (200_000, 800_000))
    assert four < 9 * one + 0.002


def test_the_accents_of_a_savepoints_name_are_not_sorted():
    one, four = (seconds(read_control, f"SAVEPOINT `{MARKS * size}`") for size in (1_000, 4_000))
    assert four < 9 * one + 0.002


@pytest.mark.parametrize(
    "sql",
    [
        f"CREATE TABLE t (a VARCHAR({'0' * 5_000}5))",
        f"CREATE TABLE t (a VARCHAR({'9' * 5_000}))",
        f"CREATE TABLE t (a INT CHECK ({'(' * 200_000}1{')' * 200_000}))",
        f"DROP INDEX i --{chr(39) * 60_000}",
        f"ALTER TABLE t {'RENAME TO a, ' * 20_000}",
        f"RENAME TABLE {','.join(f'a{number} TO b{number}' for number in range(20_000))}",
        f"SAVEPOINT `a{chr(0x301) * 60_000}{chr(0x316) * 60_000}`",
    ],
    ids=lambda sql: sql[:24],
)
def test_no_text_makes_its_reader_fail(sql):
    read(Statement(sql, "app", MARIADB))
