"""canal's protocol on a whole instance: what its clients are given, and what they are refused."""

from __future__ import annotations

from typing import Any

import pytest
from integration.canal_clients import RawClient, Refused, changes, inserted_ids
from integration.shared_servers import SharedShop
from integration.shop import DEADLINE_S
from integration.zookeeper_fixtures import eventually

from canal_group.canal_protocol import entry_pb2, packet_pb2
from canal_group.merge.calls.consumers import Release

CANAL = "1001"


@pytest.fixture(scope="module")
def shared_options() -> dict[str, Any]:
    return {"canal": {"port": 0}, "batch": {"outstanding_max": 3}}


@pytest.fixture
def raw(served: SharedShop) -> Any:
    with client_of(served) as client:
        yield client.subscribe()


def client_of(served: SharedShop, client_id: str = CANAL) -> RawClient:
    return RawClient(served.instance.canal_address, served.destination, client_id).log_in()


def cursor_of(served: SharedShop, client_id: str = CANAL) -> Any:
    with served.connect(client_id="observer") as observer:
        clients = observer.status()["group"]["clients"]
        return next((each["cursor"] for each in clients if each["client_id"] == client_id), None)


def props(header: Any) -> dict[str, str]:
    return {pair.key: pair.value for pair in header.props}


def test_a_transaction_is_a_begin_its_rows_and_an_end(served: SharedShop, raw: RawClient):
    served.write(1, 1, rows=3)
    batch_id, entries = raw.get()
    assert batch_id > 0
    begin, rows, end = entries
    assert [each.entryType for each in entries] == [1, 2, 3]
    said = rows.header
    assert (said.version, said.sourceType, said.serverenCode) == (1, entry_pb2.MYSQL, "UTF-8")
    assert (said.schemaName, said.tableName, said.eventType) == ("shop", "orders", entry_pb2.INSERT)
    assert props(said) == {"curtGtid": said.gtid, "rowsCount": "3", "shard": "s1", "row": "0"}
    assert begin.header.logfileOffset == said.logfileOffset
    assert end.header.logfileOffset == said.logfileOffset + said.eventLength
    assert said.serverId == int(said.gtid.split("-")[1])
    assert said.executeTime % 1_000 == 0
    (change,) = [change for _, change in changes(entries)]
    assert not change.isDdl
    price = change.rowDatas[1].afterColumns[2]
    assert (price.index, price.sqlType, price.name, price.isKey, price.updated) == (
        2,
        3,
        "price",
        False,
        True,
    )
    assert (price.value, price.mysqlType, price.HasField("isNull")) == ("0.25", "decimal(10,2)", True)
    assert [column.isKey for column in change.rowDatas[0].afterColumns] == [True, False, False]
    raw.ack(batch_id)
    assert raw.get(timeout=-1) == (-1, [])


def test_what_is_not_acknowledged_comes_again_on_the_next_connection(served: SharedShop, raw: RawClient):
    served.write(0, 2)
    first_id, first = raw.get(1)
    second_id, second = raw.get(1)
    raw.ack(first_id)
    assert raw.get(1, timeout=200) == (-1, [])
    raw.close()
    with client_of(served) as again:
        # As canal's clients do on each connection, before they subscribe.
        again.rollback(0)
        again.subscribe()
        batch_id, entries = again.get(1)
    assert batch_id > second_id
    assert inserted_ids(first) + inserted_ids(second) == served.written["s0"]
    assert inserted_ids(entries) == inserted_ids(second)


def test_a_client_that_was_subscribed_goes_on_without_saying_so(served: SharedShop, raw: RawClient):
    raw.subscribe(r"shop\.orders")
    raw.close()
    served.servers[0].execute(
        "CREATE TABLE shop_0.notes (id INT PRIMARY KEY)", "INSERT INTO shop_0.notes VALUES (1)"
    )
    served.write(0, 1)
    with client_of(served) as again:
        _, entries = again.get()
    assert {header.tableName for header, _ in changes(entries)} == {"orders"}, "the filter is the stored one"


