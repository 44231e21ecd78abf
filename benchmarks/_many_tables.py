"""Many tables: what a server has whose definitions are followed, ten columns each; they are not logged."""

from __future__ import annotations

from playground.database.server_process import DatabaseServer

MANY = "many"
_COLUMNS = (
    "id BIGINT PRIMARY KEY, a INT, b VARCHAR(50), c DATETIME, d DECIMAL(10,2), e TEXT, f INT, g VARCHAR(20),"
    " h INT, i DATE, KEY (b), KEY (f)"
)


def make_tables(server: DatabaseServer, begin: int, end: int) -> None:
    """Make the tables t`begin` to t`end` - 1 in the schema `MANY`."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_log_bin = 0")
        # Tables are made twice as fast without a file for each.
        cursor.execute("SET GLOBAL innodb_file_per_table = OFF")
        cursor.execute(f"CREATE DATABASE IF NOT EXISTS {MANY}")
        for number in range(begin, end):
            cursor.execute(f"CREATE TABLE {MANY}.t{number} ({_COLUMNS})")
