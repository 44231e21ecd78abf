"""Errors of servers: number and our sentence leave; the text, which quotes values, stays in the log."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pymysql
import pytest
from support.defaults import address_of

from canal_group.binlog.server.source import server_error, translated
from canal_group.merge.errors import PositionPurged, SourceUnavailable, SourceUnfit

ROOT = Path(__file__).parents[4]
SECRET = "pw-of-the-boss"
ADDRESS = address_of("s1", "db0")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (1105, f"XPATH syntax error: '~{SECRET}'"),
        (1292, f"Truncated incorrect DOUBLE value: '{SECRET}'"),
        (1064, f"You have an error in your SQL syntax near '{SECRET}'"),
        (1054, f"Unknown column '{SECRET}' in 'where clause'"),
        (1142, f"SELECT command denied to user 'canal'@'h' for table `{SECRET}`"),
        (1236, f"Could not find first log file name {SECRET}"),
        (1236, f"A replica with the same server_uuid {SECRET}"),
        (1236, SECRET),
    ],
)
def test_the_text_of_a_server_is_in_the_log_and_not_in_the_error(caplog, code, text):
    """It is an exception, which no reader gets over HTTP; it is logged once a minute, and two may meet."""
    for _ in range(3):
        error = server_error(ADDRESS, code, text)
        assert SECRET not in f"{error} {error!r} {error.to_dict()}"
        assert str(code) in error.message
    assert 1 <= sum(SECRET in str(record.exc_info) for record in caplog.records) < 3
    assert not any(SECRET in record.getMessage() for record in caplog.records)


def test_an_error_of_a_statement_is_translated_without_its_text(caplog):
    with pytest.raises(SourceUnavailable) as raised, translated(ADDRESS):
        raise pymysql.err.DataError(1366, f"Incorrect value: '{SECRET}'")
    assert raised.value.message == "The source of shard s1 at canal@db0:3306 is not available: error (1366)."
    with pytest.raises(SourceUnfit) as strange, translated(ADDRESS):
        raise ValueError(SECRET)
    assert SECRET not in str(strange.value)
    assert caplog.text.count(SECRET) == 2


def test_the_text_of_1236_still_decides_which_error_it_is():
    assert isinstance(server_error(ADDRESS, 1236, "Could not find first log file name"), PositionPurged)
    assert isinstance(server_error(ADDRESS, 1236, "with the same server_id"), SourceUnfit)


def test_no_other_module_reads_the_text_of_a_drivers_error():
    """A handler of the driver's errors looks at the number, `args[0]`, and raises another error from it."""
    readers, count = [], 0
    for path in (path for room in ("binlog", "actors", "programs") for path in (ROOT / room).rglob("*.py")):
        text = path.read_text()
        if "pymysql" not in text or path == ROOT / "binlog/server/source.py":
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ExceptHandler) and "pymysql" in ast.unparse(node.type or node):
                count += 1
                body = "\n".join(map(ast.unparse, node.body))
                left = re.sub(rf"from {node.name}\b|\b{node.name}\.args(\[0\]| and )", "", body)
                if node.name is not None and re.search(rf"\b{node.name}\b", left):
                    readers.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert count > 1, "the walk sees handlers"
    assert not readers
