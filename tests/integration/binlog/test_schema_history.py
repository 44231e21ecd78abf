"""Schema histories that were stored: another process reads on with them, from wherever it begins."""

from __future__ import annotations

import contextlib
import threading
from contextlib import closing
from dataclasses import replace

import pytest
from integration.unprepared_servers import DEFAULTS, end_of
from support.ddl.stored_history import continued
from support.deadline import await_true
from support.defaults import definitions_of
from support.soak import first_quick
from support.sources.recorder import await_rows, of_app, reading
from support.sources.replication import replicate

from canal_group.binlog.server.definitions.learning import LearningPace
from canal_group.binlog.server.source import connect, server_facts
from canal_group.merge.errors import DataError, UnsupportedEvent
from playground.database.mariadb import MariaDbServer
from playground.database.mysql import MySqlServer
from playground.database.server_process import ServerMissingError
from playground.database.servers import start_all


def after(recorder, table="t"):
    return [row["after"] for row in recorder.rows(table)]


class Process:
    """What a shard's process knows, and what is left of it when it ends."""

    def __init__(self, address, stored=None, select=of_app):
        self.address, self.select = address, select
        self.stored = stored
        self.definitions = definitions_of(address.name, select)
        self.definitions.restore(stored)

    def read(self, start, count, table="t", **options):
        """Read rows of a table from a position; return them and the position after the last one."""
        with reading(
            self.address, start=start, select=self.select, definitions=self.definitions, **options
        ) as recorder:
            await_rows(recorder, table, count)
            await_true(lambda: recorder.of("caught_up") or recorder.error, "the end of the binlog")
        self.stored = continued(self.stored, self.definitions.news())
        return after(recorder, table)

    def again(self, select=None):
        """Return the process that comes after this one."""
        return Process(self.address, self.stored, select or self.select)


def test_a_restart_between_an_alter_and_its_read_uses_the_old_table(unprepared, source_address):
    unprepared.execute("CREATE TABLE app.t (id INT PRIMARY KEY, v INT)")
    start = end_of(unprepared, source_address)
    process = Process(source_address(unprepared))
    unprepared.execute("INSERT INTO app.t VALUES (1, 10)")
    assert process.read(start, 1) == [{"id": 1, "v": 10}]
    away = end_of(unprepared, source_address)
    unprepared.execute(
        "INSERT INTO app.t VALUES (2, 20)",
        "ALTER TABLE app.t ADD COLUMN w INT FIRST, DROP PRIMARY KEY, ADD PRIMARY KEY (v)",
        "INSERT INTO app.t VALUES (5, 3, 30)",
    )
    rows = [{"id": 2, "v": 20}, {"w": 5, "id": 3, "v": 30}]
    assert process.again().read(away, 2) == rows
    with pytest.raises(UnsupportedEvent, match="was altered since"):
        Process(source_address(unprepared)).read(away, 2)


def test_a_position_that_was_moved_over_an_alter_is_known_too(unprepared, source_address):
    """The last statement was never read, and the table was not created since."""
    unprepared.execute("CREATE TABLE app.t (id INT PRIMARY KEY, v INT)")
    process = Process(source_address(unprepared))
    start = end_of(unprepared, source_address)
    unprepared.execute("INSERT INTO app.t VALUES (1, 10)")
    process.read(start, 1)
    unprepared.execute("ALTER TABLE app.t ADD COLUMN w INT FIRST", "FLUSH BINARY LOGS")
    moved = end_of(unprepared, source_address)
    unprepared.execute("INSERT INTO app.t VALUES (5, 2, 20)", "ALTER TABLE app.t DROP COLUMN w")
    assert process.again().read(moved, 1) == [{"w": 5, "id": 2, "v": 20}]


