"""Rows that were rolled back after they were logged, and statements that stop a stream."""

from __future__ import annotations

import pytest
from support.binlog.binlog_bytes import File

from canal_group.binlog.files.binlog_files import BinlogFiles
from canal_group.binlog.formats.events import IN_USE_FLAG
from canal_group.merge.errors import UnsupportedEvent
from canal_group.merge.values.chunk import TableName

COLUMNS = ((3, b""),)
MARIADB, MYSQL_5_1 = "10.11.6-MariaDB-log", "5.1.73-log"


def file_of(*steps, version=MARIADB, **options):
    """Return a file of one transaction: a number inserts a row, a text is a statement."""
    file = File(version, checksum=None if version == MYSQL_5_1 else False, **options)
    file.query("BEGIN").table_map(COLUMNS)
    for step in steps:
        if isinstance(step, int):
            file.insert(COLUMNS, [step.to_bytes(4, "little")])
        else:
            file.query(step)
    return file


def read(tmp_path, *steps, verbatim=False, version=MARIADB):
    path = file_of(*steps, version=version).write(tmp_path / "mysql-bin.000001")
    chunks = list(BinlogFiles([path], TableName, verbatim=verbatim))
    for chunk in chunks:
        counts = [0] * len(chunk.headers)
        for table in chunk.tables:
            for header in table.rows.column("_header").to_pylist():
                counts[header] += 1
        assert verbatim or chunk.headers["rows"].tolist() == counts
    return chunks


def values(chunks):
    return [
        (row["_row"], *row["after"].values())
        for chunk in chunks
        for table in chunk.tables
        for row in table.rows.to_pylist()
    ]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([1, "SAVEPOINT `a`", 2, "ROLLBACK TO `a`", 3], [(0, 1), (2, 3)]),
        ([1, "SAVEPOINT `a`", 2, "SAVEPOINT `b`", 3, "ROLLBACK TO `b`", 4], [(0, 1), (1, 2), (3, 4)]),
        ([1, "SAVEPOINT `a`", 2, "SAVEPOINT `b`", 3, "ROLLBACK TO `b`", 4, "ROLLBACK TO `a`"], [(0, 1)]),
        (["SAVEPOINT `a`", 1, "ROLLBACK TO `a`", 2, "ROLLBACK TO `a`", 3], [(2, 3)]),
        (["SAVEPOINT `a`", 1, "SAVEPOINT `A`", 2, "ROLLBACK TO `\u00e4`"], [(0, 1)]),
        (["SAVEPOINT `a`", 1, "RELEASE SAVEPOINT `a`", 2], [(0, 1), (1, 2)]),
        (["ROLLBACK TO `a`", 1], [(0, 1)]),
    ],
)
def test_what_a_savepoint_undoes_keeps_its_ordinal(tmp_path, steps, expected):
    assert values(read(tmp_path, *steps, "COMMIT")) == expected


def test_a_transaction_that_was_rolled_back_has_no_rows(tmp_path):
    (chunk,) = read(tmp_path, 1, 2, "ROLLBACK", "BEGIN", 3, "COMMIT")
    assert values([chunk]) == [(0, 3)]
    assert len(chunk.headers) == 2, "its position, and its GTID, are passed"


@pytest.mark.parametrize("end", [["ROLLBACK TO `a`", "COMMIT"], ["ROLLBACK"]])
def test_an_old_server_may_have_kept_rows_of_the_same_transaction(tmp_path, end):
    with pytest.raises(UnsupportedEvent, match=r"Which of them remain is unknown.*mysql-bin\.000001:\d+"):
        read(tmp_path, "SAVEPOINT `a`", 1, *end, version=MYSQL_5_1)


def test_a_savepoint_that_was_not_set(tmp_path):
    with pytest.raises(UnsupportedEvent, match=r"a savepoint were rolled back.*The savepoint is not"):
        read(tmp_path, "SAVEPOINT `a`", 1, "ROLLBACK TO `b`", "COMMIT")


def test_all_that_is_in_a_file_is_shown_on_request(tmp_path):
    (chunk,) = read(tmp_path, "SAVEPOINT `a`", 1, "ROLLBACK TO `a`", 2, "COMMIT", verbatim=True)
    assert values([chunk]) == [(0, 1), (2, 2)]
    assert chunk.statements.column("sql").to_pylist() == ["ROLLBACK TO A"]


def test_rows_of_the_next_transaction_are_not_undone(tmp_path):
    """A transaction that its file does not end is forgotten, with what was undone of it."""
    crashed = {"flags": IN_USE_FLAG}
    first = file_of("SAVEPOINT `a`", 1, "ROLLBACK TO `a`", **crashed).write(tmp_path / "mysql-bin.000001")
    second = file_of(2, "COMMIT").write(tmp_path / "mysql-bin.000002")
    assert values(BinlogFiles([first, second], TableName)) == [(0, 2)]


def test_a_statement_that_no_list_has_is_refused(tmp_path):
    with pytest.raises(UnsupportedEvent, match=r"unknown.*: MERGE\. .*QUERY") as caught:
        read(tmp_path, "MERGE INTO t", "COMMIT")
    assert "newer server" in caught.value.hint
    (chunk,) = read(tmp_path, "MERGE INTO t", "COMMIT", verbatim=True)
    assert chunk.statements.column("sql").to_pylist() == ["MERGE INTO t"]
