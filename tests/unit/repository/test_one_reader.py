"""What a source says of itself is read in one module each, and what sqlglot reads is not the source's."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = ("actors", "binlog", "canal_group", "conf", "merge", "programs")


@cache
def texts():
    files = (file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py")))
    return {str(file.relative_to(ROOT)): file.read_text() for file in files}


@pytest.mark.parametrize(
    ("what", "files"),
    [
        # A server's tables.
        (r"FROM information_schema\.(TABLES|COLUMNS|SCHEMATA)", ["binlog/server/definitions/dictionary.py"]),
        (r'"SHOW CREATE ', ["binlog/server/definitions/dictionary.py"]),
        # Its statements.
        (r"\bLexer\(", ["binlog/schema/statement.py"]),
        (r"import sqlglot|from sqlglot", ["conf/filters/expression_text.py"]),
        # Whether its binlog was reset. (Cursors are compared otherwise: a time that is not known is another.)
        (r"created_s(\b.{0,20})? [!=]= ", ["merge/values/position.py"]),
        (r'"expected_created_s"|expected_created_s=', ["merge/values/resets/reset.py"]),
    ],
)
def test_it_is_read_in_one_file(what, files):
    assert [file for file, text in texts().items() if re.search(what, text)] == files
