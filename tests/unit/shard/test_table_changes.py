"""What statements did to a table, as far as its snapshot must know."""

from __future__ import annotations

import pytest
from support.binlog.binlog_bytes import SIZES_5_1, File, events_of
from support.binlog.decoding import Reading

from canal_group.actors.snapshot.table_changes import changes_in
from canal_group.merge.snapshot.steps import TableChange
from canal_group.merge.values.chunk import TableName

A, B, ALL = TableName("app", "a"), TableName("app", "b"), TableName("app", "")
ALTERED, REPLACED, DROPPED = TableChange.ALTERED, TableChange.REPLACED, TableChange.DROPPED
MOVED = TableChange.ROWS_MOVED


@pytest.mark.parametrize(
    ("statements", "changes"),
    [
        (["ALTER TABLE a ADD c INT"], {A: ALTERED}),
        (["TRUNCATE a"], {A: ALTERED}),
        (["DROP DATABASE app"], {ALL: ALTERED}),
        (["RENAME TABLE a TO b"], {A: REPLACED, B: REPLACED}),
        (["ALTER TABLE a RENAME b, ADD c INT"], {A: REPLACED, B: REPLACED}),
        (["ALTER TABLE a EXCHANGE /* */ PARTITION p WITH TABLE b"], {A: MOVED, B: MOVED}),
        (["ALTER TABLE a CONVERT TABLE b TO PARTITION p"], {A: MOVED, B: MOVED}),
        (["ALTER TABLE a ADD c INT COMMENT 'IMPORT TABLESPACE, OR REPLACE'"], {A: ALTERED}),
        (["ALTER TABLE a IMPORT /* */ TABLESPACE"], {A: MOVED}),
        (["alter table a import partition p tablespace"], {A: MOVED}),
        (["ALTER TABLE a DROP PARTITION p", "RENAME TABLE a TO b"], {A: MOVED, B: REPLACED}),
        (["ALTER TABLE a DROP PARTITION p", "DROP TABLE a"], {A: DROPPED}),
        (["CREATE OR REPLACE TABLE a (id INT)"], {A: MOVED}),
        (["DROP TABLE a, b"], {A: DROPPED, B: DROPPED}),
        (["DROP TABLE a", "CREATE TABLE a (id INT)"], {A: REPLACED}),
        (["DROP TABLE a", "CREATE TABLE a (id INT)", "DROP TABLE a"], {A: DROPPED}),
        (["RENAME TABLE a TO b", "ALTER TABLE a ADD c INT"], {A: REPLACED, B: REPLACED}),
        (["ANALYZE TABLE a", "GRANT SELECT ON a TO u", "SAVEPOINT a"], {}),
    ],
)
def test_what_statements_did_to_tables(statements, changes):
    file = File("10.11.6-MariaDB", SIZES_5_1, checksum=False)
    for sql in statements:
        file.query(sql, "app")
    reading = Reading(checksum=0).feed(events_of(file.data))
    assert changes_in(reading.decoder.close_chunk()) == changes
