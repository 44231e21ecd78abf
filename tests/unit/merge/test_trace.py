"""Which transaction a GTID names, which shard has it, and what became of it."""

from __future__ import annotations

import pytest
from support.group.builders import Source, Tx, World

from canal_group.merge import events as ev
from canal_group.merge.errors import UsageError
from canal_group.merge.trace import single
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.gtids.gtid import parse_gtid_set

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.mark.parametrize(
    ("text", "named"),
    [("0-1-42", ("0-1", 42)), (f"{UUID}:7", (UUID, 7)), (f"{UUID}:tag:7", (f"{UUID}:tag", 7))],
)
def test_one_transaction_is_named_as_headers_name_it(text, named):
    assert single(parse_gtid_set(text), text) == named


@pytest.mark.parametrize(
    "text", ["", "0-1-42,1-1-3", f"{UUID}:1-2", f"{UUID}:1:5", f"{UUID}:1,{UUID[:-1]}3:1"]
)
def test_several_or_none_are_refused(text):
    with pytest.raises(UsageError, match="not the GTID of one transaction"):
        single(parse_gtid_set(text), text)


@pytest.mark.parametrize(
    ("wanted", "s0", "s1", "read_by"),
    [
        # Both number domain 0; what s1 has read of its own says nothing of a transaction of s0's server.
        ("0-1-42", "0-1-41", "0-2-500", []),
        ("0-1-42", "0-1-42", "0-2-500", ["s0"]),
        ("0-1-42", "", "0-2-41", []),
        ("0-1-42", "5-1-60", "0-1-42,5-1-90", ["s1"]),
        (f"{UUID}:7", f"{UUID}:1-6", f"{UUID[:-1]}3:1-9", []),
        (f"{UUID}:7", f"{UUID}:1-7", f"{UUID[:-1]}3:1-9", ["s0"]),
        (f"{UUID}:7", "0-1-42", "", []),
    ],
)
def test_the_clients_that_have_read_a_transaction(wanted, s0, s1, read_by):
    world = World.of(Source(), Source())
    assert world.group.trace(wanted, {"s0": s0, "s1": s1})["read_by"] == read_by


@pytest.mark.parametrize(
    ("s0", "s1", "read_by"),
    [
        # Their servers have the same id.
        ("0-1-42", "0-1-500", {"s0": ["s0"], "s1": ["s1"]}),
        ("0-1-41", "0-1-500", {"s0": [], "s1": ["s1"]}),
        # Server 1 was replaced: by server 3, on the one shard or the other.
        ("0-3-60", "0-2-41", {"s0": ["s0"], "s1": []}),
        ("", "0-2-500", {"s0": [], "s1": ["s1"]}),
    ],
)
def test_a_shard_is_named_where_any_may_have_the_transaction(s0, s1, read_by):
    group, read = World.of(Source(), Source()).group, {"s0": s0, "s1": s1}
    with pytest.raises(UsageError, match="0-1-42 may be a transaction of each of the shards s0, s1"):
        group.trace("0-1-42", read)
    assert {shard: group.trace("0-1-42", read, shard)["read_by"] for shard in read} == read_by
    with pytest.raises(UsageError, match="no shard s9"):
        group.trace("0-1-42", read, "s9")


def test_the_only_shard_has_what_a_replaced_server_wrote():
    group = World.of(Source()).group
    assert group.trace("0-1-42", {"s0": "0-3-60"})["read_by"] == ["s0"]


def state(world, gtid, read, shard=None):
    """Return where a transaction is, and what it is for the only client."""
    traced = world.group.trace(gtid, read, shard)
    (client,) = traced["clients"]
    return traced["found"], traced["read_by"], client["state"]


def test_what_another_shard_has_read_of_the_same_domain_says_nothing():
    """Shard 1 is far ahead in domain 0, and its transactions are acknowledged."""
    ahead = Source(*(Tx(commit_us) for commit_us in range(10, 60, 10)), gtid_source="0-2")
    world = World.of(Source(Tx(60), Tx(70), Tx(90), gtid_source="0-1"), ahead)
    read = {"s0": "0-1-1", "s1": "0-2-5"}
    world.subscribe()
    world.report(0, 1, low_watermark_us=65)
    world.report(1, 5, low_watermark_us=80)
    world.ack(world.get().batch_id)
    assert state(world, "0-2-5", read) == (None, ["s1"], "acknowledged")
    assert state(world, "0-1-1", read) == (None, ["s0"], "acknowledged")
    assert state(world, "0-1-2", read) == (None, [], "not delivered")
    read["s0"] = "0-1-3"
    world.report(0, 2, low_watermark_us=100)
    assert state(world, "0-1-2", read) == ("merged", ["s0"], "not delivered")
    assert state(world, "0-1-3", read) == ("waiting", ["s0"], "not delivered")
    batch = world.get()
    assert state(world, "0-1-2", read) == ("merged", ["s0"], "outstanding")
    world.ack(batch.batch_id)
    assert state(world, "0-1-2", read) == (None, ["s0"], "acknowledged")


