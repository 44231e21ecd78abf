"""The kinds of statements, as a filter names them."""

from __future__ import annotations

import time

import pytest

from merge.rows.statement_kind import statement_kind


@pytest.mark.parametrize(
    "sql",
    [
        "GRANT SELECT ON app.* TO 'reader'@'%'",
        "grant `teller` to `a`@`%` with admin option",
        "REVOKE ALL PRIVILEGES, GRANT OPTION FROM u",
        "CREATE USER 'u'@'%' IDENTIFIED WITH 'caching_sha2_password' AS '$A$005$x'",
        "CREATE USER IF NOT EXISTS u IDENTIFIED BY 'x'",
        "create or replace user u identified by 'x'",
        "ALTER USER u ACCOUNT LOCK",
        "DROP USER IF EXISTS u",
        "RENAME USER u TO v",
        "CREATE OR REPLACE ROLE teller WITH ADMIN u",
        "DROP ROLE teller",
        "SET PASSWORD FOR 'u'@'%'='*0123'",
        "SET PASSWORD = 'x'",
        "SET DEFAULT ROLE teller FOR u",
        "SET ROLE teller",
        "/* by\nansible */ CREATE -- an account\n USER # here\n u",
        "CREATE/**/USER u",
        "/*!50701 ALTER */ /*M!100202 USER */ u",
        "/*!80000ALTER USER u*/",
        "SET STATEMENT max_statement_time=1, sql_mode='FOR x' FOR CREATE USER u",
        "\n\t GRANT\nUSAGE ON *.* TO u",
    ],
)
def test_what_defines_accounts_and_rights_is_dcl(sql):
    assert statement_kind("QUERY", sql) == "dcl"


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE VIEW v AS SELECT 1",
        "CREATE DEFINER=`u`@`%` PROCEDURE grant_all() BEGIN END",
        "CREATE DATABASE users",
        "FLUSH PRIVILEGES",
        "ANALYZE TABLE users",
        "SET STATEMENT max_statement_time=1 FOR ANALYZE TABLE t",
        "SET STATEMENT lock_wait_timeout=1",
        "/* GRANT x */ CREATE VIEW v AS SELECT 1",
        "'GRANT x'",
        "GRANTED",
        "CREATE USERS",
        "CREATE /*",
        "",
    ],
)
def test_every_other_statement_is_a_query(sql):
    assert statement_kind("QUERY", sql) == "query"


def test_what_changes_tables_is_ddl_whatever_its_text():
    assert statement_kind("ALTER", "GRANT x") == "ddl"


@pytest.mark.parametrize(
    "part", ["/*", "/**/", "/*!1", " ", "-- \n", "SET STATEMENT ", "'", "SET STATEMENT a FOR "]
)
def test_a_long_text_is_read_in_one_pass(part):
    begun = time.process_time()
    for sql in (part * 100_000, "SET STATEMENT " + part * 100_000, "CREATE " + part * 100_000):
        statement_kind("QUERY", sql)
    assert time.process_time() - begun < 10
