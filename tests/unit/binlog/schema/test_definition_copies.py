"""A definition is copied by `dataclasses.replace` alone, so a field that is added later is not lost."""

from __future__ import annotations

import ast
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from canal_group.binlog.schema.catalog import Catalog
from canal_group.binlog.schema.definition import ColumnDefinition, Key, TableDefinition
from canal_group.binlog.schema.statement import ServerVersion, Statement

ROOT = Path(__file__).parents[4]
CLASSES = (ColumnDefinition, TableDefinition, Key)
FIELDS = {each.__name__: {field.name for field in fields(each)} for each in CLASSES}
#: fields of one object that a call may take over: a schema and a table's name are no copy
TAKEN_OVER_MAX = 2
SERVERS = {each: ServerVersion.parse(each) for each in ("9.7.4", "10.11.6-MariaDB")}
MARK = "mark"


@dataclass(frozen=True, slots=True)
class MarkedColumn(ColumnDefinition):
    mark: str = ""


@dataclass(frozen=True, slots=True)
class MarkedKey(Key):
    mark: str = ""


@dataclass(frozen=True, slots=True)
class MarkedTable(TableDefinition):
    mark: str = ""


COLUMNS = tuple(
    MarkedColumn(name, kind, collation=collation, nullable=name != "id", mark=MARK)
    for name, kind, collation in (
        ("id", "int", 63),
        ("a", "text", 8),
        ("b", "datetime", 63),
        ("c", "datetime", 63),
    )
)
KEYS = (
    MarkedKey("u", ("a", "b"), unique=True, prefixes=(3, 0), mark=MARK),
    MarkedKey("k", ("c",), mark=MARK),
)
TABLE = MarkedTable("app", "t", COLUMNS, ("id",), 8, KEYS, mark=MARK)

STATEMENTS = """
both: ALTER TABLE t ADD d INT, ADD KEY n (d)
both: ALTER TABLE t ADD d INT FIRST
both: ALTER TABLE t DROP b
both: ALTER TABLE t MODIFY b DATE AFTER id
both: ALTER TABLE t CHANGE b d DATE
both: ALTER TABLE t RENAME COLUMN a TO d
both: ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a
both: ALTER TABLE t ALTER b SET DEFAULT (NOW())
both: ALTER TABLE t ALTER b DROP DEFAULT
mysql: ALTER TABLE t ALTER b SET INVISIBLE
both: ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4
both: ALTER TABLE t CONVERT TO CHARACTER SET binary
both: ALTER TABLE t DEFAULT CHARACTER SET utf8mb4
both: ALTER TABLE t ENGINE = MyISAM
both: ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (b)
both: ALTER TABLE t DROP KEY k, RENAME KEY u TO v
both: ALTER TABLE t ADD CONSTRAINT FOREIGN KEY (c) REFERENCES o (x)
both: ALTER TABLE t RENAME TO t2
both: ALTER TABLE t ORDER BY b
mariadb: ALTER TABLE t ADD SYSTEM VERSIONING
mariadb: ALTER TABLE t ADD PERIOD FOR p (b, c)
mariadb: ALTER TABLE t CONVERT PARTITION p TO TABLE t2
both: RENAME TABLE t TO t2
both: CREATE TABLE t2 LIKE t
both: CREATE UNIQUE INDEX n ON t (c)
both: DROP INDEX k ON t
"""


@pytest.mark.parametrize("line", STATEMENTS.strip().splitlines())
def test_a_field_of_a_definition_outlives_a_statement(line):
    vendor, _, sql = line.partition(": ")
    for version in SERVERS.values():
        if vendor == "both" or version.mariadb is (vendor == "mariadb"):
            require_marked(sql, version)


def require_marked(sql, version):
    made = Catalog(255)
    made.set_schema("app", 255)
    made.set(TABLE)
    record = made.apply(Statement(sql, "app", version))
    assert not record.reason
    for table in made.tables():
        new = {"d", "b"} if " MODIFY" in sql else set() if "RENAME COLUMN" in sql else {"d"}
        assert {MARK} == {table.mark, *(each.mark for each in table.columns if each.name not in new)}
        assert {MARK} == {each.mark for each in table.keys if each.name in ("u", "v", "k")}


def copies(source):
    """Yield the lines of calls that take over several fields of one definition."""
    nodes = list(ast.walk(ast.parse(source)))
    arguments = [each for each in nodes if isinstance(each, ast.arg) and each.annotation is not None]
    # One that is made of another class is no copy.
    others = {each.arg for each in arguments if ast.unparse(each.annotation) not in FIELDS}
    for call in nodes:
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in FIELDS:
            values = (*call.args, *(keyword.value for keyword in call.keywords))
            taken = [
                each.value.id
                for each in values
                if isinstance(each, ast.Attribute)
                and isinstance(each.value, ast.Name)
                and each.attr in FIELDS[call.func.id]
            ]
            if any(taken.count(name) > TAKEN_OVER_MAX for name in {*taken} - others):
                yield call.lineno


@pytest.mark.parametrize(
    "source",
    [
        "def f(c: ColumnDefinition):\n    return ColumnDefinition(c.name, c.type, collation=c.collation)",
        "def f(c):\n    return Key(c.name, c.columns, c.unique)",
        "t = TableDefinition(s.schema, s.table, s.columns)",
    ],
)
def test_a_copy_field_by_field_is_found(source):
    assert list(copies(source))


def test_no_definition_is_copied_field_by_field():
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for room in ("actors", "binlog", "merge", "programs")
        for path in sorted((ROOT / room).rglob("*.py"))
        for text in [path.read_text()]
        if any(f"{name}(" in text for name in FIELDS)
        for line in copies(text)
    ]
    assert not found, "copy by dataclasses.replace"
