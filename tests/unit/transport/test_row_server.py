"""A shard's row server: which rows it sends or lends, and whom it refuses."""

import json
import signal
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from cryptography.x509 import SubjectAlternativeName, load_pem_x509_certificate
from pyarrow import flight
from support.ddl.statement_rows import statement_row
from support.defaults import ring_of
from support.security.guarded_server import own_connection

from canal_group.actors.store.ring import RingStore
from canal_group.actors.store.rows import Selection, gather, message, opened, read_message
from canal_group.actors.transport.bind_address import certificate_where_reached
from canal_group.actors.transport.row_client import RowClient
from canal_group.actors.transport.row_server import RowServer
from canal_group.actors.transport.row_ticket import RowTicket
from canal_group.merge.errors import ConfigError, ShardUnavailable, UsageError
from canal_group.merge.rows.assemble import ShardRows
from canal_group.merge.values.chunk import (
    MYSQL_TYPE,
    STATEMENTS,
    Chunk,
    Op,
    TableName,
    TableRows,
    rows_schema,
)
from canal_group.merge.values.header import HEADER, WHOLE
from canal_group.shared_memory.wire import new_name

ORDERS, ITEMS = TableName("shop", "orders"), TableName("shop", "items")


def record_batch(rows, kind=None):
    """Return rows of a chunk's table, made of (header, row, op, before, after)."""
    schema = rows_schema([pa.field("id", kind or pa.int64())], b'["id"]')
    values = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return pa.RecordBatch.from_pylist(values, schema=schema)


def chunk(headers, *tables, statements=()):
    headers_of = np.zeros(headers, dtype=HEADER)
    headers_of["flags"], headers_of["rows"], headers_of["row_end"], headers_of["bytes"] = WHOLE, 1, 1, 10
    rows_of_statements = [statement_row(*one) for one in statements]
    return Chunk(
        headers_of,
        ("bin.000001", ""),
        tuple(TableRows(*table) for table in tables),
        pa.RecordBatch.from_pylist(rows_of_statements, schema=STATEMENTS) if rows_of_statements else None,
    )


def insert(header, number):
    return (header, 0, Op.INSERT, None, {"id": number})


@pytest.fixture
def ring():
    """Return a ring of sequences 0 to 6: two chunks with orders (one a delete), items, and a statement."""
    ring = RingStore(ring_of("items", 16))
    ring.put(chunk(3, (ORDERS, record_batch([insert(0, 10), insert(1, 11), insert(2, 12)]))))
    ring.put(
        chunk(
            4,
            (ORDERS, record_batch([insert(0, 13), (2, 0, Op.DELETE, {"id": 10}, None)])),
            (ITEMS, record_batch([insert(1, 1)])),
            statements=[(3, 0, "shop", "orders", "ALTER", "alter table orders add x int")],
        )
    )
    ring.get_within(0.0)
    return ring


def rows_of(ring, begin, end, selection=None):
    payloads = gather(ring.fetch(begin, end), selection or Selection())
    return opened(read_message(message(payload)) for payload in payloads)


def found(shard_rows):
    return [
        (table.name.table, table.rows["_sequence"].to_pylist(), table.rows["after"].to_pylist())
        for table in shard_rows.tables
    ]


def test_just_the_range_comes_with_sequences_of_the_ring(ring):
    rows = rows_of(ring, 1, 7)
    assert found(rows) == [
        ("orders", [1, 2, 3, 5], [{"id": 11}, {"id": 12}, {"id": 13}, None]),
        ("items", [4], [{"id": 1}]),
    ]
    assert rows.statements["_sequence"].to_pylist() == [6]
    assert found(rows_of(ring, 4, 5)) == [("items", [4], [{"id": 1}])]


def test_only_the_wanted_table_comes(ring):
    rows = rows_of(ring, 0, 7, Selection(ITEMS))
    assert found(rows) == [("items", [4], [{"id": 1}])]
    assert rows.statements is None
    assert rows_of(ring, 0, 7, Selection(TableName("shop", "nothing"))).tables == ()


def test_only_the_columns_of_a_table_come_and_no_rows(ring):
    rows = rows_of(ring, 0, 7, Selection(ORDERS, schema_only=True))
    (whole,) = rows_of(ring, 0, 7, Selection(ORDERS)).tables
    assert found(rows) == [("orders", [], [])]
    assert rows.tables[0].rows.schema == whole.rows.schema
    assert rows.statements is None
    assert rows_of(ring, 4, 5, Selection(ORDERS, schema_only=True)).tables == (), "it has no rows there"


