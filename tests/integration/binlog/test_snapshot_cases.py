"""What happens to a table between a page's point and its place in the stream, case by case, on real servers.

One lane reads the tables of all cases. When the first page of a case's table was read, statements are
executed, and it enters when the stream has brought them.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from support.binlog.archived import options_of, position_of
from support.deadline import await_true
from support.defaults import address_of
from support.sources.snapshot_client import SnapshotClient
from support.sources.snapshot_lanes import begun, running, shown

from canal_group.actors.snapshot.shard_snapshot import ShardSnapshot
from canal_group.merge.snapshot.point import LogOffset

NUMBERED = "(id BIGINT PRIMARY KEY, v VARCHAR(40))"
WORDED = "(id VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci PRIMARY KEY, v INT)"
#: a page has 500 rows at first
MANY = 1_200


def many(table, value="CONCAT('old ', n)"):
    """Return the statement that inserts rows 1 to `MANY`."""
    digits = " UNION ALL ".join(f"SELECT {digit} AS d" for digit in range(10))
    tens = [f"({digits}) AS d{power}" for power in range(4)]
    number = " + ".join(f"d{power}.d * {10**power}" for power in range(4))
    numbers = f"SELECT {number} + 1 AS n FROM {', '.join(tens)}"
    return f"INSERT INTO app.{table} SELECT n, {value} FROM ({numbers}) AS numbers WHERE n <= {MANY}"


def few(table, *ids, value="'old'"):
    return f"INSERT INTO app.{table} VALUES " + ", ".join(f"({each!r}, {value})" for each in ids)


class Case(NamedTuple):
    """Statements; `{t}` is the table of the case's name."""

    before: list[str]
    inside: list[str]
    #: whether rows are gone without events, so that the copy has more of them
    vanish: bool = False
    #: further tables
    others: tuple[str, ...] = ()
    engine: str = "mariadb mysql"


def numbered_texts(texts):
    """Return the statements of a table whose key is an ENUM of texts, with rows of all its numbers.

    The first page has nearly all of them, in several batches.
    """
    numbers = len(texts.split(",")) + 1
    return [
        "SET SESSION sql_mode = ''",
        f"CREATE TABLE app.{{t}} (id BIGINT, k ENUM({texts}), n INT, v TEXT, PRIMARY KEY (k, n))",
        many("{t}", f"n % {numbers}, n DIV {numbers}, RPAD(n, 5000, ' old')"),
        "DELETE FROM app.{t} WHERE n >= 140",
    ]


def changes_of_one_text(number, other):
    """Return statements that change rows of one of two numbers of a text, and then of the other."""
    return [
        "SET SESSION sql_mode = ''",
        *(
            each.format(number=number, other=other)
            for each in (
                "UPDATE app.{{t}} SET v = 'changed' WHERE k = {other} AND n < 20",
                "DELETE FROM app.{{t}} WHERE k = {other} AND n BETWEEN 20 AND 30",
                "DELETE FROM app.{{t}} WHERE k = {number} AND n BETWEEN 40 AND 50",
                "UPDATE app.{{t}} SET k = {other}, n = n + 1000 WHERE k = {number} AND n BETWEEN 60 AND 70",
                "UPDATE app.{{t}} SET k = {number}, n = n + 2000 WHERE k = {other} AND n BETWEEN 72 AND 74",
                "SET SESSION binlog_row_image = 'NOBLOB'",
                "UPDATE app.{{t}} SET id = -id WHERE k = {other} AND n BETWEEN 80 AND 90",
                "UPDATE app.{{t}} SET n = n + 3000 WHERE k = {number} AND n BETWEEN 100 AND 110",
                "UPDATE app.{{t}} SET n = n + 3000 WHERE k = {other} AND n BETWEEN 120 AND 130",
            )
        ),
    ]


SIMPLE = [f"CREATE TABLE app.{{t}} {NUMBERED}", few("{t}", *range(1, 9))]
LARGE = [f"CREATE TABLE app.{{t}} {NUMBERED}", many("{t}")]
PARTITIONED = [
    (
        f"CREATE TABLE app.{{t}} {NUMBERED} ENGINE = InnoDB PARTITION BY RANGE (id)"
        " (PARTITION p0 VALUES LESS THAN (700), PARTITION p1 VALUES LESS THAN MAXVALUE)"
    ),
    many("{t}"),
]
WORDS = [f"CREATE TABLE app.{{t}} {WORDED}", few("{t}", "abc", "b", "c", value="1")]

