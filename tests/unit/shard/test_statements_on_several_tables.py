"""A statement on several tables, from the binlog to each output: each filter asks all of them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.binlog.binlog_bytes import SIZES_5_1, File, events_of
from support.defaults import chunk_limits, ring_of

from canal_group.actors.sink.processing import Processing
from canal_group.actors.sink.route import Route
from canal_group.actors.sink.sink import Sink
from canal_group.actors.sink.table_rule import KEPT, TableRule
from canal_group.actors.store.ring import RingStore
from canal_group.actors.store.rows import Selection, gather, message, opened, read_message
from canal_group.binlog.grammar.binlog_decoder import BinlogDecoder
from canal_group.binlog.grammar.chunk_builder import ChunkBuilder
from canal_group.canal_protocol import entry_pb2
from canal_group.conf.relay.relay_settings import RouteSettings
from canal_group.merge.rows.assemble import BatchRows
from canal_group.merge.rows.canal.entries import entries
from canal_group.merge.rows.envelope import envelope
from canal_group.merge.values.header import Flag
from canal_group.merge.values.marks.snapshot_mark import SnapshotMark
from canal_group.merge.values.position import Position
from canal_group.programs.output.formats import format_of
from canal_group.programs.output.routing.router import Router
from canal_group.shapes.maps import tidied
from canal_group.spark.shapes import FIXED, envelope_rows

SWAP = "RENAME TABLE a TO tmp, b TO a, tmp TO b"
ACCOUNTS = [
    "CREATE USER u IDENTIFIED BY 'secret'",
    "CREATE OR REPLACE USER u IDENTIFIED BY 'secret'",
    "/*!50001 ALTER USER u IDENTIFIED BY 'secret' */",
    "/*M!100203 DROP USER u */",
    "SET STATEMENT max_statement_time=1 FOR GRANT SELECT ON app.* TO u IDENTIFIED BY 'secret'",
    "SET PASSWORD FOR u = 'secret'",
    "REVOKE ALL ON app.* FROM u",
    "-- who\nRENAME USER u TO v",
    "CREATE ROLE r",
    "SET DEFAULT ROLE r FOR u",
]
#: besides account statements, what canal's parser drops
DROPPED = [
    "CREATE VIEW v AS SELECT 1",
    "CREATE PROCEDURE p() SELECT 1",
    "ANALYZE TABLE a",
    "FLUSH PRIVILEGES",
]


def chunk_of(texts, sink=None, rules=(), version="10.11.6-MariaDB"):
    """What a shard stores of statements, each (text, session's database)."""
    file = File(version, SIZES_5_1, checksum=False)
    for sql, schema in texts:
        file.query(sql, schema)
    builder = ChunkBuilder(chunk_limits())
    decoder = BinlogDecoder("s0", Position("bin.000001", 4), (sink or Sink()).select, builder, checksum=0)
    for event in events_of(file.data):
        decoder.feed(event)
    return Processing(rules).apply(decoder.close_chunk())


def batch_of(chunk, table_filter=""):
    """The batch that a reader with a filter gets of a chunk."""
    ring = RingStore(ring_of("items", 64))
    ring.put(chunk)
    headers = ring.get_within(0.0)
    stored = gather(ring.fetch(0, len(headers.headers)), Selection(table_filter=table_filter))
    rows = opened(read_message(message(payload)) for payload in stored)
    return BatchRows(headers.headers, (rows,), ("s0",), headers.names, 100)


def texts(chunk, table_filter=""):
    return envelope(batch_of(chunk, table_filter)).column("sql").to_pylist()


def of_relay(chunk, table_filter="", **route):
    rows = tidied(envelope(batch_of(chunk, table_filter), definitions=True))
    return Router(RouteSettings(**{"topic": "all", **route}), table_filter=table_filter).addressed(rows)


def test_the_mark_of_a_snapshot_passes_every_filter():
    mark = SnapshotMark("s0", "app", "shop.orders", Position("bin.000001", 4)).to_sql()
    builder = ChunkBuilder(chunk_limits())
    builder.begin(file="bin.000001", begin_offset=4, commit_us=1, gtid_source="", gtid_number=0)
    builder.add_mark(mark)
    builder.end(4)
    chunk = Processing([TableRule(".*", kinds=frozenset())]).apply(builder.close(4))
    assert texts(chunk, r"app\.none") == [mark]
    assert mark in [event.sql for _, event in entries_of(chunk, r"app\.none")]


def entries_of(chunk, table_filter=""):
    """Canal's entries as (header, row change)."""
    found = []
    for each in entries(batch_of(chunk, table_filter)).column("entry").to_pylist():
        entry = entry_pb2.Entry.FromString(each)
        found.append((entry.header, entry_pb2.RowChange.FromString(entry.storeValue)))
    return found


@pytest.mark.parametrize("table_filter", [r"app\.a", r"app\.b", r"app\.tmp", r"x\.y,app\.b"])
def test_a_swap_by_rename_is_seen_by_the_reader_of_each_table(table_filter):
    chunk = chunk_of([(SWAP, "app")])
    assert texts(chunk, table_filter) == [SWAP]
    assert len(entries_of(chunk, table_filter)) == 1
    assert texts(chunk, r"app\.c") == []


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("RENAME TABLE old.t TO t", ["old.t", "app.t"]),
        ("ALTER TABLE t ADD c INT, RENAME TO new.t", ["app.t", "new.t"]),
        ("DROP TABLE other.x, mine", ["other.x", "app.mine"]),
        ("ALTER TABLE p EXCHANGE PARTITION q WITH TABLE other.s", ["app.p", "other.s"]),
        ("DROP DATABASE other", ["other."]),
        ("TRUNCATE other.t", ["other.t"]),
    ],
)
def test_each_filter_asks_all_tables(sql, names):
    for name in names:
        exactly = name.replace(".", r"\.")
        assert texts(chunk_of([(sql, "app")], Sink(white=exactly))) == [sql], "the instance's"
        assert texts(chunk_of([(sql, "app")]), exactly) == [sql], "a reader's"
        black = Sink(black=",".join(each.replace(".", r"\.") for each in names if each != name))
        assert texts(chunk_of([(sql, "app")], black)) == [sql]
        rule = [TableRule(exactly), TableRule(".*", kinds=frozenset())]
        assert texts(chunk_of([(sql, "app")], rules=rule)) == [sql], "the rules of tables"
    assert texts(chunk_of([(sql, "app")], Sink(white=r"app\.z"))) == []
    assert texts(chunk_of([(sql, "app")], rules=[TableRule(".*", kinds=KEPT - {"ddl"})])) == []


