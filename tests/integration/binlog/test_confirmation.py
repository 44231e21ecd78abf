"""Definitions that are followed, held against what the source shows: an error of the catalog is found.

The error is planted: a statement is applied as another one, which swaps two columns of one type. No table map
shows that.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace

import pytest
from integration.unprepared_servers import end_of
from support.deadline import await_true
from support.defaults import definitions_of
from support.sources.recorder import await_rows, of_app, reading

from canal_group.binlog.schema.catalog import Catalog
from canal_group.binlog.server.definitions.confirming import Confirming
from canal_group.merge.errors import DefinitionContradicted

SAID = "ALTER TABLE app.t ADD COLUMN c INT AFTER a"
READ = "ALTER TABLE app.t ADD COLUMN c INT AFTER b"


@pytest.fixture
def planted(monkeypatch):
    """Let the catalog understand one statement wrongly."""
    whole = Catalog.apply
    monkeypatch.setattr(
        Catalog, "apply", lambda self, each: whole(self, replace(each, sql=each.sql.replace(SAID, READ)))
    )


def begun(server, source_address):
    server.execute("CREATE TABLE app.t (a INT, b INT)", "INSERT INTO app.t VALUES (1, 2)")
    return end_of(server, source_address)


def await_begun(recorder):
    """Wait until the history of definitions has begun, which is after the reader has connected."""
    await_true(lambda: recorder.of("caught_up") or recorder.error, "the history begins")


@contextlib.contextmanager
def stopping(address, **options):
    """Run a reader that is to stop; on the way out its error is in what this yields."""
    found = []
    with reading(address, **options) as recorder:
        await_begun(recorder)
        recorder.found = found
        yield recorder
        await_true(lambda: recorder.error, "the reader stops")
        found.append(recorder.error)
        recorder.error = None


def hold_comparing(monkeypatch, until):
    """Let a shard that has caught up compare nothing until something holds."""
    whole = Confirming.confirm_all
    monkeypatch.setattr(
        Confirming,
        "confirm_all",
        lambda self, history, position: bool(until()) and whole(self, history, position),
    )


def of_t(recorder):
    return [row["after"] for row in recorder.rows("t")]


@pytest.mark.usefixtures("planted")
def test_live_the_first_rows_after_a_statement_wait_for_the_source(unprepared, source_address):
    start = begun(unprepared, source_address)
    with stopping(source_address(unprepared), start=start) as recorder:
        unprepared.execute(SAID, "INSERT INTO app.t VALUES (1, 2, 3)")
    assert of_t(recorder) == []
    (error,) = recorder.found
    assert isinstance(error, DefinitionContradicted)
    assert error.details["table"] == "app.t"
    assert "after ALTER TABLE, at mysql-bin" in error.message
    assert "ADD COLUMN" not in str(error), "a message quotes no text of a source"
    assert "column 2 is `b` int, and the source shows `c` int" in error.message
    assert "No rows were read with it" in error.message
    assert error.details["file"] == start.file


@pytest.mark.usefixtures("planted")
def test_rows_that_do_not_wait_are_compared_when_the_shard_has_caught_up(
    unprepared, source_address, monkeypatch
):
    """The error says which rows had the wrong names; what comes after is refused, also by another attempt."""
    start = begun(unprepared, source_address)
    address = source_address(unprepared)
    definitions = definitions_of(address.name, of_app, confirm_s=0)
    with (
        monkeypatch.context() as held,
        stopping(address, start=start, definitions=definitions) as recorder,
    ):
        hold_comparing(held, lambda: of_t(recorder))
        unprepared.execute(SAID, "INSERT INTO app.t VALUES (1, 2, 3)")
    (error,) = recorder.found
    assert re.search(rf"between {start.file}:\d+ and {start.file}:\d+ were read", error.message)
    assert of_t(recorder) == [{"a": 1, "b": 2, "c": 3}]
    until = replace(start, offset=int(str(error.details["rows_until"]).partition(":")[2]))
    assert until.offset >= end_of(unprepared, source_address).offset
    unprepared.execute("INSERT INTO app.t VALUES (4, 5, 6)")
    with stopping(address, start=until, definitions=definitions) as recorder:
        pass
    assert isinstance(recorder.found[0], DefinitionContradicted)
    assert of_t(recorder) == []
    definitions.rebuild()
    with reading(address, start=until, definitions=definitions) as recorder:
        await_rows(recorder, "t", 1)
    assert of_t(recorder) == [{"a": 4, "c": 5, "b": 6}]


@pytest.mark.usefixtures("planted")
def test_at_the_end_of_a_backlog_what_was_followed_is_compared(unprepared, source_address):
    """A first start has read what the source shows: it holds after the last statement."""
    start = end_of(unprepared, source_address)
    begun(unprepared, source_address)
    unprepared.execute(SAID, "INSERT INTO app.t VALUES (1, 2, 3)", "ALTER TABLE app.t ADD COLUMN d INT")
    with stopping(source_address(unprepared), start=start) as recorder:
        pass
    (error,) = recorder.found
    assert isinstance(error, DefinitionContradicted)
    assert f"after ALTER TABLE, at {end_of(unprepared, source_address).file}" in error.message
    # They were read before anybody could know; the error says so.
    assert of_t(recorder) in ([], [{"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}])
    assert "were read with the wrong one" in error.message


def test_a_restart_compares_what_was_followed_before_it(unprepared, source_address, monkeypatch):
    """What is stored says that the source has not confirmed it: the process ended before."""
    start = begun(unprepared, source_address)
    address = source_address(unprepared)
    definitions = definitions_of(address.name, of_app, confirm_s=0)
    with monkeypatch.context() as patch:
        patch.setattr(Confirming, "confirm_all", lambda *_: False)
        with reading(address, start=start, definitions=definitions) as recorder:
            await_begun(recorder)
            unprepared.execute(SAID)
            await_true(lambda: definitions.describe()["followed"] or recorder.error, "the statement")
    wrong = definitions.news().text.replace(SAID, READ)
    assert READ in wrong
    again = definitions_of(address.name, of_app)
    again.restore(wrong)
    unprepared.execute("INSERT INTO app.t VALUES (1, 2, 3)")
    with stopping(address, start=start, definitions=again) as recorder:
        pass
    assert isinstance(recorder.found[0], DefinitionContradicted)
    assert of_t(recorder) == []


def test_what_is_right_is_confirmed_and_kept(unprepared, source_address):
    start = begun(unprepared, source_address)
    address = source_address(unprepared)
    definitions = definitions_of(address.name, of_app)
    with reading(address, start=start, definitions=definitions) as recorder:
        await_begun(recorder)
        unprepared.execute(SAID, "CREATE TABLE app.quiet (id INT)", "INSERT INTO app.t VALUES (1, 2, 3)")
        await_rows(recorder, "t", 1)
        await_true(lambda: definitions.describe()["followed"] == 0 or recorder.error, "all is confirmed")
        stored = definitions.news().text
    assert of_t(recorder) == [{"a": 1, "c": 2, "b": 3}]
    again = definitions_of(address.name, of_app)
    again.restore(stored)
    with reading(address, start=end_of(unprepared, source_address), definitions=again) as recorder:
        await_begun(recorder)
        assert again.describe()["followed"] == 0


def test_a_table_that_has_changed_again_meanwhile_is_followed(unprepared, source_address):
    """Rows between two statements cannot be compared with what the source shows after the second one."""
    start = begun(unprepared, source_address)
    with reading(source_address(unprepared), start=start) as recorder:
        await_begun(recorder)
        recorder.gate.clear()
        unprepared.execute("INSERT INTO app.t VALUES (0, 0)")
        await_true(lambda: recorder.held or recorder.error, "the reader waits")
        unprepared.execute(
            SAID,
            "INSERT INTO app.t VALUES (1, 2, 3)",
            "ALTER TABLE app.t DROP COLUMN a",
            "INSERT INTO app.t VALUES (4, 5)",
        )
        recorder.gate.set()
        await_rows(recorder, "t", 3)
    assert of_t(recorder)[1:] == [{"a": 1, "c": 2, "b": 3}, {"c": 4, "b": 5}]


def test_a_change_that_was_not_logged_is_found_with_the_next_statement(unprepared, source_address):
    """Nothing is planted here: the source itself differs from what its binlog says."""
    start = begun(unprepared, source_address)
    with stopping(source_address(unprepared), start=start) as recorder:
        unprepared.execute(
            "SET SESSION sql_log_bin = 0",
            "ALTER TABLE app.t RENAME COLUMN a TO b, RENAME COLUMN b TO a",
            "SET SESSION sql_log_bin = 1",
            "ALTER TABLE app.t ADD COLUMN c INT",
            "INSERT INTO app.t VALUES (1, 2, 3)",
        )
    (error,) = recorder.found
    assert isinstance(error, DefinitionContradicted)
    assert "column 1 is `a` int, and the source shows `b` int" in error.message
    assert "sql_log_bin = 0" in error.hint
    assert of_t(recorder) == []
