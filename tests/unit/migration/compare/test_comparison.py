"""Two streams of one shard are compared wherever both have a transaction from its beginning to its end."""

from dataclasses import replace

import pytest

from canal_group.programs.migration.compare.change import Change, Column, Mark
from canal_group.programs.migration.compare.comparison import Comparison

FILE = "bin.000007"


def column(name="id", value="1", kind="bigint", **changes):
    return replace(Column(name, value, kind, -5, key=name == "id", updated=True), **changes)


def row(offset, *columns, event="INSERT", table="orders", file=FILE):
    return Change(file, offset, "shop", table, event, (), columns or (column(),))


def statement(offset, sql="CREATE TABLE t (id INT)", event="CREATE", length=0):
    return Change(FILE, offset, "shop", "t", event, sql=sql, length=length)


def ours(begin, end, *rows, file=FILE):
    """One of our transactions: rows have the offset where it begins."""
    return [
        Mark(file, begin, True),
        *(replace(each, offset=begin, file=file) for each in rows),
        Mark(file, end, False),
    ]


def theirs(begin, end, *rows, file=FILE):
    """The same as canal has it: its events are inside."""
    return [Mark(file, begin + 40, True), *rows, Mark(file, end - 31, False)]


def compared(mine, others):
    """Compare, with both streams in turns: whichever comes first, the result is the same."""
    results = []
    for turns in (1, 2):
        comparison = Comparison()
        sides = (mine, comparison.ours), (others, comparison.theirs)
        for items, take in sides if turns == 1 else sides[::-1]:
            for item in items:
                take(item)
        results.append(
            (
                comparison.transactions,
                comparison.rows,
                comparison.values,
                comparison.known,
                comparison.difference,
            )
        )
    assert results[0] == results[1]
    return results[0]


THREE = ((100, 300, row(180)), (300, 500, row(380), row(380), row(420, event="DELETE")), (500, 700, row(600)))


def test_equal_streams_are_equal_to_their_end():
    mine = [item for each in THREE for item in ours(*each)]
    others = [item for each in THREE for item in theirs(*each)]
    assert compared(mine, others) == (3, 5, 5, {}, None)


def test_canals_stream_may_be_another_groups_with_ends_at_the_next():
    mine = [item for each in THREE for item in ours(*each)]
    assert compared(mine, mine) == (3, 5, 5, {}, None)


def test_comparing_begins_where_both_streams_are_whole():
    mine = [item for each in THREE for item in ours(*each)]
    others = [item for each in THREE for item in theirs(*each)]
    # canal begins inside the second transaction; ours began before it
    assert compared(mine, others[5:])[0] == 1
    # ours begins at the second one, canal at the first
    assert compared(mine[3:], others)[0] == 2
    # canal begins with the second one as a whole
    assert compared(mine, others[3:])[0] == 2


def test_comparing_ends_where_one_stream_is_not_complete():
    mine = [item for each in THREE for item in ours(*each)]
    others = [item for each in THREE for item in theirs(*each)]
    assert compared(mine, others[:-1])[0] == 2
    assert compared(mine[:-1], others)[0] == 2


def test_canal_s_transactions_need_no_marks_if_a_later_one_follows():
    mine = [item for each in THREE for item in ours(*each)]
    bare = [item for each in THREE for item in theirs(*each) if isinstance(item, Change)]
    assert compared(mine, [theirs(*THREE[0])[0], *bare])[0] == 2


@pytest.mark.parametrize(
    ("change", "at", "name", "mine", "other"),
    [
        ({"after": (column(value="2"),)}, 380, "id", "'1'", "'2'"),
        ({"after": (column(value=None),)}, 380, "id", "'1'", "NULL"),
        ({"after": ()}, 380, "id", "'1'", "(no such column)"),
        ({"after": (column(), column("note", "x"))}, 380, "note", "(no such column)", "'x'"),
        ({"after": (column(key=False),)}, 380, "id (key)", "True", "False"),
        ({"after": (column(updated=False),)}, 380, "id (updated)", "True", "False"),
        ({"before": (column(),)}, 380, "id", "(no such column)", "'1'"),
        ({"event": "UPDATE"}, 380, "", "INSERT shop.orders", "UPDATE shop.orders"),
        ({"table": "items"}, 380, "", "INSERT shop.orders", "INSERT shop.items"),
    ],
)
def test_the_first_difference_is_named_with_its_offset(change, at, name, mine, other):
    own = [item for each in THREE for item in ours(*each)]
    others = [item for each in THREE for item in theirs(*each)]
    others[4] = replace(others[4], **change)
    difference = compared(own, others)[4]
    assert (difference.file, difference.offset, difference.column) == (FILE, at, name)
    assert (difference.ours, difference.theirs) == (mine, other)


