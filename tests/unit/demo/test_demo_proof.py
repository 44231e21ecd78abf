"""The proof finds each kind of fault in a stream made by hand.

The stream: two shards, each with four transactions

    a1 INSERT order 1 | a2 INSERT order 3 with two items | a3 UPDATE order 1 | a4 DELETE order 3's items
    b1 INSERT order 2 | b2 ALTER                         | b3 UPDATE order 2 | b4 INSERT orders 4, 6, 8

in three batches, of which the middle one may be given back and come again.
"""

import itertools

import pyarrow as pa
import pytest

from canal_group.merge.rows.envelope import ENVELOPE
from canal_group.programs.demo.delivered import CELL_END, Delivered
from canal_group.programs.demo.measures import latency_ms, rows_per_s
from canal_group.programs.demo.proof import prove
from canal_group.programs.demo.replica import Replica
from canal_group.programs.demo.report import DemoReport
from canal_group.programs.demo.tables import ADDED_COLUMN
from canal_group.programs.demo.written import Change, Record


def order(number, state, **more):
    return {"id": str(number), "state": state, "note": None, "written_us": "1000"} | more


def item(number, line):
    return {"order_id": str(number), "line": str(line), "written_us": "1000"}


def change(shard, number, row, table, op, before=None, after=None, *, time):
    """Return one row of an envelope; `seq` is set where it is delivered."""
    names = ("id",) if table == "orders" else ("order_id", "line")
    image = after or before or {}
    return {
        "shard": shard,
        "schema": "shop",
        "table": table,
        "op": op,
        "commit_us": time,
        "key_us": time,
        "late": False,
        "gtid": f"0-{shard}-{number}",
        "file": "mysql-bin.000001",
        "pos": number * 100,
        "row": row,
        "key": [(name, image[name]) for name in names if name in image],
        "before": list(before.items()) if before is not None else None,
        "after": list(after.items()) if after is not None else None,
        "sql": "ALTER" if op == "ALTER" else None,
    }


A, B = "a", "b"


def story():
    return [
        change(A, 1, 0, "orders", "INSERT", None, order(1, "new"), time=10),
        change(B, 1, 0, "orders", "INSERT", None, order(2, "new"), time=10),
        change(A, 2, 0, "orders", "INSERT", None, order(3, "new"), time=20),
        change(A, 2, 1, "items", "INSERT", None, item(3, 1), time=20),
        change(A, 2, 2, "items", "INSERT", None, item(3, 2), time=20),
        change(B, 2, 0, "orders", "ALTER", time=30),
        change(A, 3, 0, "orders", "UPDATE", order(1, "new"), order(1, "paid"), time=40),
        change(
            B,
            3,
            0,
            "orders",
            "UPDATE",
            order(2, "new", channel="shop"),
            order(2, "sent", channel="web"),
            time=50,
        ),
        change(A, 4, 0, "items", "DELETE", item(3, 1), time=60),
        change(A, 4, 1, "items", "DELETE", item(3, 2), time=60),
        *(
            change(B, 4, row, "orders", "INSERT", None, order(4 + 2 * row, "new", channel="web"), time=70)
            for row in range(3)
        ),
    ]


def records():
    a, b = Record(A, "0-a-", 1), Record(B, "0-b-", 1)
    a.add((Change("orders", "INSERT", 1),))
    a.add((Change("orders", "INSERT", 1), Change("items", "INSERT", 2)))
    a.add((Change("orders", "UPDATE", 1),))
    a.add((Change("items", "DELETE", 2),))
    b.add((Change("orders", "INSERT", 1),))
    b.add((Change("orders", "ALTER", 1),))
    b.add((Change("orders", "UPDATE", 1),))
    b.add((Change("orders", "INSERT", 3),))
    return [a, b]


def servers():
    rows = [
        (A, order(1, "paid")),
        (A, order(3, "new")),
        (B, order(2, "sent", channel="web")),
        *((B, order(number, "new", channel="web")) for number in (4, 6, 8)),
    ]
    return {(shard, "orders", f"id={image['id']}"): cells(image) for shard, image in rows}


def cells(image):
    return CELL_END.join(f"{name}={chr(0) if value is None else value}" for name, value in image.items())


def envelope(rows, first_seq=0):
    """Return rows as an envelope; a row's own `seq` wins over its index."""
    return pa.Table.from_pylist([{"seq": first_seq + n} | row for n, row in enumerate(rows)], schema=ENVELOPE)


