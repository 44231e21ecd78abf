"""What shards send for a batch's envelope: through real doors, of which the test counts what goes out."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from support.ddl.statement_rows import statement_row
from support.defaults import ring_of
from support.group.builders import Source, Tx, World

from canal_group.actors.gateway.batch_reader import BatchReader
from canal_group.actors.gateway.joined_schemas import JoinedSchemas
from canal_group.actors.store.ring import RingStore
from canal_group.actors.store.rows import Payload, Selection, gather, message, opened, read_message
from canal_group.actors.transport.row_server import RowAddress, RowServer
from canal_group.actors.transport.row_ticket import RowTicket
from canal_group.merge.calls.batch import Batch
from canal_group.merge.rows.assemble import BatchRows, ShardRows
from canal_group.merge.rows.chosen_types import TypeOverrides
from canal_group.merge.rows.envelope import envelope
from canal_group.merge.rows.table_filter import TableFilter
from canal_group.merge.values.chunk import STATEMENTS, Chunk, Op, TableName, TableRows, rows_schema
from canal_group.merge.values.header import HEADER, WHOLE, Flag

ORDERS, NOTES = TableName("shop", "orders"), TableName("shop", "notes")
SHARDS = ("s0", "s1")
TRANSACTIONS, NOTES_EACH = 20, 50
#: of one ring: an order and 50 notes a transaction; then a statement on each table and one on the schema
SEQUENCES = TRANSACTIONS + 3


def rows(name: TableName, changes: list[tuple[int, int, int]], text: str) -> TableRows:
    """Rows of a chunk's table, inserted, from (header, ordinal, id)."""
    schema = rows_schema([pa.field("id", pa.int64()), pa.field("text", pa.utf8())], b'["id"]')
    values = [(*change[:2], Op.INSERT, None, {"id": change[2], "text": text}) for change in changes]
    records = [dict(zip(schema.names, value, strict=True)) for value in values]
    return TableRows(name, pa.RecordBatch.from_pylist(records, schema=schema))


def filled_ring(shard: int) -> RingStore:
    headers = np.zeros(SEQUENCES, dtype=HEADER)
    headers["flags"], headers["bytes"] = WHOLE, 10
    headers["rows"] = headers["row_end"] = 1
    headers["rows"][:TRANSACTIONS] = headers["row_end"][:TRANSACTIONS] = 1 + NOTES_EACH
    headers["flags"][TRANSACTIONS:] = WHOLE | Flag.DDL
    orders = [(each, 0, shard * 1_000 + each) for each in range(TRANSACTIONS)]
    notes = [(each, 1 + n, each * 100 + n) for each in range(TRANSACTIONS) for n in range(NOTES_EACH)]
    ddl_rows = [
        (TRANSACTIONS + index, 0, "shop", table, "ALTER", f"alter {table} {index}")
        for index, table in enumerate(("notes", "orders", ""))
    ]
    statements = [statement_row(*one) for one in ddl_rows]
    ring = RingStore(ring_of("items", 1 << 10))
    ring.put(
        Chunk(
            headers,
            ("bin.000001", ""),
            (rows(ORDERS, orders, "o"), rows(NOTES, notes, "n" * 200)),
            pa.RecordBatch.from_pylist(statements, schema=STATEMENTS),
        )
    )
    ring.get_within(0.0)
    return ring


def merged_batch() -> Batch:
    """A batch of all that both rings hold, transaction by transaction in turns."""
    world = World.of(Source(Tx(10)))
    world.subscribe("a")
    world.report(0)
    order = np.zeros(2 * SEQUENCES, dtype=HEADER)
    order["sequence"], order["shard"] = np.repeat(np.arange(SEQUENCES), 2), np.tile([0, 1], SEQUENCES)
    order["flags"], order["commit_us"] = WHOLE, 10
    order["rows"] = order["row_end"] = np.where(order["sequence"] < TRANSACTIONS, 1 + NOTES_EACH, 1)
    return replace(world.get("a"), headers=order, names=("bin.000001", ""), generation=3, shards=SHARDS)


@dataclass
class Shards:
    """Two shards' rings, each behind a real door, and what goes out by these."""

    rings: dict[str, RingStore]
    doors: dict[str, RowServer] = field(default_factory=dict)
    shared_memory: bool = True
    #: by shard: names of tables (None: statements), bytes, rows
    sent: list[tuple[str, TableName | None, int, int]] = field(default_factory=list)

    def out(self, shard: str, ticket: RowTicket) -> Iterator[Payload]:
        for payload in gather(self.rings[shard].fetch(ticket.begin, ticket.end), ticket.selection):
            count = sum(len(batch) for batch in payload.batches)
            self.sent.append((shard, payload.name, payload.size(), count))
            yield payload

    def rows_at(self, shard: str) -> RowAddress:
        address = self.doors[shard].address
        return address if self.shared_memory else replace(address, shared_memory=None)