def test_a_row_that_one_stream_lacks_is_a_difference():
    own = [item for each in THREE for item in ours(*each)]
    others = [item for each in THREE for item in theirs(*each)]
    lost = compared(own, others[:5] + others[6:])[4]
    assert (lost.ours, lost.theirs, lost.offset) == ("INSERT shop.orders", "DELETE shop.orders", 420)
    missing = compared(own, others[:6] + others[7:])[4]
    assert (missing.ours, missing.theirs) == ("DELETE shop.orders", "(nothing)")
    more = compared(own[:5] + own[6:], others)[4]
    assert more.ours == "DELETE shop.orders"
    whole = compared(own[:3] + own[8:], others)[4]
    assert (whole.ours, whole.theirs, whole.offset) == (
        "INSERT shop.orders",
        "INSERT shop.orders",
        380,
    ) or whole.ours == ("(nothing)")


def test_statements_are_compared_by_their_texts():
    mine = [*ours(100, 300, row(180)), statement(300, length=200), *ours(500, 700, row(600))]
    others = [*theirs(100, 300, row(180)), statement(350), *theirs(500, 700, row(600))]
    assert compared(mine, others) == (3, 2, 2, {}, None)
    others[3] = statement(350, sql="create table t (id INT)")
    assert compared(mine, others)[4].ours == "CREATE TABLE t (id INT)"
    others[3] = statement(350, event="QUERY")
    assert compared(mine, others)[3] == {"kinds and names of statements": 1}


def test_what_canal_delivers_besides_is_counted():
    mine = [*ours(100, 300, row(180)), *ours(300, 500, row(400)), *ours(500, 700, row(600))]
    prepared = [Mark(FILE, 320, True, xa=True), row(350), Mark(FILE, 380, False)]
    others = [
        Mark(FILE, 140, True),
        replace(statement(150, "INSERT INTO orders VALUES (1)", "QUERY")),
        row(180),
        Mark(FILE, 269, False),
        *prepared,
        *theirs(500, 700, row(600)),
    ]
    transactions, rows, _, counts, difference = compared(mine, others)
    assert (transactions, rows, difference) == (2, 2, None)
    assert counts == {
        "texts of row changes, which are not delivered here": 1,
        "rows of XA transactions, which canal delivers before their outcome": 1,
    }


def test_what_canal_delivers_again_is_counted():
    mine = [item for each in THREE for item in ours(*each)]
    first = theirs(*THREE[0])
    others = [*first, *theirs(*THREE[1]), *first, *theirs(*THREE[1]), *theirs(*THREE[2])]
    assert compared(mine, others)[3] == {"changes that canal delivered again": 4}
    assert compared(mine, others)[0] == 3


def test_files_follow_each_other_by_number():
    mine = [*ours(900, 1000, row(950), file="bin.999999"), *ours(100, 200, row(150), file="bin.1000000")]
    others = [
        *theirs(900, 1000, row(950, file="bin.999999"), file="bin.999999"),
        *theirs(100, 200, row(150, file="bin.1000000"), file="bin.1000000"),
    ]
    assert compared(mine, others) == (2, 2, 2, {}, None)


def test_values_that_are_known_to_differ_are_counted_and_the_others_not():
    mine = ours(100, 300, row(180, column("d", None, "datetime"), column("j", '{"a": 1}', "json")))
    others = theirs(
        100, 300, row(180, column("d", "0000-00-00 00:00:00", "datetime"), column("j", '{"a":1}', "json"))
    )
    assert compared(mine, others)[3:] == (
        {"zero dates, which are NULL here": 1, "how JSON is written": 1},
        None,
    )
    others = theirs(
        100, 300, row(180, column("d", None, "datetime", jdbc_type=93), column("j", '{"a":2}', "json"))
    )
    result = compared(mine, others)
    assert (result[3], result[4].column) == ({"JDBC type of datetime: 93, here -5": 1}, "j")
