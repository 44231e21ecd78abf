"""Every output has the same text of a number: that of the table in `number_texts`."""

from __future__ import annotations

import hashlib
import hmac
import json

import numpy as np
import pyarrow as pa
import pytest
from support.rows.number_texts import NUMBERS

from canal_group.actors.sink.mask import Mask, MaskKind
from canal_group.canal_protocol.entry_pb2 import Entry, RowChange
from canal_group.canal_protocol.packet_pb2 import Messages, Packet
from canal_group.conf.relay.relay_settings import RouteSettings
from canal_group.merge.rows.assemble import BatchRows, ShardRows, ShardTable
from canal_group.merge.rows.canal.entries import ROWS, entries
from canal_group.merge.rows.envelope import envelope
from canal_group.merge.rows.expressions.expression import Call, Column, Constant, value_of
from canal_group.merge.rows.row_key import RowKey
from canal_group.merge.rows.typed import typed
from canal_group.merge.values.chunk import MYSQL_TYPE, Chunk, Op, TableName, TableRows, rows_schema
from canal_group.merge.values.header import HEADER, WHOLE
from canal_group.programs.command.binlog.tool import transactions
from canal_group.programs.command.consuming.show import print_lines, print_table
from canal_group.programs.output.formats import format_of
from canal_group.programs.output.routing.router import Router
from canal_group.shapes.maps import tidied
from canal_group.spark.shapes import FIXED, envelope_rows, spark_fields, typed_rows

NAME = TableName("shop", "numbers")


class Numbers:
    """Inserted rows of one column `n`, which is also the key, and their texts."""

    def __init__(self, mysql_type):
        kind, values, self.texts = NUMBERS[mysql_type]
        self.mysql_type, self.values = mysql_type, pa.array(values, kind)
        column = pa.field("n", kind, metadata={MYSQL_TYPE: mysql_type})
        schema = rows_schema([column], json.dumps(["n"]).encode())
        images = pa.StructArray.from_arrays([self.values], fields=[column])
        indexes = pa.array(range(len(values)))
        self.rows = pa.RecordBatch.from_arrays(
            [
                pa.array([0] * len(values), schema.field(0).type),
                indexes.cast(schema.field(1).type),
                pa.array([Op.INSERT] * len(values), pa.uint8()),
                pa.nulls(len(values), images.type),
                images,
            ],
            schema=schema,
        )
        self.headers = np.zeros(1, HEADER)
        self.headers["flags"], self.headers["row_end"] = WHOLE, len(values)

    @property
    def batch(self):
        columns = [self.rows.column(0).cast(pa.int64()), *self.rows.columns[1:]]
        schema = self.rows.schema.set(0, pa.field("_sequence", pa.int64()))
        rows = pa.Table.from_arrays(columns, schema=schema)
        return BatchRows(self.headers, (ShardRows((ShardTable(NAME, rows),)),), ("s",), ("bin.000001",), 0)

    def messages(self, name):
        rows = tidied(envelope(self.batch, definitions=True))
        if name == "protobuf":
            rows = rows.append_column("entry", row_entries(self.batch))
        return format_of(name).make(
            rows, Router(RouteSettings(topic="t", partition_hash=".*:$pk$")).routes(rows)
        )


def row_entries(batch):
    all_entries = entries(batch, rows_max=1)
    return all_entries.column("entry").filter(pa.array(all_entries.column("entry_type").to_numpy() == ROWS))


def after(maps):
    return [dict(each)["n"] for each in maps.to_pylist()]


def of_entries(messages):
    changes = (RowChange.FromString(Entry.FromString(each).storeValue) for each in messages)
    return [row.afterColumns[0].value for change in changes for row in change.rowDatas]


def of_packets(numbers, _):
    packets = map(Packet.FromString, numbers.messages("protobuf").value.to_pylist())
    return of_entries(entry for each in packets for entry in Messages.FromString(each.body).messages)


def of_streams(numbers, _):
    streams = map(pa.ipc.open_stream, numbers.messages("arrow").value.to_pylist())
    return [text for each in streams for text in after(each.read_all().column("after"))]


def of_lines(numbers, printed):
    print_lines(envelope(numbers.batch))
    return [json.loads(line)["after"]["n"] for line in printed().splitlines()]


