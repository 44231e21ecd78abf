"""What `canal-group compare` refuses before it connects, and what it prints."""

import json

import pytest
from typer.testing import CliRunner

from canal_group.merge.errors import ConfigError
from canal_group.programs.command.cli import app
from canal_group.programs.migration.compare.comparison import Comparison, Difference
from canal_group.programs.migration.compare.result import result_lines

FILE = """
preset: memory
destination: shop
shards: [{name: s0, host: db, user: canal}]
canal: {port: 21111, transaction_entries: %s}
"""


def run(tmp_path, *options, transaction_entries="true"):
    file = tmp_path / "trial.yaml"
    file.write_text(FILE % transaction_entries)
    # Nothing listens there.
    return CliRunner().invoke(app, ["compare", "-c", str(file), "--canal", "127.0.0.1:1", *options])


def test_a_server_that_leaves_out_begins_and_ends_is_refused(tmp_path):
    done = run(tmp_path, transaction_entries="false")
    assert isinstance(done.exception, ConfigError)
    assert "leaves out begins and ends, by which changes are compared" in str(done.exception)


@pytest.mark.parametrize("column", ["note", "orders.note", "shop..note", "a.b.c.d"])
def test_a_column_without_its_table_is_refused(tmp_path, column):
    done = run(tmp_path, "--without", column)
    assert done.exit_code == 2
    assert "is not schema.table.column" in done.output


def comparison(count):
    found = Comparison(differences_max=2, transactions=3, rows=5, values=9)
    found.known["canal's fault current-definition"] = 4
    found.differences += [Difference("b.000001", 100 + n, "shop.t", "c", "'1'", "'2'") for n in range(count)]
    return found


def test_every_difference_is_printed():
    (line,) = result_lines("s0", comparison(2), as_json=True)
    printed = json.loads(line)
    assert (printed["ok"], [each["offset"] for each in printed["differences"]]) == (False, [100, 101])
    assert printed["known"] == {"canal's fault current-definition": 4}
    assert list(result_lines("s0", comparison(2), as_json=False)) == [
        "FAIL  s0: 5 rows and 9 values of 3 transactions were compared with canal's",
        "      known: 4: canal's fault current-definition",
        "      difference 1: b.000001:100, table shop.t, column c",
        "      ours:    '1'",
        "      canal's: '2'",
        "      difference 2: b.000001:101, table shop.t, column c",
        "      ours:    '1'",
        "      canal's: '2'",
        "      ended here, at --differences 2",
    ]
    first = next(result_lines("s0", comparison(0), as_json=False))
    assert first.startswith("ok    s0: 5 rows and 9 values")