def test_two_transactions_of_one_gtid_are_told_apart_by_their_shards():
    """Both servers have the default server_id; 0-1-1 is merged on shard 0, and waits on shard 1."""
    world = World.of(Source(Tx(10), gtid_source="0-1"), Source(Tx(30), gtid_source="0-1"))
    read = {"s0": "0-1-1", "s1": "0-1-1"}
    world.subscribe()
    world.report(0, 1, low_watermark_us=20)
    world.report(1, 1, low_watermark_us=40)
    world.get()
    with pytest.raises(UsageError, match="may be a transaction of each of the shards s0, s1"):
        world.group.trace("0-1-1", read)
    assert state(world, "0-1-1", read, "s0") == ("merged", ["s0"], "outstanding")
    assert state(world, "0-1-1", read, "s1") == ("waiting", ["s1"], "not delivered")


def test_what_the_group_holds_is_found_although_its_server_was_replaced():
    """Servers 3 and 2 write the domain now; 0-1-1 and 0-1-2, of server 1, are not acknowledged yet."""
    world = World.of(Source(Tx(10), Tx(20), gtid_source="0-1"), Source(Tx(15), gtid_source="0-2"))
    read = {"s0": "0-3-60", "s1": "0-2-500"}
    world.subscribe()
    world.report_all()
    batches = [world.get(rows_max=1) for _ in range(3)]
    assert [batch.headers["shard"].tolist() for batch in batches] == [[0], [1], [0]]
    world.ack(batches[0].batch_id)
    world.ack(batches[1].batch_id)
    traced = world.group.trace("0-1-2", read)
    assert (traced["found"], traced["shard"], traced["read_by"]) == ("merged", "s0", ["s0"])
    assert traced["clients"] == [{"client_id": "c", "state": "outstanding", "batch_id": batches[2].batch_id}]


def test_a_transaction_in_parts_is_delivered_with_its_last_one():
    world, read = World.of(Source(Tx(10), Tx(20, (3, 2)), gtid_source="0-1")), {"s0": "0-1-1"}
    world.subscribe()
    world.report(0, 2, low_watermark_us=15)
    assert not world.group.trace("0-1-2", read)["whole"]
    world.report_all()
    traced = world.group.trace("0-1-2", read)
    assert (traced["whole"], traced["rows"], traced["found"]) == (True, 5, "merged")
    batches = [world.get(rows_max=rows) for rows in (1, 3)]
    assert state(world, "0-1-1", read) == ("merged", ["s0"], "outstanding")
    assert state(world, "0-1-2", read) == ("merged", [], "not delivered")
    batches.append(world.get())
    traced = world.group.trace("0-1-2", read)["clients"][0]
    assert (traced["state"], traced["batch_id"]) == ("outstanding", batches[2].batch_id)


def test_one_shards_cursor_shows_that_a_mysql_transaction_is_acked():
    """Its other shards have not read it; one of them is not in the cursor at all, because it joined since."""
    world = World.of(Source(Tx(10)), Source(Tx(20), server=1))
    world.subscribe()
    world.report_all()
    world.ack(world.get().batch_id)
    uuid = world.sources[0].names[-1]
    assert state(world, f"{uuid}:1", {"s9": "", "s0": f"{uuid}:1", "s1": ""}) == (
        None,
        ["s0"],
        "acknowledged",
    )


def test_a_group_that_has_not_begun_to_merge_holds_nothing():
    """A client id without a cursor has got nothing either."""
    world = World.of(Source(Tx(10), gtid_source="0-1"), start=False)
    world.start(ev.ConsumerState("c", "", None, "", 0))
    assert state(world, "0-1-1", {"s0": "0-1-1"}) == (None, ["s0"], "not delivered")


def test_all_shards_that_hold_a_transaction_are_named_in_order():
    world = World.of(*(Source(Tx(10), gtid_source="0-1") for _ in range(6)))
    world.subscribe()
    world.report_all()
    with pytest.raises(UsageError, match="of each of the shards s0, s1, s2, s3, s4, s5"):
        world.group.trace("0-1-1", {})


def test_a_filtered_table_does_not_count_as_acked():
    world, orders = World.of(Source(Tx(10), gtid_source="0-1")), TableName("shop", "orders")
    world.subscribe("all")
    world.subscribe("items", table_filter=r"shop\.items")
    world.report_all()
    for client in ("all", "items"):
        world.ack(world.get(client).batch_id, client)

    def states(table):
        traced = world.group.trace("0-1-1", {"s0": "0-1-1"}, None, table)
        return {each["client_id"]: each["state"] for each in traced["clients"]}

    assert states(orders) == {"all": "acknowledged", "items": "left out by its filter"}
    assert states(TableName("SHOP", "Items")) == dict.fromkeys(("all", "items"), "acknowledged")
    assert states(None) == dict.fromkeys(("all", "items"), "acknowledged"), "of the transaction as a whole"
