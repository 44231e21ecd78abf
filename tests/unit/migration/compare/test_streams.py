"""Streams are read side by side, and canal's tables are called as they are here."""

import pytest

from canal_group.actors.sink.route import Route
from canal_group.actors.sink.sink import Sink
from canal_group.canal_protocol import entry_pb2 as pb
from canal_group.merge.errors import CorruptEvent
from canal_group.programs.migration.compare.entries import items_of
from canal_group.programs.migration.compare.streams import compare

BEGIN, ROWS, END = pb.TRANSACTIONBEGIN, pb.ROWDATA, pb.TRANSACTIONEND


def entry(kind, offset, value=b"", schema="", table="", shard="", **header):
    props = [pb.Pair(key="shard", value=shard)] if shard else []
    message_header = pb.Header(
        logfileName="bin.000001",
        logfileOffset=offset,
        schemaName=schema,
        tableName=table,
        props=props,
        **header,
    )
    made = pb.Entry(header=message_header, storeValue=value)
    if kind != ROWS:
        made.entryType = kind
    return made.SerializeToString()


def row(value="1"):
    column = pb.Column(name="id", value=value, mysqlType="bigint", sqlType=-5, isKey=True, updated=True)
    return pb.RowChange(eventType=pb.INSERT, rowDatas=[pb.RowData(afterColumns=[column])]).SerializeToString()


def transaction(begin, end, *rows, shard="", schema="shop_0", inside=0):
    return [
        entry(BEGIN, begin + inside, shard=shard),
        *(entry(ROWS, begin + 2 * inside, each, schema, "orders", shard) for each in rows),
        entry(END, end - inside, shard=shard),
    ]


class Recorded:
    """Recorded entries, some at each read."""

    def __init__(self, entries, size):
        self.items = [item for each in entries for item in items_of(each)]
        self.size = size

    def read(self):
        taken, self.items = self.items[: self.size], self.items[self.size :]
        return taken


def compared(theirs, ours, shards=("s0",), size=3):
    sources = {shard: Recorded(theirs[shard], size) for shard in shards}
    sink = Sink(r"shop.*", "", [Route(r"shop_\d\.(\w+)", r"shop.\1")])
    return compare(Recorded(ours, size + 1), sources, sink, rows_max=100, idle_s=0.05)


def test_each_shard_s_stream_is_compared_with_its_part_of_the_merged_one():
    ours = [
        *transaction(100, 200, row(), shard="s0", schema="shop"),
        *transaction(100, 300, row("5"), row("6"), shard="s1", schema="shop"),
        *transaction(200, 300, row("2"), shard="s0", schema="shop"),
    ]
    theirs = {
        "s0": [*transaction(100, 200, row(), inside=30), *transaction(200, 300, row("2"), inside=30)],
        "s1": transaction(100, 300, row("5"), row("7"), schema="shop_1", inside=30),
    }
    results = compared(theirs, ours, ("s0", "s1"))
    assert (results["s0"].ok, results["s0"].transactions, results["s0"].rows) == (True, 2, 2)
    (difference,) = results["s1"].differences
    assert (difference.table, difference.column, difference.ours, difference.theirs) == (
        "shop.orders",
        "id",
        "'6'",
        "'7'",
    )


def test_filtered_tables_and_row_texts_are_counted_apart():
    text = pb.RowChange(eventType=pb.QUERY, sql="INSERT INTO orders VALUES (1)").SerializeToString()
    begin, rows, end = transaction(100, 200, row(), inside=30)
    theirs = [begin, entry(ROWS, 150, text), entry(ROWS, 155, row(), "crm", "people"), rows, end]
    result = compared({"s0": theirs}, transaction(100, 200, row(), shard="s0", schema="shop"))["s0"]
    assert (result.ok, result.rows) == (True, 1)
    assert result.known == {
        "texts of row changes, which are not delivered here": 1,
        "changes of tables that the instance file leaves out": 1,
    }


def test_streams_without_a_common_transaction_end_with_nothing():
    result = compared({"s0": []}, transaction(100, 200, row(), shard="s0", schema="shop"))["s0"]
    assert (result.ok, result.transactions, result.differences) == (False, 0, [])


def test_what_is_not_sent_means_canal_s_defaults():
    change = pb.RowChange(rowDatas=[pb.RowData(afterColumns=[pb.Column(name="n", isNull=True)])])
    ((shard, item),) = items_of(entry(ROWS, 4, change.SerializeToString(), "a", "b"))
    assert (shard, item.event, item.after[0].value) == ("", "UPDATE", None)
    assert list(items_of(entry(pb.HEARTBEAT, 4))) == []


@pytest.mark.parametrize("message", [b"\xff\xff", entry(ROWS, 4, b"\xff\xff")])
def test_malformed_entries_are_refused(message):
    with pytest.raises(CorruptEvent, match="is not an entry of canal's"):
        list(items_of(message))
