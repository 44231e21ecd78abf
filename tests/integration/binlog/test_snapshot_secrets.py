"""What a snapshot keeps to itself: rows are never SQL; no key, condition or error shows a masked value."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from support.binlog.archived import options_of
from support.sources.snapshot_client import SnapshotClient
from support.sources.snapshot_lanes import begun, running, shown

from canal_group.merge.snapshot.cursor import KeyRange, SnapshotCursor

SECRET = "pw-of-the-boss"
#: its answer would be in the text of the server's error
ASKS = "0 AND EXTRACTVALUE(1, CONCAT(0x7e, (SELECT s FROM hidden.secret LIMIT 1)))"
MAIL = "ann@example.org"
MASKED = [{"match": r"app\..*", "masks": [{"column": "mail", "kind": "constant", "value": "x"}]}]
#: table -> columns and keys, the first key of which is of a masked column
MASKED_TABLES = {
    "only_mail": "mail VARCHAR(40) PRIMARY KEY, id INT",
    "with_mail": "mail VARCHAR(40), id INT, PRIMARY KEY (id, mail)",
    "other_key": "mail VARCHAR(40) PRIMARY KEY, id INT NOT NULL, UNIQUE KEY by_id (id)",
    "no_key": "mail VARCHAR(40), id INT",
}
#: MariaDB has no primary key of a generated column
MYSQL_TABLES = {
    "made_of_mail": "id INT, mail VARCHAR(40), low VARCHAR(40) AS (LOWER(mail)) STORED, PRIMARY KEY (low)",
}


@pytest.fixture
def address(server, source_address, tmp_path):
    """The server, as an account that may read all of it, with an archive."""
    server.execute("DROP DATABASE IF EXISTS hidden", "CREATE DATABASE hidden")
    server.execute(
        "CREATE TABLE hidden.secret (s VARCHAR(40))", f"INSERT INTO hidden.secret VALUES ('{SECRET}')"
    )
    yield source_address(server, user="root", password=server.password, archive=options_of(tmp_path))
    server.execute("DROP DATABASE hidden")


class Told:
    """All that a client of a lane is told beside its rows."""

    def __init__(self, client):
        self.client, self.texts = client, []

    def until_the_mark(self):
        def is_over():
            self.texts.append(self.client.copy.position.snapshot or "")
            self.texts.append(str(self.client.lane.describe()))
            return self.client.copy.mark

        self.client.read_until(is_over, "the mark")
        self.texts.append(self.client.copy.mark.to_sql())
        return self.client.copy.mark.failed

    def has(self, value):
        text = "\n".join(self.texts)
        return value in text or value.encode().hex() in text.lower()


@pytest.mark.parametrize(
    "columns",
    [
        "t TEXT NOT NULL, id INT, PRIMARY KEY (t(20))",
        "t TEXT NOT NULL, id INT, PRIMARY KEY (id, t(10))",
        "t TINYBLOB NOT NULL, id INT, PRIMARY KEY (t(20))",
        "t VARCHAR(200) NOT NULL, id INT, PRIMARY KEY (t(20))",
        "t MEDIUMTEXT NOT NULL, id INT, UNIQUE KEY (t(20))",
        "t TEXT NOT NULL, id INT NOT NULL, PRIMARY KEY (t(20)), UNIQUE KEY by_id (id)",
        "t VARCHAR(200) PRIMARY KEY, id INT",
    ],
)
def test_a_key_that_is_sql_is_read_as_a_row(server, address, columns):
    server.execute(
        f"CREATE TABLE app.x ({columns})",
        f"INSERT INTO app.x (t, id) VALUES ('{ASKS}', 1), ('1 OR SLEEP(9) -- ', 2), ('''', 3), ('', 4)",
    )
    rows = shown(server, "x")
    with running(address) as shard:
        client = SnapshotClient(shard, begun(address, "app.x"))
        told = Told(client)
        assert told.until_the_mark() == {}
    assert client.copy.rows["x"] == rows
    assert not told.has(SECRET)


def test_a_prefix_of_mariadbs_json_is_not_a_key(mariadb, source_address, tmp_path):
    mariadb.execute(
        "CREATE TABLE app.x (t JSON NOT NULL, id INT, PRIMARY KEY (t(20)))",
        "INSERT INTO app.x VALUES ('{\"a\": 1}', 1), ('[]', 2)",
    )
    address = source_address(mariadb, user="root", password=mariadb.password, archive=options_of(tmp_path))
    with running(address) as shard:
        client = SnapshotClient(shard, begun(address, "app.x"))
        assert Told(client).until_the_mark() == {}
    assert set(client.copy.rows["x"]) == {1, 2}


def test_masked_keys_leave_by_no_cursor_mark_or_page(server, address, tmp_path):
    """1. Each table with another identity is copied, and others fail by name. 2. No text beside the rows has
    a masked value; neither have the pages on the disk.
    """
    tables = MASKED_TABLES | (MYSQL_TABLES if server.engine == "mysql" else {})
    for table, columns in tables.items():
        server.execute(
            f"CREATE TABLE app.{table} ({columns})",
            f"INSERT INTO app.{table} (id, mail) VALUES (1, '{MAIL}'), (2, '{MAIL}2')",
        )
    pages, copied = list[bytes](), ("other_key", "no_key")

    def are_copied():
        for each in tmp_path.rglob("snapshots/**/*"):
            # A file is renamed when it is whole, and goes when the client has its pages.
            with suppress(FileNotFoundError, IsADirectoryError):
                pages.append(each.read_bytes())
        return client.copy.rows.keys() >= set(copied)

    with running(address, rules=MASKED) as shard:
        client = SnapshotClient(shard, begun(address, *(f"app.{table}" for table in tables)))
        told = Told(client)
        client.read_until(are_copied, "rows", free=False)
        failed = told.until_the_mark()
    assert failed.keys() == {f"app.{table}" for table in tables.keys() - set(copied)}
    assert "key PRIMARY has mail" in failed["app.with_mail"]
    assert "key PRIMARY has low" in failed.get("app.made_of_mail", "key PRIMARY has low")
    assert "UNIQUE key of other columns" in failed["app.only_mail"]
    for table in copied:
        assert {row["id"]: row["mail"] for row in client.copy.rows[table].values()} == {1: "x", 2: "x"}
    assert not told.has(MAIL)
    assert pages, "pages were on the disk"
    assert not any(MAIL.encode() in page for page in pages)


def test_a_rule_that_begins_to_protect_a_key_refuses_its_cursor(server, address):
    """1. A table is read in part by a key that nothing protects. 2. With a rule for the key, its cursor is
    refused, and forgotten.
    """
    server.execute("CREATE TABLE app.t (mail VARCHAR(40) PRIMARY KEY, id INT)")
    rows = ", ".join(f"('{n:05}{MAIL}', {n})" for n in range(3_000))
    server.execute(f"INSERT INTO app.t VALUES {rows}")
    with running(address) as shard:
        client = SnapshotClient(shard, begun(address, "app.t"))
        client.read_until(lambda: client.copy.pages, "a page")
        copy = client.saved()
    assert MAIL.encode().hex() in copy.position.snapshot
    with running(address, rules=MASKED) as shard:
        client = SnapshotClient(shard, copy)
        client.read_until(lambda: client.copy.mark, "the mark")
        text = str(client.lane.describe())
    assert "key PRIMARY has mail" in client.copy.mark.failed["app.t"]
    assert client.copy.position.snapshot is None
    assert MAIL.encode().hex() not in text + client.copy.mark.to_sql()


def test_pages_from_before_a_rule_are_read_again_by_it(server, address):
    """1. Pages are on the disk that a client has not acknowledged. 2. A rule masks a column of theirs."""
    server.execute("CREATE TABLE app.t (id INT PRIMARY KEY, mail VARCHAR(40))")
    server.execute("INSERT INTO app.t VALUES " + ", ".join(f"({n}, '{n:05}{MAIL}')" for n in range(3_000)))
    with running(address) as shard:
        client = SnapshotClient(shard, begun(address, "app.t"))
        client.read_until(lambda: client.copy.pages, "a page")
        copy = client.saved()
        client.read_until(lambda: client.copy.mark, "the mark", free=False)
    clear = {id_: row["mail"] for id_, row in copy.rows["t"].items()}
    with running(address, rules=MASKED) as shard:
        client = SnapshotClient(shard, copy)
        client.read_until(lambda: client.copy.mark, "the mark")
    rows = {id_: row["mail"] for id_, row in client.copy.rows["t"].items()}
    assert rows == dict.fromkeys(range(3_000), "x") | clear
    assert len(clear) < 3_000


@pytest.mark.parametrize("key", [["5", "6"], ["'2020-01-01'"], ["_utf8mb4 X'ff'"]])
def test_a_readers_cursor_with_keys_of_another_kind_is_planned_anew(server, address, key):
    """1. A cursor says that a part of a table is left. 2. A reader changes its literals. 3. All is read."""
    server.execute("CREATE TABLE app.t (id INT PRIMARY KEY)")
    server.execute("INSERT INTO app.t VALUES " + ", ".join(f"({n})" for n in range(3_000)))
    with running(address) as shard:
        client = SnapshotClient(shard, begun(address, "app.t"))
        client.read_until(lambda: client.copy.pages, "a page")
        copy = client.saved()
    (cursor,) = SnapshotCursor.from_json(copy.position.snapshot).tables.values()
    tables = {"app.t": replace(cursor, ranges=(KeyRange(tuple(key)),))}
    copy.rows.clear()
    with running(address) as shard:
        client = SnapshotClient(shard, begun(address, "app.t", tables=tables))
        assert Told(client).until_the_mark() == {}
    assert len(client.copy.rows["t"]) == 3_000


def test_a_condition_on_a_masked_column_is_refused(server, address):
    """1. A condition on a masked column, on a column that reads it, or on more than the table, fails by name.
    2. No row of its table comes.
    """
    conditions = {
        f"mail = '{MAIL}'": "reads column mail",
        "id = 1 AND `MAIL` LIKE 'a%'": "reads column MAIL",
        "id = 1 AND low > 'a'": "reads column low",
        "id IN (SELECT 1)": "has the word SELECT",
        "id = 1 OR SLEEP(9)": "has the word SLEEP",
        "id = 1": "",
    }
    for number in range(len(conditions)):
        server.execute(
            f"CREATE TABLE app.x{number} (id INT PRIMARY KEY, mail CHAR(20), low CHAR(20) AS (LOWER(mail)))",
            f"INSERT INTO app.x{number} (id, mail) VALUES (1, '{MAIL}')",
        )
    where = {f"app.x{number}": condition for number, condition in enumerate(conditions)}
    with running(address, rules=MASKED) as shard:
        client = SnapshotClient(shard, begun(address, *where, where=where))
        failed = Told(client).until_the_mark()
    assert client.copy.rows == {"x5": {1: {"id": 1, "mail": "x"}}}
    for number, why in enumerate(conditions.values()):
        assert why in failed.get(f"app.x{number}", "")
    assert len(failed) == len(conditions) - 1