def delivered(rows, cuts=(4, 8)):
    """Deliver rows in three batches and acknowledge each."""
    deliveries = Delivered()
    bounds = [0, *cuts, len(rows)]
    for batch_id, (begin, end) in enumerate(itertools.pairwise(bounds)):
        deliveries.add(batch_id, envelope(rows[begin:end], begin), 5_000)
        deliveries.acked(batch_id)
    return deliveries


def faults(deliveries, servers_rows=None):
    report = prove(deliveries, records(), servers() if servers_rows is None else servers_rows)
    return {
        name: value
        for name, value in {
            "order": report.order_violations,
            "split": report.split_transactions,
            "missing": report.missing,
            "duplicates": report.duplicates,
            "unequal": not report.tables_equal,
        }.items()
        if value
    }


def test_a_right_stream_has_no_fault():
    report = prove(delivered(story()), records(), servers())
    assert not report.words
    assert (report.rows, report.transactions, report.tables_equal) == (13, 8, True)
    assert ADDED_COLUMN == "channel"


@pytest.mark.parametrize("cut", range(1, 13))
def test_a_rolled_back_and_repeated_batch_is_not_a_fault(cut):
    """1. a batch comes; 2. the rest comes; 3. the rest is given back; 4. it comes again, cut elsewhere."""
    rows, deliveries = story(), Delivered()
    deliveries.add(1, envelope(rows[:cut]), 5_000)
    deliveries.add(2, envelope(rows[cut:], cut), 5_000)
    deliveries.taken_back(2)
    deliveries.acked(1)
    middle = (cut + len(rows)) // 2
    deliveries.add(3, envelope(rows[cut:middle], cut), 6_000)
    deliveries.add(4, envelope(rows[middle:], middle), 6_000)
    deliveries.acked(3)
    deliveries.acked(4)
    assert faults(deliveries) == {}
    assert deliveries.distinct() == len(rows)


def test_everything_may_come_again_after_the_server_took_it_back():
    rows, deliveries = story(), Delivered()
    deliveries.add(1, envelope(rows[:6]), 5_000)
    deliveries.acked(1)
    deliveries.lost()
    deliveries.add(2, envelope(rows), 6_000)
    deliveries.acked(2)
    assert faults(deliveries) == {}


@pytest.mark.parametrize("index", range(13))
def test_a_dropped_row_is_missing(index):
    rows = story()
    del rows[index]
    assert faults(delivered(rows))["missing"] == 1


def test_a_dropped_transaction_is_missing_even_if_the_tables_are_equal():
    rows = story()
    extra = records()
    extra[0].add((Change("orders", "UPDATE", 1),))
    report = prove(delivered(rows), extra, servers())
    assert (report.missing, report.tables_equal) == (1, True)
    assert "a 0-a-5: 1 UPDATE of orders" in report.words[0]


@pytest.mark.parametrize("index", range(13))
def test_a_row_that_comes_twice_is_a_duplicate(index):
    rows = story()
    rows.insert(index, rows[index])
    assert faults(delivered(rows))["duplicates"] == 1


def test_an_acknowledged_row_that_comes_again_is_a_duplicate():
    rows, deliveries = story(), Delivered()
    deliveries.add(1, envelope(rows[:6]), 5_000)
    deliveries.acked(1)
    deliveries.add(2, envelope(rows[6:], 6), 5_000)
    deliveries.taken_back()
    deliveries.add(3, envelope(rows[5:], 5), 6_000)
    deliveries.acked(3)
    assert faults(deliveries) == {"duplicates": 1}


def test_a_row_that_comes_again_with_other_values_is_a_duplicate():
    rows, deliveries = story(), Delivered()
    deliveries.add(1, envelope(rows), 5_000)
    deliveries.taken_back()
    rows[0] = rows[0] | {"after": list(order(1, "lost").items())}
    deliveries.add(2, envelope(rows), 6_000)
    deliveries.acked(2)
    assert faults(deliveries) == {"duplicates": 1}


def test_a_row_without_a_write_is_a_duplicate():
    rows = story()
    rows.append(change(B, 5, 0, "orders", "INSERT", None, order(10, "new", channel="web"), time=80))
    assert faults(delivered(rows)) == {"duplicates": 1, "unequal": True}


def test_keys_that_go_back_violate_the_order():
    rows = story()
    rows[6], rows[7] = rows[6] | {"key_us": 50}, rows[7] | {"key_us": 40}
    assert faults(delivered(rows)) == {"order": 1}