def test_a_table_that_the_instance_leaves_out_is_named_and_decides_nothing():
    chunk = chunk_of([("RENAME TABLE app.a TO hr.b", "hr")], Sink(black=r"hr\..*"))
    (row,) = envelope(batch_of(chunk)).to_pylist()
    assert row["tables"] == [
        {"schema": "app", "table": "a", "role": "old", "kept": True},
        {"schema": "hr", "table": "b", "role": "new", "kept": False},
    ]
    assert texts(chunk, r"hr\..*") == [], "its filter does not bring back what the instance leaves out"
    ((header, _),) = entries_of(chunk)
    assert (header.schemaName, header.tableName) == ("hr", "b"), "canal's: the new name"
    assert of_relay(chunk, dynamic_topic=r".*\..*")[1].topics == ("app_a",), "no topic of that table"
    # A rule on it does not count either.
    rules = [TableRule(r"app\..*", kinds=KEPT - {"ddl"})]
    assert texts(chunk_of([("RENAME TABLE app.a TO hr.b", "hr")], Sink(black=r"hr\..*"), rules)) == []


@pytest.mark.parametrize(
    ("sql", "event", "name"),
    [
        ("RENAME TABLE other.old TO new", entry_pb2.RENAME, "app.new"),
        ("ALTER TABLE old RENAME other.new", entry_pb2.RENAME, "other.new"),
        (SWAP, entry_pb2.RENAME, "app.tmp"),
        ("DROP TABLE other.x, mine", entry_pb2.ERASE, "other.x"),
        ("CREATE TABLE other.t LIKE t", entry_pb2.CREATE, "other.t"),
        ("CREATE DATABASE other", entry_pb2.QUERY, "other."),
    ],
)
def test_canals_entry_and_flat_message_name_the_table_and_the_database(sql, event, name):
    chunk = chunk_of([(sql, "app")])
    ((header, change),) = entries_of(chunk, r".*")
    assert f"{header.schemaName}.{header.tableName}" == name
    assert (header.eventType, change.eventType, change.isDdl) == (event, event, True)
    assert (change.sql, change.ddlSchemaName) == (sql, "app")
    messages = format_of("flat").make(*of_relay(chunk))
    (flat,) = map(json.loads, messages.value.to_pylist())
    assert (flat["database"], flat["table"], flat["sql"]) == (*name.split("."), sql)
    assert flat["pkNames"] is None
    assert messages.headers["ddl_schema"].to_pylist() == ["app"]
    (row,) = envelope(batch_of(chunk)).to_pylist()
    assert (row["ddl_schema"], f"{row['schema']}.{row['table']}") == ("app", name)