CASES = {
    "delete_in_page": Case(
        SIMPLE,
        ["DELETE FROM app.{t} WHERE id IN (3, 5)", "DELETE FROM app.deletes_of_unread_tables WHERE id < 5"],
    ),
    "key_swap": Case(
        SIMPLE,
        [
            "UPDATE app.{t} SET v = id",
            "UPDATE app.{t} SET id = 100 WHERE id = 1",
            "UPDATE app.{t} SET id = 1 WHERE id = 2",
            "UPDATE app.{t} SET id = 2 WHERE id = 100",
        ],
    ),
    "delete_then_reinsert": Case(
        SIMPLE, ["DELETE FROM app.{t} WHERE id < 4", "INSERT INTO app.{t} VALUES (2, 'again')"]
    ),
    "case_only_key_change": Case(WORDS, ["UPDATE app.{t} SET id = 'ABC' WHERE id = 'abc'"]),
    "pad_space_keys": Case(WORDS, ["UPDATE app.{t} SET id = 'b  ' WHERE id = 'b'"]),
    "cascade_and_trigger_rows": Case(
        [
            "CREATE TABLE app.cascading (id BIGINT PRIMARY KEY, v VARCHAR(40)) ENGINE = InnoDB",
            few("cascading", 1, 2, 3),
            (
                "CREATE TABLE app.{t} (id BIGINT PRIMARY KEY, v BIGINT,"
                " FOREIGN KEY (v) REFERENCES app.cascading (id) ON DELETE CASCADE) ENGINE = InnoDB"
            ),
            few("{t}", 1, 2, value="1"),
            few("{t}", 3, 4, value="3"),
            f"CREATE TABLE app.triggered {NUMBERED}",
            (
                "CREATE TRIGGER app.deleted AFTER DELETE ON app.cascading FOR EACH ROW"
                " INSERT INTO app.triggered VALUES (OLD.id, 'by a trigger')"
            ),
        ],
        ["DELETE FROM app.cascading WHERE id = 1"],
        vanish=True,
        others=("cascading", "triggered"),
    ),
    "minimal_image_on_unread_row": Case(
        LARGE,
        [
            "SET SESSION binlog_row_image = 'MINIMAL'",
            "UPDATE app.{t} SET v = 'read' WHERE id = 5",
            "UPDATE app.{t} SET v = 'unread' WHERE id = 1150",
            "UPDATE app.{t} SET id = -7 WHERE id = 1160",
            "UPDATE app.{t} SET id = 5000 WHERE id = 6",
        ],
    ),
    "partial_json_on_unread_row": Case(
        [
            "CREATE TABLE app.{t} (id BIGINT PRIMARY KEY, v JSON)",
            many("{t}", 'JSON_OBJECT("n", n, "text", REPEAT("x", 50))'),
        ],
        [
            "SET SESSION binlog_row_value_options = 'PARTIAL_JSON'",
            "UPDATE app.{t} SET v = JSON_SET(v, '$.n', -1) WHERE id IN (5, 1150)",
        ],
        engine="mysql",
    ),
    "truncate_in_page": Case(LARGE, ["TRUNCATE app.{t}", "INSERT INTO app.{t} VALUES (1, 'after')"]),
    "rename_swap": Case(
        [*SIMPLE, f"CREATE TABLE app.swapped {NUMBERED}", few("swapped", 1, 2, 70, value="'swapped'")],
        ["RENAME TABLE app.{t} TO app.swapped_old, app.swapped TO app.{t}"],
        vanish=True,
    ),
    "add_drop_column_in_page": Case(
        [f"CREATE TABLE app.{{t}} {NUMBERED}", many("{t}"), "ALTER TABLE app.{t} ADD COLUMN w INT DEFAULT 1"],
        [
            "ALTER TABLE app.{t} ADD COLUMN c INT NOT NULL DEFAULT 7, DROP COLUMN w",
            "UPDATE app.{t} SET c = 8 WHERE id IN (5, 1150)",
        ],
    ),
    "exchange_partition": Case(
        [
            (
                f"CREATE TABLE app.{{t}} {NUMBERED} ENGINE = InnoDB"
                " PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (100),"
                " PARTITION p1 VALUES LESS THAN MAXVALUE)"
            ),
            few("{t}", 1, 2, 3, 200, 201),
            f"CREATE TABLE app.exchanged {NUMBERED} ENGINE = InnoDB",
            few("exchanged", 2, 50, 51, value="'exchanged'"),
        ],
        ["ALTER TABLE app.{t} EXCHANGE PARTITION p0 WITH TABLE app.exchanged"],
        others=("exchanged",),
    ),
    "drop_partition": Case(PARTITIONED, ["ALTER TABLE app.{t} DROP PARTITION p0"]),
    "truncate_partition": Case(PARTITIONED, ["ALTER TABLE app.{t} TRUNCATE PARTITION p0, p1"]),
    "reorganize_partition": Case(
        PARTITIONED,
        [
            (
                "ALTER TABLE app.{t} REORGANIZE PARTITION p0, p1 INTO (PARTITION q VALUES LESS THAN (1000),"
                " PARTITION r VALUES LESS THAN MAXVALUE)"
            ),
            "ALTER TABLE app.{t} REMOVE PARTITIONING",
        ],
    ),
    "convert_partition_to_table": Case(
        PARTITIONED,
        ["ALTER TABLE app.{t} CONVERT PARTITION p0 TO TABLE app.converted"],
        engine="mariadb",
    ),
    "convert_table_to_partition": Case(
        [
            *PARTITIONED,
            "ALTER TABLE app.{t} DROP PARTITION p1",
            f"CREATE TABLE app.taken_in {NUMBERED} ENGINE = InnoDB",
            few("taken_in", 800, 900),
        ],
        [
            "ALTER TABLE app.{t} CONVERT TABLE app.taken_in TO PARTITION p1 VALUES LESS THAN (1000)",
        ],
        engine="mariadb",
    ),
    "ignored_duplicates": Case(
        [f"CREATE TABLE app.{{t}} {NUMBERED}", many("{t}", "CONCAT('old ', n % 700)")],
        ["ALTER IGNORE TABLE app.{t} ADD UNIQUE (v)"],
        engine="mariadb",
    ),
    "repeated_drops": Case(PARTITIONED, ["ALTER TABLE app.{t} TRUNCATE PARTITION p0", few("{t}", 5, 6)] * 3),
    "enum_numbers_without_a_text": Case(numbered_texts("'a', '', 'b'"), changes_of_one_text(0, 2)),
    "enum_numbers_of_an_empty_text": Case(numbered_texts("'a', '', 'b'"), changes_of_one_text(2, 0)),
    "enum_numbers_of_one_text": Case(numbered_texts("'a', 'b', 'a'"), changes_of_one_text(1, 3)),
    # Another case deletes them, before this table is begun.
    "deletes_of_unread_tables": Case(SIMPLE, []),
}
NAMES = {
    engine: [name for name, case in CASES.items() if engine in case.engine] for engine in ("mariadb", "mysql")
}