def test_rollbacks_of_one_batch_and_of_all(served: SharedShop, raw: RawClient):
    served.write(0, 3)
    ids = [raw.get(1) for _ in range(3)]
    assert [inserted_ids(entries) for _, entries in ids] == [[each] for each in served.written["s0"]]
    raw.rollback(ids[1][0])
    again = [raw.get(1) for _ in range(2)]
    assert [inserted_ids(entries) for _, entries in again] == [[each] for each in served.written["s0"][1:]]
    raw.rollback(0)
    again = [raw.get(1) for _ in range(3)]
    assert [inserted_ids(entries) for _, entries in again] == [[each] for each in served.written["s0"]]
    for batch_id, _ in again:
        raw.ack(batch_id)
    assert raw.get(timeout=-1) == (-1, [])


def test_as_many_batches_may_be_outstanding_as_the_instance_allows(served: SharedShop, raw: RawClient):
    served.write(0, 4)
    ids = [raw.get(1)[0] for _ in range(3)]
    assert raw.get(1, timeout=200) == (-1, [])
    raw.ask(1)
    raw.ack(ids[0])  # while the get waits
    _, entries = raw.answer()
    assert inserted_ids(entries) == served.written["s0"][3:]


@pytest.mark.parametrize("which", ["a newer batch", "an unknown batch", "an acknowledged batch"])
def test_a_refused_ack_ends_the_connection_with_the_reason(served: SharedShop, raw: RawClient, which: str):
    served.write(0, 2)
    first_id, _ = raw.get(1)
    second_id, _ = raw.get(1)
    before = cursor_of(served)
    if which == "an acknowledged batch":
        raw.ack(first_id)
        eventually(lambda: cursor_of(served) != before, "the ack to be applied", within_s=DEADLINE_S)
        before = cursor_of(served)
    wrong = {"a newer batch": second_id, "an unknown batch": second_id + 7, "an acknowledged batch": first_id}
    raw.ack(wrong[which])
    raw.ask()
    reason = {"a newer batch": f"older batch {first_id}", "an unknown batch": "never delivered"}
    with pytest.raises(Refused, match=reason.get(which, "is acknowledged already")):
        raw.answer()
    with pytest.raises(ConnectionError):
        raw.receive()
    assert cursor_of(served) == before


def test_an_ack_without_an_id_is_answered_and_one_without_a_batch_is_not(served: SharedShop, raw: RawClient):
    raw.ack(0)
    with pytest.raises(Refused, match="402"):
        raw.acknowledged()
    raw.ack(-1)
    served.write(0, 1)
    assert raw.get()[0] > 0


def test_a_filter_leaves_out_tables_and_batches_without_rows(served: SharedShop, raw: RawClient):
    """The batches of which nothing is left are not delivered, and do not keep the cursor back."""
    raw.subscribe(r"shop\.notes,other\..*")
    served.write(0, 5)
    assert raw.get(2, timeout=500) == (-1, [])
    with served.connect(client_id="observer") as observer:
        sequence = observer.cursor.sequence
    served.servers[0].execute(
        "CREATE TABLE shop_0.notes (id INT PRIMARY KEY, t TEXT)",
        "INSERT INTO shop_0.notes VALUES (1, 'a'), (2, NULL)",
        "UPDATE shop_0.notes SET t = 'b' WHERE id = 1",
        "DELETE FROM shop_0.notes WHERE id = 2",
    )
    found: list[tuple[Any, Any]] = []
    while len(found) < 4:
        batch_id, entries = raw.get(100)
        found += changes(entries)
        raw.ack(batch_id)
    assert [(header.tableName, header.eventType) for header, _ in found] == [
        ("notes", entry_pb2.CREATE),
        ("notes", entry_pb2.INSERT),
        ("notes", entry_pb2.UPDATE),
        ("notes", entry_pb2.DELETE),
    ]
    (_, create), (_, insert), (_, update), (_, delete) = found
    assert create.isDdl
    assert (create.sql, create.ddlSchemaName) == (
        "CREATE TABLE shop_0.notes (id INT PRIMARY KEY, t TEXT)",
        "",
    ), "the session had no database"
    assert [column.isNull for column in insert.rowDatas[1].afterColumns] == [False, True]
    (row,) = update.rowDatas
    assert [column.value for column in row.beforeColumns] == ["1", "a"]
    assert [(column.value, column.updated) for column in row.afterColumns] == [("1", False), ("b", True)]
    assert [column.updated for column in delete.rowDatas[0].beforeColumns] == [False, False]
    assert not delete.rowDatas[0].afterColumns
    assert sequence is not None


