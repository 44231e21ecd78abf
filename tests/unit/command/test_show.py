"""What the command line prints of changes."""

from __future__ import annotations

import json

import pyarrow as pa
from support.rows.partial_batch import BATCH

from canal_group.merge.rows.envelope import envelope
from canal_group.programs.command.consuming.show import print_lines, print_table
from canal_group.programs.command.json_line import json_line


def test_an_update_shows_what_changed_and_no_null_where_nothing_is_known(capsys):
    print_table(envelope(BATCH).slice(1, 2))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("UPDATE")[1].strip() for line in lines[1:]] == ["b=? -> 5", "id=1 -> 2, b=5 -> 6"]


def test_lines_have_only_what_is_known(capsys):
    print_lines(envelope(BATCH))
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert found[1]["before"] == {"id": "1"}
    assert found[1]["after"] == {"id": "1", "b": "5"}


def test_values_in_brackets_and_between_colons_are_printed_as_they_are(capsys, monkeypatch):
    """The console takes neither for markup or the name of a picture."""
    monkeypatch.setenv("COLUMNS", "200")
    said = "alter table orders comment '[red]1[/red] :smile:'"
    table = envelope(BATCH).slice(0, 1)
    print_table(table.set_column(table.schema.names.index("sql"), "sql", pa.array([said])))
    assert said in capsys.readouterr().out


def test_a_json_record_stays_one_line_after_splits():
    value = {"a": "".join(map(chr, range(0x3000))), "b": "\U0001f600"}
    line = json_line(value)
    assert line.splitlines() == [line]
    assert json.loads(line) == value
    assert "\U0001f600" in line