@pytest.fixture(params=[True, False], ids=["lent", "sent"])
def shards(request: pytest.FixtureRequest) -> Iterator[Shards]:
    made = Shards(
        {name: filled_ring(index) for index, name in enumerate(SHARDS)}, shared_memory=request.param
    )
    with ExitStack() as stack:
        for name in SHARDS:
            made.doors[name] = stack.enter_context(
                closing(RowServer(partial(made.out, name), "127.0.0.1", tls=False))
            )
        yield made


def dropped_late(shards: Shards, batch: Batch, table_filter: TableFilter) -> pa.Table:
    """An envelope as a gateway makes it that fetches every row, and drops what is not wanted then."""
    parts = []
    for name in batch.shards:
        payloads = gather(shards.rings[name].fetch(0, SEQUENCES), Selection())
        whole = opened(read_message(message(payload)) for payload in payloads)
        names = zip(*(whole.statements[side].to_pylist() for side in ("schema", "table")), strict=True)
        mask = pa.array([table_filter.matches(TableName(*name)) for name in names], pa.bool_())
        tables = tuple(table for table in whole.tables if table_filter.matches(table.name))
        parts.append(ShardRows(tables, whole.statements.filter(mask)))
    rows = BatchRows(batch.headers, tuple(parts), batch.shards, batch.names, batch.start.sequence)
    return envelope(rows)


def stream_of(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("table_filter", "tables", "numbers"),
    [
        (r"shop\.orders", {ORDERS, None}, 1),
        (r"shop\.notes", {NOTES, None}, NOTES_EACH),
        (r"shop\.", {None}, 0),
        (r"shop\..*", {ORDERS, NOTES, None}, 1 + NOTES_EACH),
        ("", {ORDERS, NOTES, None}, 1 + NOTES_EACH),
        ("nothing", set(), 0),
    ],
)
def test_shards_send_for_an_envelope_only_what_the_filter_wants(
    shards: Shards, table_filter: str, tables: set[TableName | None], numbers: int
):
    batch = merged_batch()
    reader = BatchReader(shards.rows_at, lambda *_: batch, JoinedSchemas(TypeOverrides, lambda _: []))
    made = reader.envelope("a", 1, batch.batch_id, table_filter)
    assert {name for _, name, _, _ in shards.sent} == tables
    assert sum(rows for _, _, _, rows in shards.sent) == made.num_rows, "a row was sent for nothing"
    rows_of_tables = sum(rows for _, name, _, rows in shards.sent if name is not None)
    assert rows_of_tables == 2 * TRANSACTIONS * numbers
    assert stream_of(made) == stream_of(dropped_late(shards, batch, TableFilter(table_filter)))


def test_a_filter_for_a_small_table_costs_only_its_bytes(shards: Shards):
    batch = merged_batch()
    reader = BatchReader(shards.rows_at, lambda *_: batch, JoinedSchemas(TypeOverrides, lambda _: []))

    def bytes_sent(table_filter: str) -> int:
        shards.sent.clear()
        reader.envelope("a", 1, batch.batch_id, table_filter)
        return sum(size for _, _, size, _ in shards.sent)

    assert bytes_sent(r"shop\.orders") * 20 < bytes_sent("")


def test_for_the_columns_of_a_table_shards_send_no_rows(shards: Shards):
    batch = merged_batch()
    reader = BatchReader(shards.rows_at, lambda *_: batch, JoinedSchemas(TypeOverrides, lambda _: []))
    key = ("a", 1, batch.batch_id, "shop.notes")
    whole = reader.typed(*key, before=False)
    shards.sent.clear()
    made = reader.typed(*key, before=False, schema_only=True)
    assert [rows for *_, rows in shards.sent] == [0, 0]
    assert (made.schema, made.num_rows) == (whole.schema, 0)
    assert whole.num_rows > 0


def test_the_bytes_of_a_batch_are_those_that_shards_have_sent(shards: Shards):
    sizes: list[int] = []
    batch = merged_batch()
    reader = BatchReader(shards.rows_at, lambda *_: batch, JoinedSchemas(TypeOverrides, lambda _: []))
    for table_filter in ("", r"shop\.orders", "nothing"):
        reader.envelope("a", 1, batch.batch_id, table_filter, fetched=sizes.append)
    every, few, none = sizes
    assert every > 20 * few > 0
    assert none == 0