def test_a_session_without_a_database_has_none_in_canal_s_entry():
    ((_, change),) = entries_of(chunk_of([("TRUNCATE app.t", "")]))
    assert not change.ddlSchemaName


def test_the_session_s_database_is_routed_with_its_tables():
    each = Sink(routes=[Route(r"shop_\d+\.orders", "shop.orders")])
    ((header, change),) = entries_of(chunk_of([("ALTER TABLE orders ADD a INT", "shop_1")], each))
    assert (header.schemaName, change.ddlSchemaName) == ("shop", "shop")
    ((_, change),) = entries_of(chunk_of([("ALTER TABLE shop_1.orders ADD a INT", "app")], each))
    assert change.ddlSchemaName == "app"
    schema = Sink(routes=[Route(r"shop_\d+\.(.*)", r"shop.\1")])
    ((_, change),) = entries_of(chunk_of([("TRUNCATE x.t", "shop_1")], schema))
    assert change.ddlSchemaName == "shop"


def test_a_statement_goes_to_the_topic_of_each_of_its_tables_once():
    texts = [("DROP TABLE a, b, other.c", "app"), ("TRUNCATE a", "app"), (SWAP, "app")]
    chunk = chunk_of(texts, Sink(black=r"app\.tmp"))
    rows, routes = of_relay(chunk, dynamic_topic=r"one:app\.[ab];two:other\..*")
    went = [
        (routes.topics[topic], sql) for topic, sql in zip(routes.topic, rows["sql"].to_pylist(), strict=True)
    ]
    assert went == [("one", texts[0][0]), ("two", texts[0][0]), ("one", "TRUNCATE a"), ("one", SWAP)]
    rows, routes = of_relay(chunk, r"other\..*", dynamic_topic=r".*\..*", partition_hash=".*:$pk$")
    assert (routes.topics, len(rows), routes.partition.tolist()) == (("other_c",), 1, [0])
    for kind in ("flat", "protobuf", "arrow"):
        make = format_of(kind).make
        rows, routes = of_relay(chunk, dynamic_topic=r".*\..*")
        if kind != "protobuf":
            messages = make(rows, routes)
            assert {messages.topics[each] for each in messages.topic} == {"app_a", "app_b", "other_c"}


@pytest.mark.parametrize("version", ["10.11.6-MariaDB", "8.0.30"])
@pytest.mark.parametrize("sql", ACCOUNTS)
def test_no_consumer_gets_an_account_statement_unless_a_rule_keeps_it(sql, version):
    if "M!" in sql and "MariaDB" not in version:
        return  # a comment to MySQL
    account_statements = [(sql, "app"), ("ANALYZE TABLE a", "app")]
    for rules in ([], [TableRule(".*")], [TableRule(r"app\.a", kinds=KEPT | {"dcl"})]):
        chunk = chunk_of(account_statements, rules=rules, version=version)
        assert chunk.statements.column("sql").to_pylist() == ["ANALYZE TABLE a"]
        assert (chunk.headers["flags"] & Flag.DDL).astype(bool).tolist() == [False, True]
        assert chunk.headers["rows"].tolist() == [0, 1]
    result = chunk_of(account_statements, rules=[TableRule(".*", kinds=KEPT | {"dcl"})], version=version)
    assert texts(result) == [sql, "ANALYZE TABLE a"]
    assert entries_of(result) == [], "canal's parser drops it, kept or not"


def test_what_canal_s_parser_drops_is_in_none_of_canal_s_outputs():
    texts = [(sql, "app") for sql in (*DROPPED, "CREATE DATABASE IF NOT EXISTS d", "TRUNCATE a")]
    chunk = chunk_of(texts)
    whole = envelope(batch_of(chunk))
    assert whole.column("sql").to_pylist() == [sql for sql, _ in texts], "other consumers get them"
    of_canal = ["CREATE DATABASE IF NOT EXISTS d", "TRUNCATE a"]
    assert [change.sql for _, change in entries_of(chunk)] == of_canal
    flat = format_of("flat").make(*of_relay(chunk))
    assert [json.loads(each)["sql"] for each in flat.value.to_pylist()] == of_canal
    assert flat.headers["seq"].to_pylist() == ["104", "105"]
    assert envelope_rows(whole, "canal", FIXED["canal"]).column("sql").to_pylist() == of_canal
    assert np.count_nonzero(chunk.headers["flags"] & Flag.DDL) == len(texts)
