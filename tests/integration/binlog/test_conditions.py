"""A condition is what the server makes of it: random conditions on rows off the binlog, compared with SELECT.

Where the server has an error, such as an overflow, the rows are refused; where we refuse a condition, it is
before there are rows. Texts are of a binary collation: others compare by code points, see docs/filters.md.
"""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pymysql
import pytest
from support.soak import first_quick

from canal_group.binlog.files.binlog_files import BinlogFiles, files_in
from canal_group.binlog.server.server_lookup import ServerLookup
from canal_group.binlog.server.source import connect
from canal_group.conf.filters.expression_text import parse_expression
from canal_group.merge.rows.expressions.expression import columns_of, fulfilled
from canal_group.merge.values.chunk import TableName, mysql_type_of
from canal_group.merge.values.rows.moments import kept_of

#: the server's error of a number that does not fit
_OUT_OF_RANGE = 1690
CONDITIONS = 120
ROWS = 40
#: name -> type, and values as SQL
NUMBERS = {
    "t": ("TINYINT", "-128|127|0|1|100"),
    "tu": ("TINYINT UNSIGNED", "0|255|1|200"),
    "s": ("SMALLINT", "-32768|32767|0|7"),
    "m": ("MEDIUMINT UNSIGNED", "0|16777215|3"),
    "i": ("INT", "-2147483648|2147483647|0|5|-5"),
    "iu": ("INT UNSIGNED", "0|4294967295|2147483648|9"),
    # Not the smallest: MariaDB has no error of 0 - -9223372036854775808, and the same number as its result.
    "b": ("BIGINT", "-9223372036854775807|9223372036854775807|0|1|-1|4000000000"),
    "bu": ("BIGINT UNSIGNED", "0|18446744073709551615|9223372036854775808|2|3"),
    "y": ("YEAR", "0|1999|2024|2155"),
    "z": ("BIT(9)", "0|1|511|7"),
    "d": ("DECIMAL(10,2)", "-99999999.99|99999999.99|0|1.50|-0.01|100"),
    "e": ("DECIMAL(40,10)", "123456789012345678901234567890.0000000001|-1|0|2.5"),
    "f": ("FLOAT", "0.1|-1.5|0|1e30"),
    "g": ("DOUBLE", "0.1|-1.5|0|1e300|1e15"),
}
MOMENTS = {
    "da": (
        "DATE",
        "'0000-00-00'|'2026-00-15'|'2026-02-31'|'2026-02-28'|'2026-03-01'|'1000-01-01'|'0000-05-06'",
    ),
    "dt": (
        "DATETIME",
        "'0000-00-00 00:00:00'|'2026-02-31 10:00:00'|'2026-03-01 00:00:00'|'1969-12-31 23:59:59'",
    ),
    "df": ("DATETIME(6)", "'2026-00-00 01:02:03.5'|'2026-03-01 00:00:00.000001'|'2026-03-01 00:00:00'"),
    "ts": ("TIMESTAMP NULL", "'0000-00-00 00:00:00'|'2026-03-01 00:00:00'|'1970-01-02 00:00:00'"),
}
TIMES = {"ti": ("TIME(3)", "'-838:59:59'|'00:00:00'|'10:11:12.5'|'-00:00:01.5'")}
TEXTS = {
    "v": ("VARCHAR(20) COLLATE utf8mb4_bin", "''|'a'|'A'|'ab'|'é'|'b%'"),
    "n": ("ENUM('x', 'y', 'Z') COLLATE utf8mb4_bin", "'x'|'Z'|'y'"),
    "w": ("SET('p', 'q') COLLATE utf8mb4_bin", "''|'p'|'p,q'"),
}
COLUMNS = NUMBERS | MOMENTS | TIMES | TEXTS
CONSTANTS = {
    "number": "0|1|-1|2|255|256|2024|1.5|-0.01|1e0|0.1|4294967296|9223372036854775807|18446744073709551615"
    "|'5'|NULL|TRUE",
    "moment": "'2026-03-01'|'2026-02-28 00:00:00'|'0000-00-00'|'2026-03-01 00:00:00.000001'|NULL",
    "time": "'00:00:00'|'10:11:12.5'|'-00:00:01.5'|NULL",
    "text": "'a'|'A'|''|'x'|'p,q'|'é'|NULL",
}


