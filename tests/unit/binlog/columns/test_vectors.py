"""VECTOR: a type of MySQL's; of MariaDB's, from 11.7 on, a VARBINARY that a lookup knows as a VECTOR."""

from __future__ import annotations

import pytest
from support.binlog.old_files import Known
from support.rows.vectors import LARGE, SMALL, named, packed, row, written

from canal_group.binlog.columns.table_lookup import ColumnFacts
from canal_group.binlog.files.binlog_files import BinlogFiles
from canal_group.merge.errors import CorruptEvent
from canal_group.merge.rows.text import text
from canal_group.merge.values.chunk import MYSQL_TYPE, TableName

FACTS = [
    ColumnFacts("id", unsigned=False, collation=63, values=(), key_ordinal=1, type="int"),
    ColumnFacts("small", False, 63, (), 0, "vector", size=12),
    ColumnFacts("large", False, 63, (), 0, "vector", size=400),
    ColumnFacts("bytes", False, 63, (), 0, "varbinary"),
]


def table(tmp_path, *rows, lookup=None, **options):
    """Return the images of such rows, as they are read."""
    (chunk,) = BinlogFiles([written(tmp_path, *rows, **options)], TableName, lookup=lookup)
    return chunk.tables[0].rows.column("after")


@pytest.mark.parametrize("tail", [b"", named()], ids=["unnamed", "named"])
def test_vectors_that_a_lookup_knows_are_lists_of_floats(tmp_path, tail):
    after = table(tmp_path, row(1), row(2), lookup=Known(FACTS), tail=tail)
    assert after.to_pylist() == [
        {"id": number, "small": list(SMALL), "large": list(LARGE), "bytes": b"abcdefgh"} for number in (1, 2)
    ]
    kinds = [field.metadata[MYSQL_TYPE] for field in after.type]
    assert kinds == [b"int", b"vector", b"vector", b"varbinary(12)"]
    assert text(after.field("small"), "vector").to_pylist() == ["[1,-2.5,0.5]"] * 2


@pytest.mark.parametrize(
    ("version", "facts"),
    [
        ("11.8.2-MariaDB-log", None),
        ("11.8.2-MariaDB-log", [fact._replace(size=16, type="vector") for fact in FACTS]),
        ("9.7.4", FACTS),
    ],
    ids=["no lookup", "another size", "mysql has a type for it"],
)
def test_without_an_answer_that_fits_vectors_are_bytes(tmp_path, version, facts):
    after = table(tmp_path, row(1), lookup=Known(facts), version=version, tail=named())
    assert after.to_pylist()[0]["small"] == packed(SMALL)
    assert after.to_pylist()[0]["large"] == packed(LARGE)


def test_rows_from_before_a_column_became_a_vector_stop_with_a_hint(tmp_path):
    with pytest.raises(CorruptEvent, match="VECTOR whose size is not a multiple of 4") as caught:
        table(tmp_path, row(1, small=b"bytes"), lookup=Known(FACTS))
    assert "became a VECTOR after these rows" in caught.value.hint