def of_people(numbers, printed):
    print_table(envelope(numbers.batch))
    return [line.rpartition("n=")[2].strip() for line in printed().splitlines()[1:]]


def of_binlog(numbers, _):
    chunk = Chunk(numbers.headers, ("bin.000001",), (TableRows(NAME, numbers.rows),))
    return [change.after["n"] for _, changes in transactions(chunk) for change in changes]


def of_spark(numbers, form):
    rows = envelope_rows(envelope(numbers.batch), form, FIXED[form])
    if form == "canal":
        return [dict(each[0])["n"] for each in rows.column("data").to_pylist()]
    return after(rows.column("after"))


def of_spark_columns(numbers, _):
    rows = typed(numbers.batch, NAME)
    return typed_rows(rows, str(NAME), pa.schema([("n", pa.utf8())]), new_columns="fail")["n"].to_pylist()


def of_concat(numbers, _):
    concat = Call("concat", (Constant(""), Column("n")))
    return value_of(concat, {"n": numbers.values}, len(numbers.values)).to_pylist()


def of_keys(numbers, _):
    """A row is found by its key's text, and by no other row's."""
    matches = [RowKey(NAME, text).changes(numbers.rows).tolist() for text in numbers.texts]
    assert all(sum(each) == 1 for each in matches)
    return [numbers.texts[each.index(True)] for each in matches]


OUTPUTS = {
    "canal's entries": lambda numbers, _: of_entries(entries(numbers.batch).column("entry").to_pylist()),
    "canal's packets": of_packets,
    "flat messages": lambda numbers, _: [
        json.loads(each)["data"][0]["n"] for each in numbers.messages("flat").value.to_pylist()
    ],
    "Debezium's values": lambda numbers, _: [
        json.loads(each)["after"]["n"] for each in numbers.messages("debezium").value.to_pylist()
    ],
    "Debezium's keys": lambda numbers, _: [
        json.loads(each)["n"] for each in numbers.messages("debezium").key.to_pylist()
    ],
    "streams of Arrow": of_streams,
    "the envelope": lambda numbers, _: after(envelope(numbers.batch).column("after")),
    "a column that is text by choice": lambda numbers, _: typed(numbers.batch, NAME, chosen={"n": pa.utf8()})[
        "n"
    ].to_pylist(),
    "consume as lines": of_lines,
    "consume as a table": of_people,
    "binlog": of_binlog,
    "trace": of_keys,
    "Spark's envelope": lambda numbers, _: of_spark(numbers, "envelope"),
    "Spark's debezium": lambda numbers, _: of_spark(numbers, "debezium"),
    "Spark's canal": lambda numbers, _: of_spark(numbers, "canal"),
    "Spark's columns of strings": of_spark_columns,
    "CONCAT in a filter": of_concat,
}


@pytest.mark.parametrize("mysql_type", NUMBERS)
@pytest.mark.parametrize("output", OUTPUTS)
def test_a_number_has_one_text_in_every_output(output, mysql_type, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    numbers = Numbers(mysql_type)
    assert OUTPUTS[output](numbers, lambda: capsys.readouterr().out) == numbers.texts


@pytest.mark.parametrize("mysql_type", NUMBERS)
def test_masks_see_the_same_text(mysql_type):
    numbers = Numbers(mysql_type)
    hashes = Mask(MaskKind.HASH, salt=b"s").apply(numbers.values, mysql_type).to_pylist()
    assert hashes == [hmac.new(b"s", each.encode(), hashlib.sha256).hexdigest() for each in numbers.texts]
    for last in range(1, 40):
        shown = Mask(MaskKind.LAST, last=last).apply(numbers.values, mysql_type).to_pylist()
        assert shown == [each[-last:] if len(each) > last else "" for each in numbers.texts]


def test_decimals_that_spark_lacks_become_strings_with_their_text():
    numbers = Numbers("decimal(65,30)")
    schema = spark_fields(pa.schema([("n", numbers.values.type)]))
    rows = typed_rows(typed(numbers.batch, NAME), str(NAME), schema, new_columns="fail")
    assert rows["n"].to_pylist() == numbers.texts
