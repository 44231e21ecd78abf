"""Compressed, prepared and tagged transactions of a real MySQL server."""

from __future__ import annotations

import pytest
from support.sources.recorder import await_rows, reading

from canal_group.binlog.server.binlog_stream import resume_after


@pytest.fixture
def mysql(two_mysqls):
    """A server with an empty schema `app`."""
    server = two_mysqls[0].start()
    server.execute(
        "DROP DATABASE IF EXISTS app", "CREATE DATABASE app", "CREATE TABLE app.x (id INT PRIMARY KEY)"
    )
    return server


def ids(recorder):
    return [row["after"]["id"] for row in recorder.rows("x")]


def test_compressed_and_tagged_transactions(mysql, source_address):
    with reading(source_address(mysql)) as recorder:
        mysql.execute(
            "SET binlog_transaction_compression = ON",
            "INSERT INTO app.x VALUES (1), (2)",
            "SET gtid_next = 'AUTOMATIC:tag'",
            "INSERT INTO app.x VALUES (3)",
        )
        await_rows(recorder, "x", 3)
    assert ids(recorder) == [1, 2, 3]
    last = recorder.chunks[-1]
    assert last.names[int(last.headers[-1]["gtid_source"])].endswith(":tag")


def test_rows_prepared_before_the_position_are_looked_up(mysql, source_address):
    """1. Prepared. 2. Two files follow, and a reader ends after them. 3. Another one reads the commit."""
    with reading(source_address(mysql)) as recorder:
        mysql.execute("XA START 'x1'", "INSERT INTO app.x VALUES (1)", "XA END 'x1'", "XA PREPARE 'x1'")
        mysql.execute("FLUSH BINARY LOGS", "FLUSH BINARY LOGS", "INSERT INTO app.x VALUES (100)")
        await_rows(recorder, "x", 1)
    mysql.kill()
    mysql.start()
    with reading(source_address(mysql), start=resume_after(recorder.chunks[-1])) as again:
        mysql.execute("XA COMMIT 'x1'", "INSERT INTO app.x VALUES (101)")
        await_rows(again, "x", 2)
    assert (ids(recorder), ids(again)) == ([100], [1, 101])
