"""Statements that a server writes itself are in UTF-8, whatever the client's charset is."""

from __future__ import annotations

import pytest

from canal_group.binlog.charsets.statement_text import statement_text

LATIN1, GBK, SWE7, UTF8MB4 = 8, 28, 10, 45
#: what follows the name
COLUMNS = " (\n  `é` int NOT NULL,\n  `e` enum('é')\n)"


@pytest.mark.parametrize("collation", [LATIN1, GBK, SWE7, UTF8MB4, None])
@pytest.mark.parametrize("tail", ["", " START TRANSACTION", " ENGINE=InnoDB"])
@pytest.mark.parametrize("head", ["`t`", "`s`.`té`", "IF NOT EXISTS `t``é`"])
def test_a_create_of_a_query_is_in_utf8(collation, head, tail):
    sql = f"CREATE TABLE {head}{COLUMNS}{tail}"
    assert statement_text(sql.encode(), collation) == sql


@pytest.mark.parametrize(
    "sql", ["CREATE TABLE `t` (`é` INT)", "ALTER TABLE t ADD `é` INT", f"CREATE TABLE `t`{COLUMNS}"]
)
def test_what_a_client_writes_is_in_its_charset(sql):
    assert statement_text(sql.encode("latin-1"), LATIN1) == sql
