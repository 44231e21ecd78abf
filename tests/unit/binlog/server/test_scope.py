"""Which statements are read to the end, and what is known after those that are not."""

from __future__ import annotations

import json

import pytest

from canal_group.binlog.formats.events import Query
from canal_group.binlog.history.facts import Change, LogPosition, Present, fact_from_json
from canal_group.binlog.history.history import SchemaHistory
from canal_group.binlog.schema import applying
from canal_group.binlog.schema.catalog import Catalog
from canal_group.binlog.schema.clauses import words
from canal_group.binlog.schema.definition import SourceName, TableDefinition, UnknownTable
from canal_group.binlog.schema.named import NAMES_MAX
from canal_group.binlog.schema.statement import ServerVersion
from canal_group.binlog.server.definitions.scope import Scope
from canal_group.merge.errors import UnsupportedEvent
from canal_group.merge.values.chunk import TableName

MARIADB = ServerVersion.parse("10.11.6-MariaDB")
UTF8MB4 = 45
KEPT, GHOST, THEIRS = SourceName("shop", "orders"), SourceName("shop", "_orders_gho"), SourceName("own", "x")


def of_shop(schema, table):
    return TableName(schema, table) if (schema, table) == KEPT else None


def make():
    return Catalog(UTF8MB4)


class Source:
    """A source's statements, read as a shard reads them."""

    def __init__(self, chars_max=1 << 20, exists=(KEPT,)):
        self.scope = Scope(of_shop, chars_max)
        self.scope.see(*exists)
        self.history = SchemaHistory(make)
        self.history.begin(LogPosition("7", "binlog.000001", 100), Present([], [], {"shop": UTF8MB4}, []))
        self.history.first.set_schema("own", UTF8MB4)
        self.end = 100

    def change(self, sql, schema="shop", **options):
        self.end += 100
        end = LogPosition("7", "binlog.000001", self.end)
        return self.scope.change(end, Query(schema, sql), MARIADB, **options)

    def run(self, *statements, schema="shop"):
        for sql in statements:
            self.history.apply(self.change(sql, schema))
        return self

    def columns(self, name=KEPT):
        found = self.history.table(*name)
        if isinstance(found, UnknownTable):
            return found.reason
        return [each.name for each in found.columns] if isinstance(found, TableDefinition) else None


@pytest.mark.parametrize(
    ("sql", "schema"),
    [
        ("CREATE TABLE x (id INT)", "own"),
        ("ALTER TABLE x ADD a INT", "own"),
        ("ALTER TABLE own.y RENAME TO own.x", "shop"),
        ("CREATE INDEX i ON own.x (a)", "shop"),
        ("DROP INDEX i ON own.x", "shop"),
        ("CREATE VIEW x AS SELECT 1", "own"),
        ("RENAME TABLE y TO x", "own"),
        ("SET STATEMENT a = 1, b = (SELECT 2 FOR UPDATE) FOR ALTER TABLE own.x ADD a INT", "shop"),
        ("/* *//*!50000 CREATE */ TABLE x (id INT)", "own"),
        ("DROP TABLE IF EXISTS own.x, own.y", "shop"),
    ],
)
def test_what_concerns_no_kept_table_is_not_read(sql, schema):
    source = Source().run("CREATE TABLE orders (id INT)")
    change = source.change(sql, schema)
    assert change.unread
    assert THEIRS in change.touches.names
    assert KEPT not in change.touches.names
    source.history.apply(change)
    assert "was not read" in source.columns(THEIRS)
    assert source.columns() == ["id"]


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE _orders_gho LIKE orders",
        "CREATE TABLE own.x (LIKE shop.orders)",
        "ALTER TABLE `_orders_gho` ADD a INT",
        "RENAME TABLE own.x TO shop.orders",
        "ALTER TABLE own.x RENAME shop.orders",
        "CREATE TABLE shop.other (id INT)",
        "DROP TABLE own.x, shop.orders",
        "CREATE DATABASE another",
        "DROP DATABASE own",
    ],
)
def test_what_may_concern_a_kept_table_is_read(sql):
    assert not Source().change(sql).unread


def test_a_copy_that_replaces_a_kept_table_is_followed():
    source = Source().run(
        "CREATE TABLE orders (id INT)",
        "CREATE TABLE _orders_gho LIKE orders",
        "ALTER TABLE _orders_gho ADD a INT",
        "RENAME TABLE orders TO _orders_del, _orders_gho TO orders",
    )
    assert source.columns() == ["id", "a"]


def test_the_first_kept_table_of_a_schema_makes_the_others_matter():
    source = Source(exists=())
    assert source.change("CREATE TABLE other (id INT)").unread
    assert not source.change("CREATE TABLE orders (id INT)").unread
    assert not source.change("CREATE TABLE other (id INT)").unread


def test_a_table_that_was_not_read_is_not_known_under_its_kept_name():
    source = Source().run("CREATE TABLE own.x (id INT)", "RENAME TABLE own.x TO shop.orders")
    assert "was not read" in source.columns()


