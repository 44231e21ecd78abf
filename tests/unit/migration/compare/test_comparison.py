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
                (comparison.differences or [None])[0],
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
        "canal's fault xa-before-outcome": 1,
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


def differences(mine, others, **options):
    """What differs: the column or the changes, with both values."""
    comparison = Comparison(**{"differences_max": 100, **options})
    for item in mine:
        comparison.ours(item)
    for item in others:
        comparison.theirs(item)
    return comparison, [(each.offset, each.column, each.ours, each.theirs) for each in comparison.differences]


def test_comparing_goes_on_after_differences():
    mine = [item for each in THREE for item in ours(*each)]
    others = [item for each in THREE for item in theirs(*each)]
    others[1] = row(180, column(value="2", updated=False))
    del others[5]
    others[-2] = row(600, column(value="3"))
    comparison, found = differences(mine, others)
    assert found == [
        (180, "id", "'1'", "'2'"),
        (180, "id (updated)", "True", "False"),
        (420, "", "INSERT shop.orders", "DELETE shop.orders"),
        (600, "id", "'1'", "'3'"),
    ]
    assert (comparison.ok, comparison.is_over, comparison.transactions) == (False, False, 2)


def test_comparing_ends_at_a_number_of_differences():
    mine = [item for each in THREE for item in ours(*each)]
    others = [
        replace(item, after=(column(value="2", updated=False),)) if isinstance(item, Change) else item
        for each in THREE
        for item in theirs(*each)
    ]
    comparison, found = differences(mine, others, differences_max=3)
    assert [each[:2] for each in found] == [(180, "id"), (180, "id (updated)"), (380, "id")]
    assert comparison.is_over


def test_a_transaction_with_a_row_more_differs_once():
    rows = [row(180, column(value=str(number))) for number in range(5)]
    comparison, found = differences(
        [*ours(100, 300, *rows), *ours(300, 500, row(380))],
        [*theirs(100, 300, *rows[1:]), *theirs(300, 500, row(380))],
    )
    assert found == [(180, "id", "'0'", "'1'")]
    assert (comparison.transactions, comparison.rows) == (1, 1)


def test_columns_that_are_left_out_are_not_compared():
    mine = ours(100, 300, row(180, column(), column("Note", "a"), column("more", "b")))
    others = theirs(100, 300, row(180, column(), column("Note", "x")))
    without = frozenset({"shop.orders.note", "shop.orders.more"})
    comparison, found = differences(mine, others, without=without)
    assert (comparison.ok, found) == (True, [])
    assert comparison.known == {"values of columns that --without names": 2}
    assert len(differences(mine, others, without=frozenset({"shop.items.note"}))[1]) == 2


@pytest.mark.parametrize("sql", ["DROP TABLE shop.begin", "alter table t rename to commit ;"])
def test_a_statement_that_canal_took_for_a_mark_is_its_fault(sql):
    begins = sql.endswith("begin")
    mine = [*ours(100, 300, row(180)), statement(300, sql, length=200), *ours(500, 700, row(600))]
    others = [*theirs(100, 300, row(180)), Mark(FILE, 350, begins), *theirs(500, 700, row(600))]
    comparison, found = differences(mine, others)
    assert (found, comparison.known) == ([], {"canal's fault statement-as-mark": 1})


@pytest.mark.parametrize(("more", "count"), [(0, 0), (300, 1)])
def test_a_long_statement_that_canal_lacks_is_its_fault(more, count):
    sql = f"CREATE TABLE t (id INT) COMMENT '{'x' * more}'"
    mine = [*ours(100, 300, row(180)), statement(300, sql, length=200), *ours(500, 700, row(600))]
    others = [*theirs(100, 300, row(180)), *theirs(500, 700, row(600))]
    comparison, found = differences(mine, others)
    assert comparison.known["canal's fault compressed-statement"] == count
    assert [each[2:] for each in found] == ([] if count else [(f"CREATE: {sql}", "(nothing)")])
    # One that we lack is ours.
    assert differences([*mine[:3], *mine[4:]], [*others[:3], statement(350, sql), *others[3:]])[1] != []


def test_the_same_values_under_later_names_are_canal_s_fault():
    mine = ours(100, 300, row(180, column(), column("name", "x", "varchar(9)")))
    others = theirs(100, 300, row(180, column(), column("title", "x", "varchar(9)")))
    comparison, found = differences(mine, others)
    assert (found, comparison.known) == ([], {"canal's fault current-definition": 1})
    others = theirs(100, 300, row(180, column(), column("title", "y", "varchar(9)")))
    assert [each[1] for each in differences(mine, others)[1]] == ["title", "name"]


@pytest.mark.parametrize(
    ("kind", "ours_has", "theirs_has", "count"),
    [
        ("varchar(9)", "ä中", "��", 1),
        ("text", "ä", "Ã¤", 1),
        ("text", "�", "��", 0),
        ("text", "a", "b", 0),
        ("blob", "a", "�", 0),
    ],
)
def test_a_text_in_the_connection_s_charset_is_canal_s_fault(kind, ours_has, theirs_has, count):
    comparison, found = differences(
        ours(100, 300, row(180, column("t", ours_has, kind))),
        theirs(100, 300, row(180, column("t", theirs_has, kind))),
    )
    assert comparison.known["canal's fault connection-charset"] == count
    assert len(found) == 1 - count


def test_hidden_columns_of_rds_are_left_out_by_canal():
    hidden = column("__#alibaba_rds_row_id#__", "7")
    comparison, found = differences(ours(100, 300, row(180, column(), hidden)), theirs(100, 300, row(180)))
    assert (found, list(comparison.known.values())) == ([], [1])
    assert len(differences(ours(100, 300, row(180)), theirs(100, 300, row(180, column(), hidden)))[1]) == 1