def test_numbers_that_go_back_violate_the_order():
    rows = story()
    rows[6], rows[7] = rows[6] | {"seq": 7}, rows[7] | {"seq": 6}
    assert faults(delivered(rows)) == {"order": 1}


def test_a_shard_with_its_own_order_reversed_violates_the_order():
    rows = story()
    moved = rows.pop(6) | {"key_us": 60}
    rows.insert(9, moved)
    assert faults(delivered(rows))["order"] >= 1


def test_an_interleaved_transaction_is_split_also_across_batches():
    rows = story()
    rows[4], rows[5] = rows[5] | {"key_us": 20}, rows[4]
    assert faults(delivered(rows)) == {"split": 1}
    assert faults(delivered(rows, cuts=(5, 6))) == {"split": 1}


def test_a_split_in_a_delivery_that_was_given_back_counts():
    wrong, right, deliveries = story(), story(), Delivered()
    wrong[4], wrong[5] = wrong[5] | {"key_us": 20}, wrong[4]
    deliveries.add(1, envelope(wrong), 5_000)
    deliveries.taken_back()
    deliveries.add(2, envelope(right), 6_000)
    deliveries.acked(2)
    assert faults(deliveries)["split"] == 1


@pytest.mark.parametrize("image", ["before", "after"])
def test_a_changed_value_makes_the_tables_unequal(image):
    rows = story()
    rows[6] = rows[6] | {image: list(order(1, "lost").items())}
    assert faults(delivered(rows)) == {"unequal": True}


def test_a_lost_null_makes_the_tables_unequal():
    rows = story()
    rows[0] = rows[0] | {"after": list(order(1, "new", note="").items())}
    assert faults(delivered(rows)) == {"unequal": True}


@pytest.mark.parametrize("name", [(A, "orders", "id=1"), (B, "orders", "id=8")])
def test_a_row_of_another_shard_or_one_side_makes_the_tables_unequal(name):
    of_another = servers()
    of_another["elsewhere", *name[1:]] = of_another.pop(name)
    assert faults(delivered(story()), of_another) == {"unequal": True}
    without = servers()
    del without[name]
    assert faults(delivered(story()), without) == {"unequal": True}
    more = servers() | {(A, "orders", "id=99"): "id=99"}
    assert faults(delivered(story()), more) == {"unequal": True}


def test_a_key_that_an_update_changes_moves_the_row():
    moved = change(A, 5, 0, "orders", "UPDATE", order(1, "paid"), order(101, "paid"), time=90)
    written, held = records(), servers()
    written[0].add((Change("orders", "UPDATE", 1),))
    held[A, "orders", "id=101"] = held.pop((A, "orders", "id=1")).replace("id=1", "id=101")
    assert prove(delivered([*story(), moved]), written, held).words == ()


def test_a_row_that_moves_to_another_shard_is_of_two_tables():
    """Shards order their commits by whole seconds: it may arrive before it leaves."""
    arrives = change(B, 5, 0, "orders", "INSERT", None, order(1, "paid", channel="web"), time=90)
    leaves = change(A, 5, 0, "orders", "DELETE", order(1, "paid"), time=90)
    written, held = records(), servers()
    written[0].add((Change("orders", "DELETE", 1),))
    written[1].add((Change("orders", "INSERT", 1),))
    del held[A, "orders", "id=1"]
    held[B, "orders", "id=1"] = cells(order(1, "paid", channel="web"))
    assert prove(delivered([*story(), arrives, leaves]), written, held).words == ()


def test_rows_that_were_there_before_are_changed():
    moved = change(A, 5, 0, "orders", "UPDATE", order(11, "old"), order(11, "paid"), time=90)
    written, held = records(), servers()
    written[0].add((Change("orders", "UPDATE", 1),))
    held[A, "orders", "id=11"] = cells(order(11, "paid"))
    there = {(A, "orders", "id=11"): cells(order(11, "old"))}
    assert prove(delivered([*story(), moved]), written, held, Replica(rows=there)).words == ()
    assert not prove(delivered([*story(), moved]), written, held).tables_equal


def page(shard, pos, row, image, *, time):
    """Return a row that a snapshot has read, or without an image the mark at its end."""
    op = "QUERY" if image is None else "READ"
    return change(shard, 0, row - 100, "orders" if image else "", op, None, image, time=time) | {
        "gtid": "",
        "pos": pos,
    }