def test_a_shard_that_reads_again_takes_what_another_one_learned(unprepared, source_address):
    """1. One process reads, and stands by. 2. The next one reads on, over an ALTER that is purged then.
    3. The first one reads again, from before another ALTER that it has not seen.
    """
    unprepared.execute("CREATE TABLE app.t (id INT PRIMARY KEY, v INT)")
    start = end_of(unprepared, source_address)
    first = Process(source_address(unprepared))
    unprepared.execute("INSERT INTO app.t VALUES (1, 10)")
    first.read(start, 1)
    middle, second = end_of(unprepared, source_address), first.again()
    unprepared.execute("ALTER TABLE app.t ADD COLUMN w INT FIRST", "INSERT INTO app.t VALUES (5, 2, 20)")
    second.read(middle, 1)
    unprepared.execute("FLUSH BINARY LOGS")
    late = end_of(unprepared, source_address)
    unprepared.execute("INSERT INTO app.t VALUES (6, 3, 30)", "ALTER TABLE app.t DROP COLUMN w")
    second.read(late, 1)
    unprepared.execute(f"PURGE BINARY LOGS TO '{late.file}'")
    first.definitions.restore(second.stored, anew=True)
    assert first.read(late, 1) == [{"w": 6, "id": 3, "v": 30}]


def test_a_purge_of_the_file_read_last_keeps_the_definitions(unprepared, source_address):
    """1. A process reads, and is cut off. 2. Its source rotates, and purges what was read. 3. It reads rows
    from before an ALTER.
    """
    if unprepared.engine != "mariadb":
        pytest.skip("MySQL's default servers have no GTIDs: a purged position is refused")
    unprepared.execute("CREATE TABLE app.t (id INT PRIMARY KEY, v INT)")
    process, start = Process(source_address(unprepared)), end_of(unprepared, source_address)
    unprepared.execute("INSERT INTO app.t VALUES (1, 10)")
    process.read(start, 1)
    away = end_of(unprepared, source_address)
    unprepared.execute("FLUSH BINARY LOGS")
    oldest = replace(away, file=end_of(unprepared, source_address).file, offset=4, created_s=0)

    def purged():
        # A file stays for as long as the server knows a reader of it.
        unprepared.execute(f"PURGE BINARY LOGS TO '{oldest.file}'")
        return unprepared.execute("SHOW BINARY LOGS")[0][0] == oldest.file

    await_true(purged, "the file that was read is purged")
    unprepared.execute("INSERT INTO app.t VALUES (2, 20)", "ALTER TABLE app.t ADD COLUMN w INT FIRST")
    assert process.read(oldest, 1) == [{"id": 2, "v": 20}]


def test_two_rewinds_to_before_the_beginning(unprepared, source_address):
    """1. A history begins late. 2. Rewinds read what is before it; what it knew is still known."""
    positions = [end_of(unprepared, source_address)]
    unprepared.execute("CREATE TABLE app.t (id INT PRIMARY KEY)", "INSERT INTO app.t VALUES (1)")
    positions.append(end_of(unprepared, source_address))
    unprepared.execute("ALTER TABLE app.t ADD COLUMN v INT", "INSERT INTO app.t VALUES (2, 20)")
    positions.append(end_of(unprepared, source_address))
    process = Process(source_address(unprepared))
    unprepared.execute("INSERT INTO app.t VALUES (3, 30)")
    rows = [{"id": 1}, {"id": 2, "v": 20}, {"id": 3, "v": 30}]
    assert process.read(positions[2], 1) == rows[2:]
    unprepared.execute("ALTER TABLE app.t ADD COLUMN w INT FIRST")
    for begin in (0, 0):
        process = process.again()
        assert process.read(positions[begin], 3)[:3] == rows[begin:]
    assert process.again().read(positions[2], 1) == rows[2:]


def test_a_table_that_the_filter_takes_in_later_is_read_as_it_is(unprepared, source_address):
    unprepared.execute(
        "CREATE TABLE app.t (id INT PRIMARY KEY)", "CREATE TABLE app.u (id INT PRIMARY KEY, v INT)"
    )
    start = end_of(unprepared, source_address)
    unprepared.execute("INSERT INTO app.t VALUES (1)")
    process = Process(source_address(unprepared), select=lambda s, t: of_app(s, t) if t == "t" else None)
    process.read(start, 1)
    unprepared.execute("ALTER TABLE app.u ADD COLUMN w INT FIRST", "ALTER TABLE app.t ADD COLUMN v INT")
    away = end_of(unprepared, source_address)
    unprepared.execute("INSERT INTO app.u VALUES (9, 1, 10)", "INSERT INTO app.t VALUES (2, 20)")
    wider = process.again(of_app)
    assert wider.read(away, 1, "u") == [{"w": 9, "id": 1, "v": 10}]
    assert wider.again().read(away, 1) == [{"id": 2, "v": 20}]