class Copied(NamedTuple):
    """What a client has of all tables, and what the server shows."""

    engine: str
    client: SnapshotClient
    #: cases whose statements were executed inside a page
    done: list[str]
    shown: dict[str, dict]


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def copied(request, tmp_path_factory):
    engine = request.param
    if engine == "mariadb":
        server = request.getfixturevalue("shared_mariadb")
    else:
        server = request.getfixturevalue("two_mysqls")[0].start()
    server.execute("DROP DATABASE IF EXISTS app", "CREATE DATABASE app")
    cases = {name: CASES[name] for name in NAMES[engine]}
    for name, case in cases.items():
        server.execute(*(statement.replace("{t}", name) for statement in case.before))
    left, done, real = dict(cases), [], ShardSnapshot.page_read

    def page_read(self, work, page):
        case = left.pop(work.name.table, None)
        if case is not None and case.inside:
            server.execute(*(statement.replace("{t}", work.name.table) for statement in case.inside))
            end = LogOffset(*position_of(server))

            def brought():
                at = self._at
                return at is not None and not end.is_after(LogOffset(at.boundary.file, at.boundary.offset))

            await_true(brought, "the stream has brought it")
            done.append(work.name.table)
        real(self, work, page)

    where = server.address()
    address = address_of(
        "s1",
        where.host,
        where.port,
        "root",
        server.password,
        destination="test",
        archive=options_of(tmp_path_factory.mktemp("a")),
    )
    tables = [table for name, case in cases.items() for table in (name, *case.others)]
    wanted = sorted(tables, key=lambda table: table == "deletes_of_unread_tables")
    with pytest.MonkeyPatch.context() as patch, running(address) as shard:
        patch.setattr(ShardSnapshot, "page_read", page_read)
        client = SnapshotClient(shard, begun(address, *(f"app.{table}" for table in wanted)), {"c": 7})
        client.read_until(lambda: client.copy.mark, "the mark")
    return Copied(engine, client, done, {table: shown(server, table) for table in tables})


@pytest.mark.parametrize("name", CASES)
def test_events_in_a_page(copied, name):
    case = CASES[name]
    if copied.engine not in case.engine:
        pytest.skip(f"{copied.engine} has nothing of the kind")
    assert copied.client.copy.mark.failed == {}
    assert (name in copied.done) == bool(case.inside)
    for table in (name, *case.others):
        rows, expected = copied.client.copy.rows[table], copied.shown[table]
        # What was read before a column was dropped has it.
        shared = {
            key: {column: rows[key][column] for column in expected[key]} for key in rows.keys() & expected
        }
        assert shared == expected
        assert rows.keys() == expected.keys() or (case.vanish and table == name)


def test_a_case_changes_what_its_page_had(copied):
    """Otherwise it shows nothing."""
    assert set(copied.done) == {name for name in NAMES[copied.engine] if CASES[name].inside}