def test_only_tables_that_a_filter_names_come_and_statements_on_them(ring):
    rows = rows_of(ring, 0, 7, Selection(table_filter=r"shop\.items"))
    assert found(rows) == [("items", [4], [{"id": 1}])]
    assert rows.statements is None
    rows = rows_of(ring, 4, 7, Selection(table_filter=r"shop\.ord.*"))
    assert found(rows) == [("orders", [5], [None])]
    assert rows.statements["_sequence"].to_pylist() == [6]
    assert rows_of(ring, 0, 7, Selection(table_filter="none")) == ShardRows()
    with pytest.raises(ConfigError):
        rows_of(ring, 0, 7, Selection(table_filter="(a)\\1"))


@pytest.mark.parametrize("before", [True, False])
def test_images_before_the_change_come_where_they_are_looked_at(ring, before):
    selection = Selection(ORDERS, before=before)
    (inserts,) = rows_of(ring, 0, 3, selection).tables
    assert inserts.rows.schema.names == ["_sequence", "_row", "_op", "after"], "no row has one"
    (deletes,) = rows_of(ring, 0, 7, selection).tables
    assert deletes.rows["before"].to_pylist() == [None, None, None, None, {"id": 10}]


def test_an_update_needs_its_image_before_only_on_request():
    ring = RingStore(ring_of("items", 2))
    ring.put(chunk(1, (ORDERS, record_batch([(0, 0, Op.UPDATE, {"id": 1}, {"id": 2})]))))
    (table,) = rows_of(ring, 0, 1, Selection(ORDERS, before=True)).tables
    assert table.rows["before"].to_pylist() == [{"id": 1}]
    (not_asked,) = rows_of(ring, 0, 1, Selection(ORDERS, before=False)).tables
    assert "before" not in not_asked.rows.schema.names


@pytest.mark.parametrize("columns", [("note",), ("nothing",)])
def test_only_the_wanted_columns_come_and_a_missing_image_stays_missing(columns):
    schema = rows_schema([pa.field("id", pa.int64()), pa.field("note", pa.utf8())], b'["id"]')
    changes = [
        (0, 0, Op.INSERT, None, {"id": 1, "note": "a"}),
        (1, 0, Op.UPDATE, {"id": 1, "note": "a"}, {"id": 1, "note": None}),
        (2, 0, Op.DELETE, {"id": 1, "note": None}, None),
    ]
    values = [dict(zip(schema.names, change, strict=True)) for change in changes]
    ring = RingStore(ring_of("items", 4))
    ring.put(chunk(3, (ORDERS, pa.RecordBatch.from_pylist(values, schema=schema))))
    (rows,) = rows_of(ring, 1, 3, Selection(ORDERS, True, columns)).tables
    assert rows.rows.schema.metadata == schema.metadata
    names = [name for name in columns if name in {"id", "note"}]
    for side, images in (("before", [("a",), (None,)]), ("after", [(None,), None])):
        assert rows.rows.schema.field(side).type.names == names
        if names:
            expected = [None if image is None else {"note": image[0]} for image in images]
            assert rows.rows[side].to_pylist() == expected


def test_enumerations_that_grow_from_chunk_to_chunk_keep_their_values():
    ring = RingStore(ring_of("items", 4))
    for value in "ab":
        ring.put(chunk(1, (ORDERS, record_batch([insert(0, value)], pa.dictionary(pa.int8(), pa.utf8())))))
    (table,) = rows_of(ring, 0, 2).tables
    assert table.rows["after"].to_pylist() == [{"id": "a"}, {"id": "b"}]


@pytest.mark.parametrize(("kind", "key"), [("bigint", b'["other"]'), ("bigint unsigned", b'["id"]')])
def test_a_changed_description_makes_another_version_of_rows(kind, key):
    schemas = [
        rows_schema([pa.field("id", pa.int64(), metadata={MYSQL_TYPE: each})], primary_key)
        for each, primary_key in (("bigint", b'["id"]'), (kind, key), ("bigint", b'["id"]'))
    ]
    ring = RingStore(ring_of("items", 4))
    for number, schema in enumerate(schemas):
        values = [dict(zip(schema.names, insert(0, number), strict=True))]
        ring.put(chunk(1, (ORDERS, pa.RecordBatch.from_pylist(values, schema=schema))))
    first, second = (table.rows for table in rows_of(ring, 0, 3).tables)
    assert [first["_sequence"].to_pylist(), second["_sequence"].to_pylist()] == [[0, 2], [1]]
    for rows, schema in zip((first, second), schemas, strict=False):
        assert rows.schema.metadata == schema.metadata
        assert (
            rows.schema.field("after").type.field(0).metadata == schema.field("after").type.field(0).metadata
        )