def test_what_was_stored_and_cannot_be_read_is_an_error(unprepared, source_address):
    unprepared.execute("CREATE TABLE app.t (id INT PRIMARY KEY)")
    start = end_of(unprepared, source_address)
    unprepared.execute("INSERT INTO app.t VALUES (1)")
    with pytest.raises(DataError, match="stored schema history cannot be read") as told:
        Process(source_address(unprepared), '{"version": 1, "histories": [{}]}').read(start, 1)
    assert "schema rebuild" in told.value.hint
    process = Process(source_address(unprepared), "{")
    process.definitions.rebuild()
    assert process.read(start, 1) == [{"id": 1}]


def test_a_server_that_was_reset_begins_a_new_history(unprepared, source_address):
    """Its files begin at 1 again: offsets of the old binlog say nothing about the new one."""
    reset = "RESET MASTER" if isinstance(unprepared, MariaDbServer) else "RESET BINARY LOGS AND GTIDS"
    unprepared.execute("FLUSH BINARY LOGS", "CREATE TABLE app.t (id INT PRIMARY KEY)")
    start = end_of(unprepared, source_address)
    unprepared.execute("INSERT INTO app.t VALUES (1)")
    process = Process(source_address(unprepared))
    process.read(start, 1)
    unprepared.execute(
        reset,
        "CREATE TABLE app.u (id INT)",
        "ALTER TABLE app.t ADD COLUMN v INT",
        "INSERT INTO app.t VALUES (2, 20)",
    )
    begin = replace(start, file=start.file[: -len("000001")] + "000001", offset=4, created_s=0)
    assert process.again().read(begin, 1) == [{"id": 2, "v": 20}]


@pytest.mark.parametrize("make", first_quick(1, [MariaDbServer, MySqlServer]), ids=lambda make: make.engine)
def test_a_server_that_replaces_another_goes_on_with_its_history(make, source_address):
    """1. The first is read; 2. it ends, and the table is altered before and after the second takes over."""
    servers = [make(), make(options=["--log-bin=other-bin", "--log-slave-updates=ON"])]
    try:
        start_all(servers)
        first, second = servers
        for server in servers:
            server.execute(f"SET GLOBAL binlog_row_metadata = '{DEFAULTS[make]}'")
        replicate(first, second)
        first.execute("CREATE DATABASE app", "CREATE TABLE app.t (id INT PRIMARY KEY, v INT)")
        start = end_of(first, source_address)
        first.execute("INSERT INTO app.t VALUES (1, 10)")
        process = Process(source_address(first))
        assert process.read(start, 1) == [{"id": 1, "v": 10}]
        address = source_address(first)
        with contextlib.closing(connect(address)) as connection:
            identity = server_facts(address, connection).identity
        cursor = replace(end_of(first, source_address), server=identity)
        first.execute(
            "INSERT INTO app.t VALUES (2, 20)",
            "ALTER TABLE app.t ADD COLUMN w INT FIRST",
            "INSERT INTO app.t VALUES (5, 3, 30)",
        )
        await_true(lambda: second.execute("SELECT COUNT(*) FROM app.t") == ((3,),), "the replica has it all")
        first.stop()
        second.execute("ALTER TABLE app.t DROP COLUMN v", "INSERT INTO app.t VALUES (6, 4)")
        after_switch = Process(source_address(second), process.stored)
        expected = [{"id": 2, "v": 20}, {"w": 5, "id": 3, "v": 30}, {"w": 6, "id": 4}]
        assert after_switch.read(cursor, 3, start_by="gtid") == expected
        assert after_switch.again().read(cursor, 3, start_by="gtid") == expected
    except ServerMissingError as error:
        pytest.skip(str(error))
    finally:
        for server in servers:
            server.close()