def test_a_statement_on_several_tables_is_for_the_reader_of_each(served: SharedShop, raw: RawClient):
    """1. A reader's filter asks all tables of a statement. 2. canal's entry has the new name, and the
    session's database. 3. Account statements are for nobody; what canal's parser drops is not for canal's
    clients.
    """
    raw.subscribe(r"shop\.newtx,shop\.mine")
    with served.connect(client_id="everything") as everything:
        served.servers[0].execute(
            *(f"CREATE TABLE {name} (id INT PRIMARY KEY)" for name in ("other", "mine", "oldtx")),
            "CREATE USER teller IDENTIFIED BY 'Kept-1'",
            "CREATE VIEW seen AS SELECT id FROM mine",
            "RENAME TABLE shop_0.oldtx TO newtx",
            "RENAME TABLE newtx TO tmp, other TO newtx, tmp TO other",
            "DROP TABLE other, mine",
            "DROP USER teller",
            "DROP VIEW seen",
            database="shop_0",
        )
        found: list[tuple[Any, Any]] = []
        while len(found) < 4:
            batch_id, entries = raw.get(100)
            found += changes(entries)
            raw.ack(batch_id)
        texts: list[str] = []
        while "DROP VIEW seen" not in texts:
            batch = everything.get_without_ack(timeout=60)
            texts += [text for text in batch.envelope().column("sql").to_pylist() if text]
            everything.ack(batch.batch_id)
    assert [(header.tableName, header.eventType) for header, _ in found] == [
        ("mine", entry_pb2.CREATE),
        ("newtx", entry_pb2.RENAME),
        ("tmp", entry_pb2.RENAME),
        ("other", entry_pb2.ERASE),
    ]
    assert {change.ddlSchemaName for _, change in found} == {"shop"}
    assert [text for text in texts if "seen" in text][1:] == ["DROP VIEW seen"]
    assert not [text for text in texts if "teller" in text]


def test_a_transaction_without_wanted_rows_has_no_entries(served: SharedShop, raw: RawClient):
    raw.subscribe(r"shop\.notes")
    served.servers[0].execute("CREATE TABLE shop_0.notes (id INT PRIMARY KEY)")
    served.write(0, 2)
    served.servers[0].execute("INSERT INTO shop_0.notes VALUES (1)")
    kinds: list[int] = []
    while len(kinds) < 4:
        _, entries = raw.get()
        kinds += [each.entryType for each in entries]
    assert kinds == [2, 1, 2, 3], "the statement, and one transaction"


def test_the_next_batch_is_prefetched_and_taken_back_with_a_rollback(served: SharedShop, raw: RawClient):
    """Batches so large that the next one is made while the client reads, and a rollback in between."""
    served.write(0, 6, rows=300)
    seen: list[int] = []
    first_id, entries = raw.get(300)
    raw.rollback(first_id)
    raw.ack(-1)
    again_id, again = raw.get(300)
    assert (inserted_ids(again), again_id > first_id) == (inserted_ids(entries), True)
    raw.ack(again_id)
    seen += inserted_ids(again)
    while len(seen) < 1_800:
        batch_id, entries = raw.get(300)
        seen += inserted_ids(entries)
        raw.ack(batch_id)
    assert seen == served.written["s0"]
    assert raw.get(timeout=-1) == (-1, [])