def row_server(ring, host="127.0.0.1", *, tls=None):
    """Return a row server of a ring, whose shard is open under generation 3."""

    def rows(ticket):
        if ticket.generation != 3:
            raise ShardUnavailable("The shard is not open under that generation.", retry_after_s=0.1)
        return gather(ring.fetch(ticket.begin, ticket.end), ticket.selection)

    return RowServer(rows, host, tls=tls)


@pytest.mark.parametrize("lent", [True, False])
@pytest.mark.parametrize(("host", "tls"), [("127.0.0.1", None), ("127.0.0.1", True), ("127.0.0.2", True)])
def test_rows_and_refusals_come_through_the_door(ring, host, tls, lent):
    server = row_server(ring, host, tls=tls)
    assert server.address.location.startswith(f"grpc+tls://{host}:" if tls else f"grpc://{host}:")
    address = server.address if lent else replace(server.address, shared_memory=None)
    client = RowClient("s0", lambda: address)
    assert found(client.fetch(RowTicket(1, 3, 0, 7, Selection(ITEMS)))) == [("items", [4], [{"id": 1}])]
    with pytest.raises(ShardUnavailable, match="not open under that generation") as caught:
        client.fetch(RowTicket(1, 2, 0, 7))
    assert caught.value.retry_after_s == 0.1
    with pytest.raises(UsageError, match="are not in the ring"):
        client.fetch(RowTicket(1, 3, 0, 8))
    server.close()


def test_rows_are_lent_where_that_can_be_and_sent_where_not(ring):
    """1. on one machine Flight is not used; 2. without a shared-memory server Flight sends the rows."""
    server = row_server(ring)
    ticket = RowTicket(1, 3, 0, 7, Selection(ITEMS))
    expected = [("items", [4], [{"id": 1}])]
    nowhere = replace(server.address, location="grpc://127.0.0.1:1")
    assert found(RowClient("s0", lambda: nowhere).fetch(ticket)) == expected
    for lent in (None, replace(server.address.shared_memory, name=new_name())):
        client = RowClient("s0", lambda lent=lent: replace(server.address, shared_memory=lent))
        assert found(client.fetch(ticket)) == expected
    server.close()


def test_a_caller_without_the_secret_gets_nothing(ring):
    server = row_server(ring)
    client = own_connection(server.address.location)
    ticket = json.dumps(RowTicket(1, 3, 0, 7).to_dict() | {"secret": server.address.secret}).encode()

    def asked(named, shown):
        headers = [] if shown is None else [(b"authorization", f"Bearer {shown}".encode())]
        return client.do_get(flight.Ticket(named), flight.FlightCallOptions(headers=headers)).read_all()

    for shown in (None, "", "x", server.address.secret[:-1]):
        with pytest.raises(flight.FlightUnauthenticatedError):
            asked(ticket, shown)
    for malformed in (b"{}", b"", b"[]", b'"x"', b"[" * 10_000):
        with pytest.raises(flight.FlightError, match="malformed"):
            asked(malformed, server.address.secret)
    assert asked(ticket, server.address.secret).num_rows
    assert server.address.secret not in repr(server.address)
    server.close()


def test_a_door_with_a_certificate_is_the_only_one_that_is_trusted(ring):
    """1. its address has the certificate; 2. another or no certificate fails; 3. so does no TLS."""
    server, other, plain = row_server(ring, tls=True), row_server(ring, tls=True), row_server(ring)
    assert server.address.location.startswith("grpc+tls://")
    assert plain.address.location.startswith("grpc://")
    assert plain.address.certificate is None
    assert "CERTIFICATE" not in repr(server.address)
    ticket = RowTicket(1, 3, 0, 7)
    far = replace(server.address, shared_memory=None)
    as_plain = server.address.location.replace("grpc+tls", "grpc")
    for wrong in (
        replace(far, certificate=other.address.certificate),
        replace(far, certificate=None),
        replace(far, location=as_plain, certificate=None),
    ):
        with pytest.raises(ShardUnavailable, match="s0 cannot be fetched"):
            RowClient("s0", lambda wrong=wrong: wrong).fetch(ticket)
    for made in (server, other, plain):
        made.close()