def test_a_table_that_is_altered_before_its_first_row_was_read_is_known(unprepared, source_address):
    """1. Nothing but the end of the binlog is read. 2. Rows and an ALTER come. 3. Another process reads."""
    unprepared.execute("CREATE TABLE app.t (id INT PRIMARY KEY, v INT)")
    process = Process(source_address(unprepared))
    start = end_of(unprepared, source_address)
    assert process.read(start, 0) == []
    unprepared.execute(
        "INSERT INTO app.t VALUES (1, 10)",
        "ALTER TABLE app.t CHANGE COLUMN v w INT, ADD COLUMN x INT FIRST",
        "INSERT INTO app.t VALUES (5, 2, 20)",
    )
    assert process.again().read(start, 2) == [{"id": 1, "v": 10}, {"x": 5, "id": 2, "w": 20}]


def test_a_position_that_skips_an_alter_is_known_though_nothing_was_read(unprepared, source_address):
    """A history that began with the stream knows up to where it was read: what follows is read first."""
    unprepared.execute("CREATE TABLE app.t (id INT PRIMARY KEY, v INT)")
    process = Process(source_address(unprepared))
    process.read(end_of(unprepared, source_address), 0)
    unprepared.execute("ALTER TABLE app.t CHANGE COLUMN v w INT")
    moved = end_of(unprepared, source_address)
    unprepared.execute("INSERT INTO app.t VALUES (1, 10)", "ALTER TABLE app.t DROP COLUMN w")
    assert process.again().read(moved, 1) == [{"id": 1, "w": 10}]


def test_a_first_start_is_not_delayed_by_statements_on_other_tables(unprepared, source_address):
    """Statements follow one another while the tables are asked; a table that they touch is asked again."""
    unprepared.execute(*(f"CREATE TABLE app.t{number} (id INT)" for number in range(50)))
    unprepared.execute("CREATE TABLE app.t (id INT PRIMARY KEY)")
    ended = threading.Event()

    def keep_defining():
        with closing(unprepared.connect()) as connection, connection.cursor() as cursor:
            number = 0
            while not ended.is_set():
                number += 1
                cursor.execute("CREATE TABLE IF NOT EXISTS app.report (id INT)")
                cursor.execute("ANALYZE TABLE app.t0")
                cursor.execute(f"ALTER TABLE app.t{number % 50} COMMENT = 'run {number}'")
                cursor.execute("DROP TABLE app.report")

    defining = threading.Thread(target=keep_defining)
    defining.start()
    try:
        definitions = definitions_of("s1", of_app)
        with reading(source_address(unprepared), definitions=definitions) as recorder:
            unprepared.execute("INSERT INTO app.t VALUES (1)")
            await_rows(recorder, "t", 1)
            await_true(lambda: definitions.describe()["unread"] == 0 or recorder.error, "all are read")
    finally:
        ended.set()
        defining.join()


def test_rows_of_a_table_that_was_not_asked_for_yet(unprepared, source_address):
    """Its definition is asked for at once; the others follow while rows come."""
    pace = LearningPace(batch=1, first_s=0.0, between_s=0.0, idle_s=0.0)
    unprepared.execute(*(f"CREATE TABLE app.t{number} (id INT)" for number in range(5)))
    unprepared.execute("CREATE TABLE app.t (id INT PRIMARY KEY, v INT)")
    definitions = definitions_of("s1", of_app, pace=pace)
    with reading(source_address(unprepared), definitions=definitions) as recorder:
        await_true(lambda: definitions.describe() or recorder.error, "the history begins")
        assert definitions.describe()["unread"] >= 6
        unprepared.execute("INSERT INTO app.t VALUES (1, 2)")
        await_rows(recorder, "t", 1)
        assert definitions.describe()["unread"] >= 5
        stored = definitions.news().text
        pace.idle_s = 0.5
        await_true(lambda: definitions.describe()["unread"] == 0 or recorder.error, "all are read")
    assert after(recorder) == [{"id": 1, "v": 2}]
    again = definitions_of("s1", of_app)
    again.restore(stored)
    with reading(source_address(unprepared), definitions=again) as recorder:
        await_true(lambda: (again.describe() or {}).get("unread") == 0 or recorder.error, "the rest is read")