@pytest.mark.parametrize(
    "comment", ["/* {} */ ALTER TABLE orders ADD b INT", "ALTER TABLE orders ADD b INT # {}"]
)
def test_a_statement_that_is_too_long_makes_its_tables_unknown(comment):
    source = Source(chars_max=1_000).run("CREATE TABLE orders (id INT)", "CREATE TABLE items (id INT)")
    change = source.change(comment.format("x" * 1_000))
    assert (change.touches.names, len(change.statement.sql)) == ({KEPT}, 400)
    source.history.apply(change)
    assert "reader.statement_chars_max" in source.columns()
    assert source.columns(SourceName("shop", "items")) == ["id"]


@pytest.mark.parametrize(
    "sql",
    [
        "RENAME TABLE own.x {} TO own.y",
        "ALTER TABLE own.x {} RENAME TO own.y",
        "CREATE TABLE own.y {} LIKE own.x",
        "ALTER TABLE own.x {} ADD g TEXT AS (mail)",
        "ALTER TABLE own.y EXCHANGE PARTITION p {} WITH TABLE own.x",
    ],
)
def test_a_statement_on_a_table_with_masks_is_read_or_refused(sql):
    source, masked = Source(chars_max=1_000), {"protects": THEIRS.__eq__}
    assert not source.change(sql.format(""), **masked).unread, "although no table of the schema is kept"
    with pytest.raises(UnsupportedEvent, match=r"masks or drops columns of own\.x.*Raise reader"):
        source.change(sql.format(f"/* {'x' * 1_000} */"), **masked)


def test_a_table_with_masks_is_found_after_a_thousand_others():
    pairs = ", ".join(f"own.n{number} TO own.n{number + 1}" for number in range(NAMES_MAX))
    with pytest.raises(UnsupportedEvent, match=r"more than 1,000 tables.*masks or drops columns of own\.x"):
        Source().change(f"RENAME TABLE {pairs}, own.x TO own.y", protects=THEIRS.__eq__)
    assert Source().change(f"RENAME TABLE {pairs}, own.x TO own.y").unread


def test_a_routine_that_is_too_long_touches_nothing():
    source = Source(chars_max=1_000).run("CREATE TABLE orders (id INT)")
    assert not source.change(f"CREATE PROCEDURE p() BEGIN {'SELECT 1; ' * 1_000} END").touches
    assert source.run("GRANT SELECT ON orders TO u" + " " * 1_000).columns() == ["id"]


def test_a_dropped_schema_is_dropped_by_a_statement_of_any_length():
    source = Source(chars_max=1_000).run("CREATE TABLE orders (id INT)")
    source.run(f"DROP DATABASE shop /* {'x' * 1_000} */")
    assert "reader.statement_chars_max" in source.columns()


def test_of_more_names_than_are_told_apart_their_schemas_count():
    source = Source().run(
        "CREATE TABLE orders (id INT)", "CREATE DATABASE other", "CREATE TABLE other.y (id INT)"
    )
    names = ", ".join(f"own.x{number}" for number in range(NAMES_MAX + 1))
    change = source.change(f"DROP TABLE IF EXISTS {names}")
    assert (len(change.touches.names), change.touches.gone) == (NAMES_MAX, {"own"})
    source.history.apply(change)
    assert source.columns() == ["id"]
    assert "names more than" in source.columns(SourceName("own", "z"))


def test_a_text_that_is_not_understood_at_all_makes_everything_unknown():
    source = Source(chars_max=1_000).run("CREATE TABLE orders (id INT)")
    change = source.change(f"CREATE WHAT {'x' * 1_000}")
    assert change.touches.all
    source.history.apply(change)
    assert "reader.statement_chars_max" in source.columns()


@pytest.mark.parametrize(
    "error", [RecursionError(), MemoryError(), OverflowError("x"), ValueError("x"), KeyError()]
)
def test_an_aborted_statement_makes_its_tables_unknown(monkeypatch, error):
    source = Source().run("CREATE TABLE orders (id INT)", "CREATE TABLE items (id INT)")

    def fail(*_arguments):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(applying, "read_alter", fail)
        source.run("ALTER TABLE orders ADD b INT")
    assert type(error).__name__ in source.columns()
    assert source.columns(SourceName("shop", "items")) == ["id"]
    with monkeypatch.context() as patched:
        patched.setattr(words.Words, "__init__", fail)
        source.run("ALTER TABLE orders ADD c INT")
    assert source.columns(SourceName("shop", "items")).startswith("ALTER TABLE is not")


def test_a_statement_that_was_not_read_is_stored_without_its_text():
    change = Source().change(f"CREATE TABLE own.x (id INT COMMENT '{'x' * 10_000}')")
    text = json.dumps(change.to_json())
    assert len(text) < 1_500
    stored = fact_from_json("7", json.loads(text))
    assert isinstance(stored, Change)
    assert stored == change
    catalog = make()
    assert stored.apply(catalog).names == {THEIRS}


def test_going_back_before_a_statement_that_was_not_read():
    source = Source(chars_max=1_000).run("CREATE TABLE orders (id INT)")
    source.run(f"ALTER TABLE orders ADD b INT /* {'x' * 1_000} */", "CREATE OR REPLACE TABLE orders (z INT)")
    assert source.columns() == ["z"]
    source.history.go_to(LogPosition("7", "binlog.000001", 200))
    assert source.columns() == ["id"]
    source.history.go_to(LogPosition("7", "binlog.000001", 300))
    assert "reader.statement_chars_max" in source.columns()
