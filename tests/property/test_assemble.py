"""Random batches against a slow model that walks headers and rows one by one."""

import json
from dataclasses import dataclass, field, replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from merge.rows.assemble import BatchRows, ShardRows, ShardTable
from merge.rows.envelope import ENVELOPE, envelope
from merge.rows.table_filter import TableFilter
from merge.rows.typed import TYPED, typed
from merge.values.chunk import MYSQL_TYPE, STATEMENTS, Op, TableName, rows_schema
from merge.values.header import HEADER, Flag, gtid_text

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
NAMES = ("bin.000001", "bin.000002", UUID, f"{UUID}:tag", "0-12")
TABLES = [TableName("shop", "orders"), TableName("shop", "items"), TableName("crm", "people")]
#: mysql_type -> Arrow type, values, text of a value
KINDS = {
    "bigint": (pa.int64(), st.integers(-(2**63), 2**63 - 1), str),
    "varchar(9)": (pa.utf8(), st.text(max_size=4), str),
    "blob": (pa.binary(), st.binary(max_size=4), lambda value: value.decode("latin-1")),
    "enum('a','b')": (pa.dictionary(pa.int32(), pa.utf8()), st.sampled_from("ab"), str),
    "decimal(9,2)": (pa.decimal128(9, 2), st.integers(-999, 999).map(lambda n: Decimal(n).scaleb(-2)), str),
    "time": (pa.duration("us"), st.none(), str),
}


@dataclass
class Change:
    """One row change, or a statement (then `table` has no columns here)."""

    table: int
    op: Op
    before: dict | None = None
    after: dict | None = None
    sql: str | None = None


@dataclass
class Header:
    """One header with the ordinals of its changes; None: dropped by the sink."""

    shard: int
    values: dict
    changes: list[tuple[int, Change | None]] = field(default_factory=list)


@st.composite
def changes(draw, columns):
    table = draw(st.integers(0, len(columns) - 1))
    row = st.fixed_dictionaries({name: st.none() | KINDS[kind][1] for name, kind in columns[table].items()})
    op = draw(st.sampled_from(Op))
    before = draw(row) if op != Op.INSERT else None
    after = draw(row) if op != Op.DELETE else None
    return Change(table, op, before, after)


@st.composite
def transactions(draw, shard, columns):
    """The headers of one transaction: one, or several fragments."""
    common = {
        "shard": shard,
        "commit_us": draw(st.integers(0, 99)),
        "key_us": draw(st.integers(0, 99)),
        "file": draw(st.integers(0, 1)),
        "begin_offset": draw(st.integers(4, 999)),
        "gtid_source": draw(st.integers(2, 4)),
        "gtid_number": draw(st.integers(0, 9)),
        "flags": draw(st.sampled_from([0, Flag.LATE])),
    }
    if draw(st.integers(0, 5)) == 0:
        statement = Change(draw(st.integers(0, len(columns) - 1)), Op.INSERT, sql=draw(st.text(max_size=3)))
        return [Header(shard, common | {"row_begin": 0, "row_end": 1}, [(0, statement)])]
    begin = draw(st.integers(0, 3))  # a batch may start inside a transaction
    found = []
    for count in draw(st.lists(st.integers(0, 3), min_size=1, max_size=3)):
        kept = [(begin + row, draw(st.none() | changes(columns))) for row in range(count)]
        found.append(Header(shard, common | {"row_begin": begin, "row_end": begin + count}, kept))
        begin += count
    return found


@st.composite
def batches(draw):
    """A batch as `BatchRows`, and its headers for the model."""
    kinds = st.dictionaries(st.sampled_from(["id", "a", "b"]), st.sampled_from(sorted(KINDS)), min_size=1)
    columns = draw(st.lists(kinds, min_size=1, max_size=3))
    keys = [draw(st.lists(st.sampled_from(sorted(one)), unique=True)) for one in columns]
    shards = draw(st.integers(1, 3))
    merged = []
    for shard in draw(st.lists(st.integers(0, shards - 1), max_size=6)):
        merged += draw(transactions(shard, columns))
    following = [draw(st.integers(0, 99)) for _ in range(shards)]
    for header in merged:
        header.values["sequence"] = following[header.shard]
        following[header.shard] += 1
    order = np.zeros(len(merged), dtype=HEADER)
    for place, header in enumerate(merged):
        for name, value in header.values.items():
            order[name][place] = value
    cut = draw(st.integers(0, 4))
    parts = tuple(shard_rows(merged, shard, columns, keys, cut) for shard in range(shards))
    first = draw(st.integers(0, 2**40))
    return BatchRows(order, parts, ("n", "s", "w")[:shards], NAMES, first), merged, columns, keys


def shard_rows(merged, shard, columns, keys, cut):
    """The shard's rows; each table in two pieces, cut after `cut` rows, the second in two chunks."""
    sequence = pa.field("_sequence", pa.int64())
    mine = [
        (header.values["sequence"], row, change)
        for header in merged
        if header.shard == shard
        for row, change in header.changes
        if change is not None
    ]
    tables = []
    for number, name in enumerate(TABLES[: len(columns)]):
        fields = [
            pa.field(column, KINDS[kind][0], metadata={MYSQL_TYPE: kind})
            for column, kind in columns[number].items()
        ]
        schema = rows_schema(fields, json.dumps(keys[number]).encode()).set(0, sequence)
        rows = [
            {"_sequence": at, "_row": row, "_op": one.op, "before": one.before, "after": one.after}
            for at, row, one in mine
            if one.table == number and one.sql is None
        ]
        chunks = [
            pa.Table.from_pylist(part, schema=schema)
            for part in (rows[:cut], rows[cut : 2 * cut], rows[2 * cut :])
        ]
        tables += [ShardTable(name, chunks[0]), ShardTable(name, pa.concat_tables(chunks[1:]))]
    schema = STATEMENTS.set(0, sequence)
    said = [
        dict(zip(schema.names, (at, row, *TABLES[one.table], "ALTER", one.sql), strict=True))
        for at, row, one in mine
        if one.sql is not None
    ]
    return ShardRows(tuple(tables), pa.Table.from_pylist(said, schema=schema) if said else None)


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


def as_text(row, kinds):
    if row is None:
        return None
    return [
        (name, None if value is None else KINDS[kinds[name]][2](value))
        for name, value in ((name, row[name]) for name in kinds)
    ]


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


def only(part, wanted):
    """What a shard hands out that is asked for some tables only."""
    said = part.statements
    if said is not None:
        names = zip(said["schema"].to_pylist(), said["table"].to_pylist(), strict=True)
        said = said.filter(pa.array([wanted.matches(TableName(*name)) for name in names], pa.bool_()))
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
        if not table_filter.matches(name):
            continue
        row = as_text(change.before if change.op is Op.DELETE else change.after, kinds)
        rest = {
            "key": [(key, dict(row)[key]) for key in keys[change.table]],
            "op": change.op.name,
        } if row else {"key": [], "op": "ALTER"}  # fmt: skip
        expected.append(
            said
            | rest
            | {"schema": name.schema, "table": name.table, "sql": change.sql}
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