OF_ITEM = {"table": "items", "key": [("order_id", "3"), ("line", "1")]}
#: what was there before: the stream brings order 13's update before it is read, so it never is
THERE = {11: order(11, "old"), 13: order(13, "old")}


def full_story():
    """The story on tables that had rows: pages at boundaries of a, and marks of both shards."""
    a1, b1, *others = story()
    moved = change(A, 5, 0, "orders", "UPDATE", THERE[13], order(13, "paid"), time=70)
    return [
        a1,
        page(A, 200, 0, THERE[11], time=10),
        page(A, 200, 1, order(1, "new"), time=10),
        b1,
        page(B, 200, 0, None, time=10),
        *others,
        moved,
        page(A, 600, 0, None, time=70),
    ]


def full_faults(rows):
    written, held = records(), servers()
    written[0].add((Change("orders", "UPDATE", 1),))
    for number, state in ((11, "old"), (13, "paid")):
        held[A, "orders", f"id={number}"] = cells(order(number, state))
    found = prove(delivered(rows), written, held, Replica([A, B]))
    counts = (found.order_violations, found.split_transactions, found.missing, found.duplicates)
    return found, (*counts, not found.tables_equal)


def test_rows_that_a_snapshot_reads_are_not_changes():
    found, faults = full_faults(full_story())
    assert not any(faults), found.words
    assert (found.snapshot_rows, found.rows, found.transactions) == (2, 14, 9)


@pytest.mark.parametrize(
    ("wrong", "faults"),
    [
        # a row that was read is lost, is another one than the stream brought, or comes after the mark
        (lambda rows: rows.pop(1), (0, 0, 0, 0, True)),
        (lambda rows: rows[2].update(after=list(order(1, "lost").items())), (0, 0, 0, 0, True)),
        (lambda rows: rows.append(page(A, 700, 0, THERE[11], time=70)), (0, 0, 0, 0, True)),
        # it is read after its delete
        (lambda rows: rows.insert(-1, page(A, 550, 0, item(3, 1), time=70) | OF_ITEM), (0, 0, 0, 0, True)),
        # what was not read is changed after the mark
        (lambda rows: rows.insert(3, page(A, 200, 2, None, time=10)), (0, 0, 0, 0, True)),
        # it comes twice, or inside of a transaction
        (lambda rows: rows.insert(2, rows[1]), (0, 0, 0, 1, False)),
        (lambda rows: rows.insert(6, page(A, 200, 2, THERE[11], time=20)), (1, 1, 0, 0, False)),
    ],
)
def test_faults_of_a_snapshot_are_found(wrong, faults):
    rows = full_story()
    wrong(rows)
    assert full_faults(rows)[1] == faults


def test_nothing_delivered_is_everything_missing():
    report = prove(Delivered(), records(), servers())
    assert (report.rows, report.missing, report.tables_equal) == (0, 13, False)


def test_latency_counts_the_first_arrival_of_gentle_one_row_inserts():
    deliveries = Delivered()
    deliveries.add(1, envelope(story()), 21_000)
    deliveries.taken_back()
    deliveries.add(2, envelope(story()), 99_000)
    assert latency_ms(deliveries.table(), 1_000_000) == (20.0, 20.0)
    assert latency_ms(deliveries.table(), 0) == (None, None)


def test_throughput_counts_each_row_once():
    deliveries = Delivered()
    deliveries.add(1, envelope(story()), 2_000_000)
    deliveries.taken_back()
    deliveries.add(2, envelope(story()), 3_000_000)
    assert rows_per_s(deliveries.table(), 1_000_000) == 13.0
    assert rows_per_s(Delivered().table(), 1_000_000) == 0.0


FINE = {
    "shards": 4,
    "transactions": 8,
    "rows": 13,
    "rows_per_s": 1.5,
    "latency_ms_p50": 20.0,
    "latency_ms_p99": 20.0,
    "order_violations": 0,
    "split_transactions": 0,
    "missing": 0,
    "duplicates": 0,
    "tables_equal": True,
    "snapshot_rows": 0,
}


def test_a_report_is_ok_when_nothing_is_wrong():
    assert DemoReport(**FINE).ok
    assert list(DemoReport(**FINE).to_dict().items()) == list(FINE.items())


@pytest.mark.parametrize(
    "wrong",
    [
        {"order_violations": 1},
        {"split_transactions": 1},
        {"missing": 1},
        {"duplicates": 1},
        {"tables_equal": False},
    ],
)
def test_a_report_with_any_fault_is_not(wrong):
    assert not DemoReport(**FINE | wrong).ok
