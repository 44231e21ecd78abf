"""The comparison with mysql-replication, over recorded binlogs: equal, different, and not comparable."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from canal_group.binlog.columns.table_lookup import NoLookup
from canal_group.binlog.second_opinion.comparison import second_opinion
from canal_group.binlog.second_opinion.tail import tail_of_files
from canal_group.binlog.second_opinion.witness import XA, Row, Witness
from canal_group.merge.errors import UsageError
from canal_group.merge.values.chunk import TableName

FIXTURES = Path(__file__).parents[3] / "fixtures"
#: MariaDB's times of the old format need a lookup, without which our decoder refuses them
READ = sorted(
    each for each in FIXTURES.glob("*/*.binlog") if each.parts[-2:] != ("mariadb-10.11", "types.binlog")
)


def opinion(file, witnessed=None, select=TableName):
    return second_opinion([file], select, lookup=NoLookup(), witnessed=witnessed and [witnessed])


@pytest.mark.parametrize("file", READ, ids=lambda file: "/".join(file.parts[-2:]))
def test_recorded_binlogs_are_read_alike(file):
    result = opinion(file)
    assert result.difference is None
    assert result.rows or result.rows_left


def test_what_mysql_replication_does_not_read_is_named_and_counted():
    mysql = FIXTURES / "mysql-9.7.4"
    assert opinion(mysql / "txn_compression.binlog").rows_left == {
        "compressed transactions (TRANSACTION_PAYLOAD)": 6
    }
    assert opinion(mysql / "xa.binlog").rows_left == {XA: 2}
    assert [each[:27] for each in opinion(mysql / "vector.binlog").rows_left] == [
        "tables that it does not rea"
    ]
    assert opinion(mysql / "row_image_minimal.binlog").values_left == {
        "columns that images lack (binlog_row_image)": 9
    }
    statements = opinion(FIXTURES / "mysql-5.5.9" / "statements.binlog").rows_left
    assert statements == {"statements, whose rows are in no event": 13}
    assert "unsigned numbers without full metadata" in opinion(mysql / "md_minimal.binlog").values_left


def damaged(tmp_path, old, new):
    """Return a copy of a binlog without checksums in which a value is another one."""
    data = (FIXTURES / "mysql-9.7.4" / "checksum_none.binlog").read_bytes()
    assert len(old) == len(new)
    file = tmp_path / "checksum_none.binlog"
    at = data.rindex(old)
    file.write_bytes(data[:at] + new + data[at + len(old) :])
    return file


def test_a_wrong_value_is_named_with_its_position(tmp_path):
    file = FIXTURES / "mysql-9.7.4" / "checksum_none.binlog"
    rows = [each for each in rows_of(file) if each.after]
    value = next(each for each in rows[-1].after.values.values() if isinstance(each, str))
    other = damaged(tmp_path, value.encode(), bytes([value.encode()[0] ^ 1]) + value.encode()[1:])
    differs = opinion(other, witnessed=file).difference
    assert differs.position == rows[-1].position
    assert differs.table == str(rows[-1].name)
    assert differs.column.endswith("(after)")
    assert differs.theirs == repr(value) != differs.ours


def rows_of(file):
    return [each for each in Witness([file], TableName) if isinstance(each, Row)]


def test_a_row_that_only_one_decoder_has_is_a_difference(tmp_path):
    file = FIXTURES / "mysql-9.7.4" / "big_transaction.binlog"
    data = file.read_bytes()
    last = rows_of(file)[-1].position.offset
    size = int.from_bytes(data[last + 9 : last + 13], "little")
    blank = bytearray(data[last : last + size])
    blank[4] = 28  # IGNORABLE
    blank[-4:] = zlib.crc32(blank[:-4]).to_bytes(4, "little")
    other = tmp_path / file.name
    other.write_bytes(data[:last] + blank + data[last + size :])
    missing, extra = opinion(other, witnessed=file).difference, opinion(file, witnessed=other).difference
    assert (missing.ours, missing.theirs, missing.position.offset) == ("no row", "a row of INSERT", last)
    assert (extra.ours, extra.theirs) == ("a row of INSERT", "no row")


def test_tables_that_the_filter_drops_are_not_compared():
    result = opinion(FIXTURES / "mysql-9.7.4" / "big_transaction.binlog", select=lambda *_: None)
    assert (result.rows, result.difference) == (0, None)


@pytest.mark.parametrize("name", ["ddl", "checksum_none", "foreign_key_cascade", "temp_and_myisam"])
def test_a_tail_has_the_offsets_of_its_file(tmp_path, name):
    file = FIXTURES / "mysql-9.7.4" / f"{name}.binlog"
    rows = rows_of(file)
    size = file.stat().st_size
    tails = []
    for bytes_max in range(60, size + 1, 97):
        try:
            (tail,) = tail_of_files([file], tmp_path, bytes_max)
        except UsageError as error:
            assert "No transaction begins" in str(error)  # noqa: PT017 - short tails have none
            continue
        assert tail.stat().st_size == size
        tails.append(rows_of(tail))
        assert tails[-1] == rows[len(rows) - len(tails[-1]) :]
        assert opinion(tail).rows == len(tails[-1])
    assert tails[-1] == rows
    assert all(map(rows_of_at_least, tails, tails[1:]))


def rows_of_at_least(shorter, longer):
    return len(shorter) <= len(longer)
