"""The catalog, against the servers that execute the same statements.

Random sequences of DDL are executed, and the catalog applies what the binlog has of them. After each
statement that the server accepted, the catalog's tables are compared with `information_schema` and with SHOW
CREATE TABLE; at the end of a sequence, with the table maps of rows.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.ddl.ddl_sequences import EXPLORES, MODES, Author
from support.ddl.twin import Twin

from canal_group.binlog.charsets.collations import default_collation
from canal_group.binlog.columns.table_map import parse_table_map
from canal_group.binlog.formats.event_types import EventType
from canal_group.binlog.history.verified import require_agreement
from canal_group.binlog.schema.statement import ServerVersion

STATEMENTS = 15


@contextmanager
def usual_metadata(server):
    """Let the server log again what it logs by default, at the end."""
    yield
    server.execute("SET GLOBAL binlog_row_metadata = DEFAULT")


def play(server, random):
    """Execute a sequence and compare after each statement; return how many statements were accepted."""
    mode = random.choice(MODES)
    server.execute("SET GLOBAL binlog_row_metadata = 'FULL'")  # table maps say what is compared with
    twin = Twin(server, mode, explicit=random.random() < 0.8)
    with closing(twin.connection), closing(twin.snapshots), usual_metadata(server):
        author = Author(random, twin.catalog, twin.mariadb, mode)
        history = [mode]
        if twin.mariadb:
            twin.ask("SET system_versioning_alter_history = KEEP")
        accepted = 0
        for _ in range(STATEMENTS * 4):
            sql = author.statement()
            if not twin.run(sql):
                history.append(f"refused: {sql}")
                continue
            history.append(sql)
            author.executed(sql)
            twin.check(history)
            accepted += 1
            if accepted == STATEMENTS:
                break
        twin.check_maps(history)
    return accepted


LONG = [pytest.mark.soak, pytest.mark.timeout(1200)]
SEQUENCES = pytest.mark.parametrize("sequences", [10, pytest.param(500, marks=LONG)])


def played(server, sequences):
    accepted = []

    @settings(
        max_examples=sequences,
        database=None,
        derandomize=not EXPLORES,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**32))
    def run(seed):
        accepted.append(play(server, Random(seed)))

    run()
    assert sum(accepted) >= sequences * STATEMENTS // 2, "most sequences are too short to say anything"


@SEQUENCES
def test_a_catalog_knows_what_mariadb_knows(mariadb, sequences):
    played(mariadb, sequences)


@SEQUENCES
def test_a_catalog_knows_what_mysql_knows(two_mysqls, sequences):
    played(two_mysqls[0].start(), sequences)


def test_default_collations_are_the_servers(mariadb, two_mysqls):
    for server in (mariadb, two_mysqls[0].start()):
        version = ServerVersion.parse(server.execute("SELECT VERSION()")[0][0])
        rows = server.execute(
            "SELECT CHARACTER_SET_NAME, ID FROM information_schema.COLLATIONS WHERE IS_DEFAULT = 'Yes'"
        )
        assert len(rows) > 30
        for charset, number in rows:
            own = default_collation(charset, mariadb=version.mariadb, version=(version.major, version.minor))
            assert own == number, charset


@pytest.mark.parametrize("mode", ["", "UTF8_IS_UTF8MB3"])
def test_a_definition_agrees_with_its_rows_in_every_utf8_mode(mariadb, mode):
    """No binlog logs `old_mode`, which decides it."""
    twin = Twin(mariadb, "")
    with closing(twin.connection), closing(twin.snapshots):
        twin.ask(f"SET SESSION old_mode = '{mode}'")
        kinds = ["VARCHAR(10)", "CHAR(5)", "TEXT(70)", "TEXT(20000)", "VARCHAR(10) COMPRESSED", "ENUM('a')"]
        listed = ", ".join(f"c{number} {kind} CHARACTER SET utf8" for number, kind in enumerate(kinds))
        assert twin.run(
            f"CREATE TABLE t ({listed.replace('COMPRESSED CHARACTER SET utf8', 'CHARSET utf8 COMPRESSED')})"
        )
        assert twin.run("CREATE TABLE u (a VARCHAR(10), b VARCHAR(10) COLLATE utf8_bin) CHARSET utf8")
        for table in ("t", "u"):
            twin.ask(f"INSERT INTO {table} () VALUES ()")
        maps = [
            parse_table_map(body, mariadb=True)
            for kind, body, _ in twin.new_events()
            if kind == EventType.TABLE_MAP
        ]
        assert len(maps) == 2
        for found in maps:
            require_agreement(found, twin.catalog.table(found.schema, found.table))
