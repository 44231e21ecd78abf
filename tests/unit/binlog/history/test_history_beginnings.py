"""Where a history begins: at a known catalog, earlier than it began, and again after what is folded."""

from __future__ import annotations

import pytest
from support.ddl.definition_text import MARIADB, played, text_of

from canal_group.binlog.history.facts import Change, LogPosition, Present
from canal_group.binlog.history.histories import Histories
from canal_group.binlog.history.history import SchemaHistory
from canal_group.binlog.schema.catalog import Catalog
from canal_group.binlog.schema.catalog_entry import ShownTable
from canal_group.binlog.schema.definition import SourceName
from canal_group.binlog.schema.statement import Statement
from canal_group.merge.values.position import Position

UTF8MB4 = 45
T, U = SourceName("app", "t"), SourceName("app", "u")


def make():
    return Catalog(UTF8MB4)


def position(offset, server="7"):
    return LogPosition(server, "binlog.000001", offset)


def change(offset, sql):
    return Change(position(offset), Statement(sql, "app", MARIADB))


def shown(table, columns):
    return ShownTable("app", table, f"CREATE TABLE {table} ({columns})", MARIADB)


def begun(*changes, at=200, tables=(T, U), server="7", **limits):
    history = SchemaHistory(make, **limits)
    history.begin(position(at, server), Present(tables, [], {"app": UTF8MB4}, changes))
    return history


def text(history, table="t"):
    return text_of(history.table("app", table))


def test_it_begins_with_a_catalog_and_changes_apart_from_it():
    catalog = played("CREATE TABLE t (a INT)")
    history = SchemaHistory(make)
    history.begin_with(position(100), catalog)
    history.apply(change(200, "ALTER TABLE t ADD b INT"))
    assert (history.beginning, text(history)) == (position(100), "a int, b int")
    assert text_of(catalog.table("app", "t")) == "a int"
    assert not history.unread


def test_it_begins_earlier_with_the_statements_that_lead_there():
    history = begun(tables=(T, U, SourceName("app", "w")))
    assert history.learn(shown("t", "a INT, b INT"), position(200))
    assert history.learn(shown("u", "a INT"), position(200))
    history.apply(change(300, "ALTER TABLE t ADD c INT"))
    history.extend(
        position(100), [change(150, "ALTER TABLE t ADD b INT"), change(160, "ALTER TABLE w ADD b INT")]
    )
    assert history.beginning == position(100)
    assert (text(history), text(history, "u")) == ("unknown", "a int")
    assert history.known_after("app", "t") == position(150)
    assert history.known_after("app", "w") is None
    history.go_to(position(160))
    assert (text(history), text(history, "w")) == ("a int, b int", "unknown")
    history.go_to(position(300))
    assert text(history) == "a int, b int, c int"
    assert list(history.unread.values()) == [SourceName("app", "w")]
    assert history.rewritten


def test_a_table_that_is_changed_just_now_is_read_last():
    history = begun()
    assert list(history.unread.values()) == [T, U]
    history.postpone(T)
    assert list(history.unread.values()) == [U, T]
    history.hide(U)
    assert list(history.unread.values()) == [T]


def test_statements_that_touch_nothing_hide_none_that_do():
    history = begun(change(210, "ANALYZE TABLE t"), change(220, "ALTER TABLE t ADD b INT"))
    assert [fact.end for fact in history.facts] == [position(220)]


def test_definitions_before_an_opaque_statement_are_unknown():
    history = begun(change(210, "FROBNICATE"))
    assert history.first.schema_collation("app") is None
    assert text_of(history.first.table("app", "never_listed")) == "unknown"


def test_a_statement_before_the_beginning_is_ignored():
    history = begun()
    history.learn(shown("t", "a INT"), position(200))
    for offset in (150, 200):
        assert not history.apply(change(offset, "ALTER TABLE t ADD b INT"))
    assert text(history) == "a int"
    assert not SchemaHistory(make).apply(change(300, "CREATE TABLE t (a INT)"))


def test_what_is_folded_is_known_at_the_new_beginning():
    history = begun(change(210, "ALTER TABLE t ADD b INT"), facts_max=3)
    assert history.learn(shown("t", "a INT, b INT"), position(210))
    history.apply(change(210, "ALTER TABLE t ADD b INT"))
    for number in range(3):
        history.apply(change(300 + number, f"CREATE TABLE n{number} (a INT)"))
    assert history.beginning.reaches(position(210))
    assert len(history.facts) <= 3
    assert text_of(history.first.table("app", "t")) == "a int, b int"


@pytest.mark.parametrize("forget", [lambda all_: all_.clear(), lambda all_: all_.drop("7")])
def test_what_is_forgotten_is_written_whole(forget):
    histories = Histories()
    histories.keep(begun())
    assert histories.take_text().whole
    assert not histories.take_text().whole
    forget(histories)
    assert (len(histories), histories.of("7")) == (0, None)
    assert histories.take_text().whole


def test_a_history_replaces_an_earlier_one_of_its_server_only():
    histories = Histories()
    first, other, again = begun(), begun(server="8"), begun()
    for each in (first, other, again):
        histories.keep(each)
    assert list(histories) == [other, again]


def test_what_was_stored_is_continued_unless_it_is_to_be_whole():
    histories, loaded = Histories(), Histories()
    histories.keep(begun())
    loaded.load(histories.take_text().text, make)
    for each in loaded:
        each.rewritten = False
    assert not loaded.take_text().whole
    loaded.rewrite()
    assert loaded.take_text().whole
    assert not loaded.take_text().whole


def test_it_stays_bounded_by_the_characters_of_its_statements():
    history = begun(tables=(), facts_chars_max=200)
    for number in range(10):
        history.apply(change(300 + number, f"CREATE TABLE n{number} (a INT) COMMENT '{'x' * 50}'"))
        assert sum(len(fact.statement.sql) for fact in history.facts) <= 200
    assert len(history.facts) >= 1
    assert len(history.names()) == 10


def test_no_table_is_followed_after_a_statement_that_may_have_changed_any():
    history = begun()
    history.apply(change(210, "CREATE TABLE w (a INT)"))
    assert history.is_followed(SourceName("app", "w"))
    history.apply(change(220, "FROBNICATE"))
    assert history.followed() == []


def test_what_is_shown_of_a_table_does_not_undo_what_a_statement_made():
    history = begun()
    assert history.learn(shown("t", "a INT"), position(200))
    history.apply(change(210, "CREATE TABLE u (b INT)"))
    assert not history.learn(shown("u", "a INT"), position(200))
    assert history.learn(shown("t", "a BIGINT"), position(200))
    assert (text(history), text(history, "u")) == ("a int", "b int")


def test_facts_are_in_the_order_of_the_binlog():
    history = begun(change(230, "ALTER TABLE u ADD c INT"), change(210, "ALTER TABLE t ADD b INT"))
    assert [fact.end for fact in history.facts] == [position(210), position(230)]


def test_where_reading_is_goes_with_what_is_added():
    histories, loaded = Histories(), Histories()
    history = begun()
    histories.keep(history)
    whole = histories.take_text().text
    assert histories.take_text().text == ""
    history.read_to = Position("binlog.000001", 300)
    assert histories.take_text(read_to=False).text == ""
    loaded.load(whole + histories.take_text().text, make)
    assert [each.read_to for each in loaded] == [history.read_to]
    history.apply(change(300, "CREATE TABLE w (a INT)"))
    loaded.load(whole + histories.take_text(read_to=False).text, make)
    assert [(each.read_to, len(each.facts)) for each in loaded] == [(None, 1)]
