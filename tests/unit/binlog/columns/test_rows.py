"""Rows events of real servers: read as another library reads them, and damaged in every way."""

from __future__ import annotations

import datetime as dt
import json
import threading

import pytest
from pymysql.protocol import MysqlPacket
from pymysqlreplication.packet import BinLogPacketWrapper
from pymysqlreplication.row_event import DeleteRowsEvent, TableMapEvent, UpdateRowsEvent, WriteRowsEvent
from support.rows import row_images, rows_corpus

from canal_group.binlog.columns.rows import RowsBuilder
from canal_group.binlog.columns.table_map import table_id
from canal_group.binlog.columns.types.column import Column
from canal_group.binlog.formats.event_types import UPDATES, WRITES, EventType
from canal_group.binlog.native import images
from canal_group.merge.errors import CorruptEvent, UnsupportedEvent
from canal_group.merge.values.chunk import Op
from canal_group.merge.values.types.table import ColumnType

#: what mysql-replication does not read, or reads wrongly
UNREAD_BY_THE_ORACLE = {
    "charsets": "utf16 is read with its bytes swapped",
    "json_opaque": "a TIME of 24 hours and more raises",
    "partial_json": "only a column's first difference is read",
    "partial_json_compressed": "only a column's first difference is read",
    "row_image_minimal": "what images do not say is filled in here",
    "vector": "raises",
}


class Control:
    charset = "utf8mb4"

    @staticmethod
    def _get_dbms():
        return "mysql"


def oracle_rows(name):
    """Return the rows of a fixture as mysql-replication reads them: (before, after) dicts."""
    data, at, tables, rows = (rows_corpus.FIXTURES / f"{name}.binlog").read_bytes(), 4, {}, []
    checksum = name != "checksum_none"
    allowed = {TableMapEvent, WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent}
    while at < len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        packet = MysqlPacket(b"\0" + data[at : at + size], "utf-8")
        at += size
        filters = None, None, None, None
        flags = False, False, False, True, False  # optional_meta_data: as in a full table map
        event = BinLogPacketWrapper(
            packet, tables, Control, (9, 7, 4), checksum, allowed, *filters, *flags
        ).event
        if isinstance(event, TableMapEvent):
            tables[event.table_id] = event.get_table()
        elif isinstance(event, UpdateRowsEvent):
            rows += [(row["before_values"], row["after_values"]) for row in event.rows]
        elif isinstance(event, WriteRowsEvent):
            rows += [(None, row["values"]) for row in event.rows]
        elif event is not None:
            rows += [(row["values"], None) for row in event.rows]
    return rows


def alike(ours, theirs, mysql_type):  # noqa: PLR0911 - one branch a type
    """Return mysql-replication's value for ours, spelled as we spell it."""
    if theirs is None:
        return None
    if isinstance(theirs, set):
        return set(ours.split(",")) if ours else set()
    if mysql_type == "json":
        return json.loads(ours), json.loads(json.dumps(texts(theirs), default=str))
    if mysql_type.startswith("bit"):
        return int(theirs, 2)
    if isinstance(theirs, dt.datetime) and ours is not None and ours.tzinfo is not None:
        return theirs.replace(tzinfo=dt.UTC)
    if isinstance(ours, bytes):
        stored = theirs.encode() if isinstance(theirs, str) else theirs
        return stored.ljust(len(ours), b"\0") if mysql_type.startswith("binary") else stored
    return theirs


def texts(value):
    if isinstance(value, dict):
        return {texts(key): texts(each) for key, each in value.items()}
    if isinstance(value, list):
        return [texts(each) for each in value]
    return value.decode() if isinstance(value, bytes) else value


def fixtures():
    return sorted({name for name, *_ in rows_corpus.corpus()} - set(UNREAD_BY_THE_ORACLE))