IN_A_CALL = (
    "CREATE PROCEDURE app.{name}() BEGIN CREATE TEMPORARY TABLE app.used (x INT); "
    "INSERT INTO app.used VALUES (1); {statement}; DROP TEMPORARY TABLE app.used; END"
)


def test_a_call_that_used_a_temporary_table_changes_others(unprepared, source_address):
    """Columns that swap their names twice, a copy of a table, a TRUNCATE; then the tables are dropped."""
    unprepared.execute("CREATE TABLE app.t (a INT, b INT)")
    process = Process(source_address(unprepared))
    start = end_of(unprepared, source_address)
    unprepared.execute("INSERT INTO app.t VALUES (1, 2)")
    process.read(start, 1)
    away = end_of(unprepared, source_address)
    swap = "ALTER TABLE app.t RENAME COLUMN a TO b, RENAME COLUMN b TO a"
    for name, statement in (
        ("swap", swap),
        ("copy", "CREATE TABLE app.l LIKE app.t"),
        ("clear", "TRUNCATE TABLE app.t"),
    ):
        unprepared.execute(IN_A_CALL.format(name=name, statement=statement))
    unprepared.execute(
        "CALL app.swap()",
        "INSERT INTO app.t (a, b) VALUES (3, 4)",
        "CALL app.copy()",
        "INSERT INTO app.l (a, b) VALUES (7, 8)",
        "CALL app.swap()",
        "INSERT INTO app.t (a, b) VALUES (5, 6)",
        "CALL app.clear()",
        "DROP TABLE app.t, app.l",
    )
    later = process.again()
    with reading(later.address, start=away, select=of_app, definitions=later.definitions) as recorder:
        await_rows(recorder, "t", 2)
        await_rows(recorder, "l", 1)
        await_true(lambda: recorder.of("caught_up") or recorder.error, "the end of the binlog")
    assert after(recorder) == [{"a": 3, "b": 4}, {"a": 5, "b": 6}]
    assert after(recorder, "l") == [{"a": 7, "b": 8}]
    statements = [
        each for chunk in recorder.of("chunk") if chunk.statements for each in chunk.statements.to_pylist()
    ]
    assert [each["table"] for each in statements if each["op"] == "TRUNCATE"] == ["t"]


def test_a_temporary_table_hides_the_table_of_its_name(unprepared, source_address):
    """A session that logs statements makes a temporary table, and alters it."""
    unprepared.execute("CREATE TABLE app.t (a INT, b INT)")
    process = Process(source_address(unprepared))
    start = end_of(unprepared, source_address)
    unprepared.execute(
        "SET SESSION binlog_format = STATEMENT",
        "CREATE TEMPORARY TABLE app.t (a INT, b INT)",
        "ALTER TABLE app.t DROP COLUMN a, ADD c INT FIRST",
        "TRUNCATE TABLE app.t",
    )
    unprepared.execute("INSERT INTO app.t VALUES (1, 2)")
    assert process.read(start, 1) == [{"a": 1, "b": 2}]


@pytest.mark.parametrize("begins", ["before", "later"])
def test_a_schema_that_may_have_been_there_has_its_collation(begins, unprepared, source_address):
    """Statements of installers are read again by a first start, or for a client that begins before them."""
    start = end_of(unprepared, source_address)
    unprepared.execute(
        "CREATE DATABASE IF NOT EXISTS app",
        "CREATE TABLE app.t (id INT PRIMARY KEY, v VARCHAR(10))",
        "INSERT INTO app.t VALUES (1, 'a')",
        "ALTER TABLE app.t ADD w VARCHAR(10)",
        "INSERT INTO app.t VALUES (2, 'b', 'c')",
    )
    process = Process(source_address(unprepared))
    latest = end_of(unprepared, source_address)
    if begins == "later":
        unprepared.execute("INSERT INTO app.t VALUES (3, 'd', 'e')")
        process.read(latest, 1)
        process = process.again()
    rows = process.read(start, 2)
    assert rows[:2] == [{"id": 1, "v": "a"}, {"id": 2, "v": "b", "w": "c"}]
    unprepared.execute("ALTER TABLE app.t DROP v", "INSERT INTO app.t VALUES (4, 'f')")
    assert process.again().read(latest, 1)[-1] == {"id": 4, "w": "f"}
