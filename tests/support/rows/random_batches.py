"""Random batches: headers of several shards in merged order, and the rows that they announce."""

import json
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from support.ddl.statement_rows import statement_row

from canal_group.merge.rows.assemble import BatchRows, ShardRows, ShardTable
from canal_group.merge.values.chunk import MYSQL_TYPE, STATEMENTS, Op, TableName, rows_schema
from canal_group.merge.values.header import HEADER, Flag

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
    #: of a statement: all that it concerns, as in `CONCERNED`
    tables: tuple[tuple[str, str, str, bool], ...] = ()


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
    before = draw(row) if op in {Op.UPDATE, Op.DELETE} else None
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
        "end_offset": draw(st.integers(1_000, 2_000)),
        "gtid_source": draw(st.integers(2, 4)),
        "gtid_number": draw(st.integers(0, 9)),
        "flags": draw(st.sampled_from([0, Flag.LATE])),
    }
    if draw(st.integers(0, 5)) == 0:
        table = draw(st.integers(0, len(columns) - 1))
        other = (*draw(st.sampled_from(TABLES)), "", draw(st.booleans()))
        named = draw(
            st.sampled_from([(), ((*TABLES[table], "", True),), ((*TABLES[table], "", False), other)])
        )
        statement = Change(table, Op.INSERT, sql=draw(st.text(max_size=3)), tables=named)
        flags = common["flags"] | Flag.BEGIN | Flag.END | Flag.DDL
        return [Header(shard, common | {"flags": flags, "row_begin": 0, "row_end": 1}, [(0, statement)])]
    begin = first = draw(st.integers(0, 3))  # a batch may start inside a transaction
    found = []
    for count in draw(st.lists(st.integers(0, 3), min_size=1, max_size=3)):
        kept = [(begin + row, draw(st.none() | changes(columns))) for row in range(count)]
        found.append(Header(shard, common | {"row_begin": begin, "row_end": begin + count}, kept))
        begin += count
    if not first:
        found[0].values["flags"] |= Flag.BEGIN
    if draw(st.booleans()):  # it may go on in the next batch
        found[-1].values["flags"] |= Flag.END
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
    for index, header in enumerate(merged):
        for name, value in header.values.items():
            order[name][index] = value
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
        statement_row(
            at, row, *TABLES[one.table], "ALTER", one.sql, at="_sequence", ddl_schema="db", tables=one.tables
        )
        for at, row, one in mine
        if one.sql is not None
    ]
    return ShardRows(tuple(tables), pa.Table.from_pylist(said, schema=schema) if said else None)


def as_text(row, kinds):
    if row is None:
        return None
    return [
        (name, None if value is None else KINDS[kinds[name]][2](value))
        for name, value in ((name, row[name]) for name in kinds)
    ]