@pytest.mark.parametrize("name", fixtures())
def test_rows_are_what_another_library_reads(name):
    ours = []
    for _, schema, event_type, body in (each for each in rows_corpus.corpus() if each[0] == name):
        types = {f.name: f.metadata[b"mysql_type"].decode() for f in schema.arrow.field("after").type}
        batch = rows_corpus.decode(schema, event_type, body)
        ours += [(types, row["before"], row["after"]) for row in batch.to_pylist()]
    theirs = oracle_rows(name)
    assert len(ours) == len(theirs)
    for (types, *mine), other in zip(ours, theirs, strict=True):
        for one, two in zip(mine, other, strict=True):
            assert (one is None) == (two is None)
            for column, value in (one or {}).items():
                same = alike(value, two[column], types[column])
                if types[column] == "json" and value is not None:
                    assert same[0] == same[1]
                elif isinstance(same, set):
                    assert same == two[column]
                else:
                    assert value == same, column


def test_corpus_holds_every_kind_of_event():
    types = {event_type for _, _, event_type, _ in rows_corpus.corpus()}
    assert types == {
        EventType.WRITE_ROWS,
        EventType.UPDATE_ROWS,
        EventType.DELETE_ROWS,
        EventType.PARTIAL_UPDATE_ROWS,
    }


@pytest.mark.parametrize("index", range(len(rows_corpus.corpus())))
def test_damaged_events_are_refused_or_read_as_rows(index):
    _, schema, event_type, body = rows_corpus.corpus()[index]
    for each in rows_corpus.damaged(body):
        rows_corpus.decode(schema, event_type, each)


def all_types():
    return next(each for each in rows_corpus.corpus() if each[0] == "all_types")


@pytest.mark.parametrize("change", [(8, 0), (8, 1), (10, 37), (10, 0), (10, 250), (10, 251), (10, 255)])
def test_heads_that_do_not_fit_are_refused(change):
    """Extra data shorter than itself; another number of columns, also one that has no such form."""
    _, schema, event_type, body = all_types()
    at, value = change
    broken = bytearray(body)
    broken[at] = value
    with pytest.raises(CorruptEvent):
        RowsBuilder(schema, row_images.Losses()).add(
            event_type, bytes(broken), post_header_size=10, header=0, row_begin=0
        )


@pytest.mark.parametrize("index", range(len(rows_corpus.corpus())))
def test_rows_do_not_depend_on_the_expected_count(index):
    """More come than were there before, or fewer, or an event that has other images."""
    _, schema, event_type, body = rows_corpus.corpus()[index]

    def gathered(times, before=None):
        builder = RowsBuilder(schema, row_images.Losses())
        if before is not None:
            builder.expect_as_many(before)
        for header in range(times):
            builder.add(event_type, body, post_header_size=10, header=header, row_begin=0)
        return builder, builder.finish()

    many, few = gathered(1500), gathered(3)
    assert gathered(1500, many[0])[1].equals(many[1])
    assert gathered(3, many[0])[1].equals(few[1])
    assert gathered(1500, few[0])[1].equals(many[1])
    assert len(gathered(0, many[0])[1]) == 0
    begun = RowsBuilder(schema, row_images.Losses())
    begun.add(event_type, body, post_header_size=10, header=0, row_begin=0)
    with pytest.raises(ValueError, match="read already"):
        begun.expect_as_many(many[0])


def test_an_error_names_table_and_byte():
    _, schema, event_type, body = all_types()
    with pytest.raises(CorruptEvent, match=r"Rows of fx\.t end inside a value \(byte \d+ after"):
        RowsBuilder(schema, row_images.Losses()).add(
            event_type, body[:-1], post_header_size=10, header=0, row_begin=0
        )


def test_tables_of_many_columns():
    """From 251 columns on the count takes three bytes."""
    columns = [Column(ColumnType.SHORT, unsigned=True)] * 300
    values = [number.to_bytes(2, "little") for number in range(300)]
    body = row_images.rows_body(EventType.WRITE_ROWS, 300, [row_images.image(values)])
    batch, _ = row_images.rows_of(columns, [(EventType.WRITE_ROWS, body)])
    assert list(batch.to_pylist()[0]["after"].values()) == list(range(300))