@pytest.mark.parametrize(("host", "name"), [("10.0.0.7", "10.0.0.7"), ("::1", "::1"), ("node7", "node7")])
def test_a_certificate_is_of_its_host(host, name):
    made = certificate_where_reached(host, tls=True)
    names = load_pem_x509_certificate(made.certificate).extensions.get_extension_for_class(
        SubjectAlternativeName
    )
    assert [str(one.value) for one in names.value] == [name]
    assert b"PRIVATE KEY" in made.key
    assert "PRIVATE KEY" not in repr(made)


@pytest.mark.parametrize(
    ("host", "tls", "made"),
    [("127.0.0.1", None, False), ("::1", None, False), ("10.0.0.7", None, True), ("10.0.0.7", False, False)],
)
def test_a_certificate_is_made_where_other_machines_reach_the_door(host, tls, made):
    assert (certificate_where_reached(host, tls) is not None) == made


@pytest.mark.parametrize("lent", [True, False])
def test_a_door_that_is_gone_is_asked_for_anew(ring, lent):
    """1. rows come; 2. the shard restarts; 3. its new server sends rows; 4. it is closed: fetching fails."""
    server = row_server(ring)
    calls = []

    def ask():
        calls.append(server.address if lent else replace(server.address, shared_memory=None))
        return calls[-1]

    client, ticket = RowClient("s0", ask), RowTicket(1, 3, 4, 5)
    assert client.fetch(ticket).tables
    assert client.fetch(ticket).tables
    assert len(calls) == 1
    old, server = server, row_server(ring)
    old.close()
    assert client.fetch(ticket).tables
    assert calls[1].secret != calls[0].secret
    server.close()
    with pytest.raises(ShardUnavailable, match="s0 cannot be fetched"):
        client.fetch(ticket)
    assert len(calls) == 3


def test_a_door_leaves_signals_to_its_process(ring):
    """Who takes them in Flight also shuts down another server of the process when one of them ends."""
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append("SIGTERM"))
    try:
        server = row_server(ring)
        client = RowClient("s0", lambda: replace(server.address, shared_memory=None))
        assert client.fetch(RowTicket(1, 3, 4, 5)).tables
        signal.raise_signal(signal.SIGTERM)
        assert heard == ["SIGTERM"]
        assert client.fetch(RowTicket(1, 3, 4, 5)).tables
        server.close()
    finally:
        signal.signal(signal.SIGTERM, before)


class Elsewhere(flight.FlightServerBase):
    """A server on the port of one that was closed."""

    def __init__(self, port, ring):
        super().__init__(f"grpc://127.0.0.1:{port}")
        self._ring = ring

    def do_get(self, *_):
        rows = [message(payload) for payload in gather(self._ring.fetch(4, 5), Selection())]
        return flight.RecordBatchStream(pa.Table.from_batches(rows).to_reader())


def test_a_door_on_the_port_of_one_that_is_gone_is_reached_at_once(ring):
    """1. a client that fetched rows stays connected; 2. the server is closed, and another client fails;
    3. a new server listens on the same port: a new client gets rows at once, without the reconnect pause.
    """
    server = row_server(ring)
    far = replace(server.address, shared_memory=None)
    ticket = RowTicket(1, 3, 4, 5)
    stays = RowClient("s0", lambda: far)
    assert stays.fetch(ticket).tables
    server.close()
    with pytest.raises(ShardUnavailable):
        RowClient("s0", lambda: far).fetch(ticket)
    back = Elsewhere(int(far.location.rpartition(":")[2]), ring)
    assert RowClient("s0", lambda: far).fetch(ticket).tables
    back.shutdown()


@pytest.mark.parametrize("columns", ["id", [1], [["id"]], {"id": 1}, 7])
def test_a_ticket_names_tables_and_columns_by_texts(columns):
    ticket = RowTicket(1, 3, 0, 7, Selection(ITEMS, columns=("id",), table_filter="a,b", schema_only=True))
    assert RowTicket.from_dict(json.loads(json.dumps(ticket.to_dict()))) == ticket
    for members in ({"columns": columns}, {"table": columns}):
        with pytest.raises(TypeError):
            RowTicket.from_dict(
                {**ticket.to_dict(), "selection": {**ticket.to_dict()["selection"], **members}}
            )
