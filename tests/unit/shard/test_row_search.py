"""Whether the last changes of a row were for anybody: the rules of tables decide."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.defaults import files_source

from canal_group.actors.shard.row_search import changes_of
from canal_group.actors.sink.consumer_view import ConsumerView, History
from canal_group.actors.sink.processing import Processing
from canal_group.actors.sink.table_rule import KEPT, TableRule
from canal_group.binlog.schema.ancestry import Ancestry
from canal_group.conf.filters.expression_text import parse_expression
from canal_group.merge.errors import UsageError
from canal_group.merge.rows.row_key import RowKey
from canal_group.merge.values.chunk import TableName
from canal_group.programs.command.trace_command import key_lines

FILE = Path(__file__).parents[2] / "fixtures/mysql-9.7.4/foreign_key_cascade.binlog"


@pytest.mark.parametrize(
    ("rule", "flags"),
    [
        (None, [True, True]),
        (TableRule("fx.par", kinds=KEPT - {"delete"}), [True, False]),
        (TableRule("fx.par", where=parse_expression("id > 1")), [False, False]),
        (TableRule("fx.par", black_columns=frozenset({"missing"})), [False, False]),
        (TableRule("fx.chi", kinds=frozenset()), [True, True]),
    ],
)
def test_a_change_that_the_rules_drop_is_found_and_said_to_be_dropped(rule, flags, tmp_path):
    rules = Processing([] if rule is None else [rule])
    key = RowKey.parse("fx.par:1")
    source = files_source("s0", str(shutil.copy(FILE, tmp_path / "mysql-bin.000001")))
    answer = changes_of(source, TableName, ConsumerView(History.DROP), key, 1 << 20, rules)
    assert [(each["op"], each["kept"]) for each in answer["changes"]] == list(
        zip(("INSERT", "DELETE"), flags, strict=True)
    )
    changes = [{"shard": "s0", "trace": None, **each} for each in answer["changes"]]
    lines = key_lines({"key": "fx.par:1", "changes": changes, "searched": {}}, "1MiB", {})
    assert lines.count("  It is left out by filter.tables: no client gets it.") == flags.count(False)


def test_no_row_is_looked_for_by_a_key_that_a_rule_keeps_back(tmp_path):
    """Whether there is one would tell the value."""
    rules = Processing([TableRule("fx.par", black_columns=frozenset({"id"}))])
    source = files_source("s0", str(shutil.copy(FILE, tmp_path / "mysql-bin.000001")))
    with pytest.raises(UsageError, match="keeps id of the primary key"):
        changes_of(source, TableName, ConsumerView(History.DROP), RowKey.parse("fx.par:1"), 1 << 20, rules)


def test_a_key_that_was_computed_of_a_masked_column_finds_no_row(tmp_path):
    """Its definition does not say so any more."""
    rules = Processing([TableRule("fx.par", black_columns=frozenset({"mail"}))])
    source = files_source("s0", str(shutil.copy(FILE, tmp_path / "mysql-bin.000001")))
    known = {TableName("fx", "par"): Ancestry(reads={"id": ("mail",)})}
    where = TableName, ConsumerView(History.DROP), RowKey.parse("fx.par:1"), 1 << 20
    with pytest.raises(UsageError, match="keeps id of the primary key"):
        changes_of(source, *where, rules, known.get)