@pytest.mark.parametrize(
    "column",
    [
        Column(ColumnType.NEWDECIMAL, precision=0),
        Column(ColumnType.NEWDECIMAL, precision=77),
        Column(ColumnType.NEWDECIMAL, precision=5, decimals=6),
        Column(ColumnType.BIT, size=65),
        Column(ColumnType.BLOB, size=5),
        Column(ColumnType.ENUM, size=3),
        Column(ColumnType.SET, size=9),
        Column(ColumnType.TIME2, decimals=7),
    ],
)
def test_columns_that_no_server_has_are_refused(column):
    with pytest.raises(UnsupportedEvent, match="an unknown format"):
        row_images.schema_of([column])


def test_decimals_with_digits_over_nine_are_corrupt():
    with pytest.raises(CorruptEvent, match="DECIMAL"):
        row_images.values_of(Column(ColumnType.NEWDECIMAL, precision=2), [b"\xe4"])


def test_vectors_of_odd_sizes_are_corrupt():
    with pytest.raises(CorruptEvent, match="VECTOR"):
        row_images.values_of(Column(ColumnType.VECTOR, size=4), [b"\3\0\0\0abc"])


def test_losses_of_rows_taken_back_are_not_counted():
    losses = row_images.Losses()
    builder = RowsBuilder(row_images.schema_of([Column(ColumnType.DATE)]), losses)
    body = row_images.rows_body(EventType.WRITE_ROWS, 1, [row_images.image([bytes(3)])] * 3)
    options = {"post_header_size": 10, "row_begin": 0}
    builder.add(EventType.WRITE_ROWS, body, header=0, **options)
    builder.add(EventType.WRITE_ROWS, body, header=1, **options)
    builder.add(EventType.WRITE_ROWS, body, header=1, **options)
    builder.discard(1)
    builder.add(EventType.WRITE_ROWS, body, header=1, skip=2, **options)
    assert builder.finish().num_rows == 4
    assert losses.zero_dates == 4


def test_columns_are_not_copied_on_their_way():
    """What Arrow holds is the decoder's memory, and lives as long as Arrow wants it."""
    column = Column(ColumnType.LONGLONG)
    stored = [row_images.image([number.to_bytes(8, "little")]) for number in range(1000)]
    batch, _ = row_images.rows_of(
        [column], [(EventType.WRITE_ROWS, row_images.rows_body(EventType.WRITE_ROWS, 1, stored))]
    )
    array = batch["after"].field(0)
    del batch
    assert array.to_pylist() == list(range(1000))
    assert array.null_count == 0


def test_several_threads_decode_at_once():
    """Other threads run while large events are read; each has a builder of its own."""
    column = Column(ColumnType.VARCHAR, size=200, collation=255)
    stored = [row_images.image([row_images.sized(b"x" * (number % 100), 1)]) for number in range(5000)]
    body = row_images.rows_body(EventType.WRITE_ROWS, 1, stored)
    schema, counts = row_images.schema_of([column]), []

    def decode():
        counts.extend(rows_corpus.decode(schema, EventType.WRITE_ROWS, body).num_rows for _ in range(20))

    threads = [threading.Thread(target=decode) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [5000] * 80


def test_the_compiled_part_refuses_arguments_out_of_range():
    buffers = images.RowBuffers(images.Layout([("plain", 1, 0, ())]))
    for op, header, skip in ((0, 0, 0), (4, 0, 0), (1, -1, 0), (1, 0, -1)):
        with pytest.raises(ValueError, match="out of range"):
            buffers.append(b"", op, 2, 6, header, 0, skip, 1, 0)
    with pytest.raises(ValueError, match="truncated at byte 0"):
        buffers.append(b"", 1, 2, 6, 0, 0, 0, 1, 0)
    with pytest.raises(ValueError, match="no plain has size 3"):
        images.Layout([("plain", 3, 0, ())])


def test_ops_follow_the_event_type():
    for _, schema, event_type, body in rows_corpus.corpus():
        op = Op.INSERT if event_type in WRITES else Op.UPDATE if event_type in UPDATES else Op.DELETE
        batch = rows_corpus.decode(schema, event_type, body)
        assert batch is None or set(batch["_op"].to_pylist()) <= {int(op)}
        assert table_id(body) > 0