class Conditions:
    """Random conditions in the syntax of filters."""

    def __init__(self, chance):
        self.chance = chance

    def condition(self, depth=0):
        chance = self.chance
        roll = chance.random()
        if depth < 2 and roll < 0.3:
            word = chance.choice(("AND", "OR"))
            return f"(({self.condition(depth + 1)}) {word} ({self.condition(depth + 1)}))"
        if roll < 0.4:
            return f"(NOT ({self.condition(depth + 1)}))"
        if roll < 0.5:
            return f"({self.condition(2)} IS {chance.choice(('TRUE', 'FALSE'))})"
        kind = chance.choice(("number", "number", "number", "moment", "moment", "time", "text"))
        shapes = ("{} IS NULL", "{} IN ({}, {})", "{} BETWEEN {} AND {}")
        compared = tuple(f"{{}} {each} {{}}" for each in ("=", "<>", "<", "<=", ">", ">=", "<=>"))
        return f"({chance.choice(shapes + compared).format(*(self.value(kind) for _ in range(3)))})"

    def value(self, kind, depth=0):
        chance = self.chance
        if kind == "number" and depth < 2 and chance.random() < 0.4:
            one, two = self.value(kind, depth + 1), self.value(kind, depth + 1)
            pairs = ("({0} + {1})", "({0} - {1})", "({0} * {1})", "({0} % {1})", "COALESCE({0}, {1})")
            return chance.choice((*pairs, "(-{0})", "ABS({0})", "({0} / 2e0)")).format(one, two)
        if kind == "text" and chance.random() < 0.2:
            return chance.choice(("CONCAT({}, '!')", "LEFT({}, 1)", "RIGHT({}, 1)")).format(
                self.value(kind, 2)
            )
        names = {"number": NUMBERS, "moment": MOMENTS, "time": TIMES, "text": TEXTS}[kind]
        return chance.choice(list(names) if chance.random() < 0.7 else CONSTANTS[kind].split("|"))


def written(server, chance):
    """Make a table with random values, and return a cursor for questions about it."""
    server.execute("DROP DATABASE IF EXISTS app", "CREATE DATABASE app", "FLUSH BINARY LOGS")
    connection = server.connect()
    cursor = connection.cursor()
    cursor.execute(
        "SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00', collation_connection = utf8mb4_bin"
    )
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    cursor.execute(f"CREATE TABLE app.c (id INT PRIMARY KEY, {columns}) CHARSET utf8mb4")
    for row in range(ROWS):
        values = [chance.choice([*listed.split("|"), "NULL"]) for _, listed in COLUMNS.values()]
        cursor.execute(f"INSERT INTO app.c VALUES ({row}, {', '.join(values)})")
    return contextlib.closing(connection), cursor


def read(server, source_address):
    """Return the columns of the table's rows as the binlog has them, and their types."""
    address = source_address(server, user="root", password=server.password)
    only = lambda schema, table: TableName(schema, table) if (schema, table) == ("app", "c") else None  # noqa: E731
    with contextlib.closing(connect(address)) as connection:
        lookup = ServerLookup(address, connection)
        files = files_in(Path(server.folder) / "data")[-1:]
        batches = [table.rows for chunk in BinlogFiles(files, only, lookup=lookup) for table in chunk.tables]
    (rows,) = batches
    image = rows.column("after")
    types = {field.name: mysql_type_of(field) for field in image.type}
    return dict(zip(types, image.flatten(), strict=True)), types


class Compared:
    """Counts of what was compared."""

    def __init__(self, cursor, columns, types):
        self.cursor, self.columns, self.types = cursor, columns, types
        self.refused = self.errors = self.agreed = 0

    def compare(self, condition):
        expression = parse_expression(condition)
        try:
            fulfilled(expression, {name: array[:0] for name, array in self.columns.items()}, 0, self.types)
        except (pa.ArrowException, NotImplementedError):
            self.refused += 1
            return
        theirs = self.selected(condition, "")
        if theirs is not None:
            assert self.computed(expression, np.ones(ROWS, bool)) == theirs, condition
            self.agreed += 1
            return
        unfit = 0
        for row in range(ROWS):
            mine, theirs = (
                self.computed(expression, np.arange(ROWS) == row),
                self.selected(condition, f"WHERE id + 0 = {row}"),
            )
            # A NULL on the left decides; servers may compute the rest all the same.
            fine = mine == theirs or (theirs is None and self.has_null(expression, row))
            assert fine, (condition, {name: self.columns[name][row] for name in columns_of(expression)})
            unfit += mine is theirs is None
        self.errors += unfit > 0

    def has_null(self, expression, row):
        nulls = [not self.columns[name][row].is_valid for name in columns_of(expression)]
        made = ("Constant(value=None)", "operator='%'", "operator='/'")
        return any(nulls) or any(each in str(expression) for each in made)

    def selected(self, condition, where):
        """Return the server's answer for rows; None: it has an error."""
        try:
            self.cursor.execute(f"SELECT ({condition}) IS TRUE FROM app.c {where} ORDER BY id")
        except pymysql.MySQLError as error:
            if error.args[0] != _OUT_OF_RANGE:
                raise
            return None
        return [bool(value) for (value,) in self.cursor.fetchall()]

    def computed(self, expression, kept):
        columns = {name: kept_of(array, kept) for name, array in self.columns.items()}
        try:
            return fulfilled(expression, columns, int(kept.sum()), self.types).to_pylist()
        except pa.ArrowException:
            return None


@pytest.mark.parametrize("seed", first_quick(1, range(60)))
@pytest.mark.parametrize("server", ["mariadb", "mysql"], indirect=True)
def test_a_condition_is_what_the_server_makes_of_it(server, seed, source_address):
    chance = random.Random(seed)
    closing, cursor = written(server, chance)
    with closing:
        columns, types = read(server, source_address)
        compared = Compared(cursor, columns, types)
        conditions = Conditions(chance)
        for _ in range(CONDITIONS):
            compared.compare(conditions.condition())
    assert compared.agreed > CONDITIONS // 4
    assert compared.errors
