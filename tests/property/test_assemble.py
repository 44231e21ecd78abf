"""Random batches against a slow model that walks headers and rows one by one."""

from dataclasses import replace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from support.rows.random_batches import NAMES, TABLES, as_text, batches

from canal_group.merge.rows.assemble import ShardRows
from canal_group.merge.rows.envelope import ENVELOPE, envelope
from canal_group.merge.rows.table_filter import TableFilter
from canal_group.merge.rows.typed import TYPED, typed
from canal_group.merge.values.chunk import Op, TableName, names_of
from canal_group.merge.values.header import Flag, gtid_text


def walk(batch, merged):
    """Each change that is there, in merged order, with what its header says."""
    seq = batch.first_sequence
    for header in merged:
        values = header.values
        for row, change in header.changes:
            if change is not None:
                yield (
                    change,
                    {
                        "seq": seq,
                        "shard": batch.shard_names[header.shard],
                        "commit_us": values["commit_us"],
                        "key_us": values["key_us"],
                        "late": bool(values["flags"] & Flag.LATE),
                        "gtid": gtid_text(NAMES[values["gtid_source"]], values["gtid_number"]),
                        "file": NAMES[values["file"]],
                        "pos": values["begin_offset"],
                        "row": row,
                    },
                )
            seq += 1


@given(batches(), st.booleans())
def test_typed_is_what_a_walk_over_the_headers_finds(drawn, before):
    batch, merged, columns, _ = drawn
    for number, name in enumerate(TABLES[: len(columns)]):
        result = typed(batch, name, before=before)
        result.validate(full=True)
        extra = ["_before", "_before_absent"] if before else []
        assert result.schema.names == [*columns[number], *TYPED.names, *extra]
        expected = [
            {column: (change.after or change.before)[column] for column in columns[number]}
            | {"_op": change.op.name}
            | {f"_{key}": value for key, value in said.items()}
            | {"_absent": None}
            | ({"_before": change.before, "_before_absent": None} if before else {})
            for change, said in walk(batch, merged)
            if change.table == number and change.sql is None
        ]
        assert result.to_pylist() == expected


def concerned(tables):
    return [dict(zip(("schema", "table", "role", "kept"), each, strict=True)) for each in tables]


def only(part, wanted):
    """What a shard hands out that is asked for some tables only."""
    said = part.statements
    if said is not None:
        mask = [any(map(wanted.matches, names_of(each))) for each in said.to_pylist()]
        said = said.filter(pa.array(mask, pa.bool_()))
    return ShardRows(tuple(table for table in part.tables if wanted.matches(table.name)), said)


@given(batches(), st.sampled_from([TableFilter(), TableFilter(r"shop\..*"), TableFilter("", "shop.items")]))
def test_envelope_is_what_a_walk_over_the_headers_finds(drawn, table_filter):
    batch, merged, columns, keys = drawn
    result = envelope(replace(batch, shards=tuple(only(part, table_filter) for part in batch.shards)))
    result.validate(full=True)
    assert result.schema == ENVELOPE
    expected = []
    for change, said in walk(batch, merged):
        name, kinds = TABLES[change.table], columns[change.table]
        kept = [TableName(*each[:2]) for each in change.tables if each[3]] or [name]
        if not any(map(table_filter.matches, kept)):
            continue
        row = as_text(change.before if change.op is Op.DELETE else change.after, kinds)
        rest = {
            "key": [(key, dict(row)[key]) for key in keys[change.table]],
            "op": change.op.name,
        } if row else {"key": [], "op": "ALTER"}  # fmt: skip
        expected.append(
            said
            | rest
            | {"schema": name.schema, "table": name.table, "sql": change.sql, "ddl_schema": None}
            | {"tables": None}
            | ({} if change.sql is None else {"ddl_schema": "db", "tables": concerned(change.tables)})
            | {"before": as_text(change.before, kinds), "after": as_text(change.after, kinds)}
        )
    assert result.to_pylist() == expected


@given(batches())
def test_numbers_are_unique_and_grow_and_the_formats_agree(drawn):
    batch, _, columns, _ = drawn
    numbers = envelope(batch).column("seq").to_pylist()
    assert numbers == sorted(set(numbers))
    changes = batch.order["row_end"] - batch.order["row_begin"]
    assert all(batch.first_sequence <= number < batch.first_sequence + changes.sum() for number in numbers)
    rows = {number for name in TABLES[: len(columns)] for number in typed(batch, name)["_seq"].to_pylist()}
    assert rows == {row["seq"] for row in envelope(batch).to_pylist() if row["sql"] is None}