def test_an_automatic_ack_follows_the_answer(served: SharedShop, raw: RawClient):
    served.write(0, 1)
    batch_id, entries = raw.get(auto_ack=True)
    assert inserted_ids(entries) == served.written["s0"]
    raw.ack(batch_id)
    raw.ask(timeout=-1)
    with pytest.raises(Refused, match="is acknowledged already"):
        raw.answer()


def test_a_second_client_waits_and_is_refused_by_name(served: SharedShop, raw: RawClient):
    host, port = raw.socket.getsockname()
    with client_of(served) as second, pytest.raises(Refused, match=f"400 .*canal:{host}:{port}"):
        second.subscribe()
    assert raw.get(timeout=-1) == (-1, [])


def test_a_client_of_an_older_epoch_is_cut_off(served: SharedShop, raw: RawClient):
    """1. a client has a batch; 2. another consumer takes its client id; 3. it is told, and cut off."""
    served.write(0, 1)
    batch_id, _ = raw.get()
    with served.connect(client_id="observer") as observer:
        (client,) = [each for each in observer.status()["group"]["clients"] if each["client_id"] == CANAL]
        observer.gateway_client.ask(Release(CANAL, client["epoch"]))
    with served.connect(client_id=CANAL) as newer:
        packet = raw.receive()
        ack = packet_pb2.Ack.FromString(packet.body)
        assert (packet.type, ack.error_code) == (packet_pb2.ACK, 400)
        assert (
            "released" in ack.error_message
            or "took over" in ack.error_message
            or "ended" in ack.error_message
        )
        with pytest.raises(ConnectionError):
            raw.receive()
        batch = newer.get_without_ack(timeout=20)
        assert batch is not None
        assert batch.batch_id > batch_id


def test_unsubscribing_gives_up_the_cursor(served: SharedShop, raw: RawClient):
    assert cursor_of(served) is not None
    raw.unsubscribe()
    assert cursor_of(served) is None
    raw.unsubscribe()
    raw.ask()
    with pytest.raises(Refused, match="not subscribed"):
        raw.answer()
    raw.subscribe()
    served.write(0, 1)
    assert inserted_ids(raw.get()[1]) == served.written["s0"]


def test_requests_that_name_too_little_or_something_else(served: SharedShop):
    with client_of(served, client_id="") as nobody, pytest.raises(Refused, match="401 client_id"):
        nobody.subscribe()
    address = served.instance.canal_address
    with RawClient(address, "").log_in() as nowhere, pytest.raises(Refused, match="401 destination"):
        nowhere.subscribe()
    with RawClient(address, "elsewhere").log_in() as elsewhere, pytest.raises(Refused, match="'elsewhere'"):
        elsewhere.subscribe()
    with client_of(served, client_id="../x") as odd, pytest.raises(Refused, match="not a client id"):
        odd.subscribe()
    with client_of(served) as client:
        with pytest.raises(Refused, match="not a usable regular expression"):
            client.subscribe("shop.(")
        client.subscribe()


def test_entries_are_the_same_over_flight(served: SharedShop, raw: RawClient):
    with served.connect() as consumer:
        served.write(0, 1, rows=2)
        _, entries = raw.get()
        batch = consumer.get_without_ack(timeout=20)
        assert batch is not None
        found = batch.canal_entries()
        assert [entry_pb2.Entry.FromString(each) for each in found["entry"].to_pylist()] == entries
        assert found["rows"].to_pylist() == [0, 2, 0]
        assert batch.canal_entries(rows_max=1)["rows"].to_pylist() == [0, 1, 1, 0]
