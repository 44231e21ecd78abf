"""Positions compare within one source, and are one text each."""

import json
from dataclasses import replace

import pytest

from canal_group.merge.errors import UsageError
from canal_group.merge.values.gtids.gtid import NO_GTIDS, parse_gtid_set
from canal_group.merge.values.offset_range import reaches_back, same_positions
from canal_group.merge.values.position import (
    ANY_SERVER,
    GroupPosition,
    Position,
    file_order,
    furthest,
    oldest,
)
from canal_group.merge.values.resets.last_transaction import LastTransaction

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "4e11fa47-71ca-11e1-9e33-c80aa9429562"


def test_positions_compare_by_file_number_offset_and_rows():
    ascending = [
        Position("mysql-bin.000009", 900),
        Position("mysql-bin.000010", 4),
        Position("mysql-bin.000010", 100),
        Position("mysql-bin.000010", 100, page_rows=3),
        Position("mysql-bin.000010", 100, page_rows=9),
        Position("mysql-bin.000010", 100, rows_into_transaction=7),
        Position("mysql-bin.000010", 101),
        Position("mysql-bin.999999", 4),
        Position("mysql-bin.1000000", 4),
    ]
    for index, one in enumerate(ascending):
        for other_index, other in enumerate(ascending):
            assert (one < other) == (index < other_index)
            assert (one <= other) == (index <= other_index)
            assert (one > other) == (index > other_index)
            assert (one >= other) == (index >= other_index)


def test_positions_of_two_sources_do_not_compare():
    with pytest.raises(UsageError, match=r"mysql-bin\.000001 and other-bin\.000001"):
        assert Position("mysql-bin.000001", 4) < Position("other-bin.000001", 4)


@pytest.mark.parametrize(
    "file",
    ["", "mysql-bin", "mysql-bin.", ".000001", "mysql-bin.00001x", "mysql-bin.000001\n", "mysql-bin.00٣"],
)
def test_other_names_are_not_binlog_files(file):
    with pytest.raises(UsageError, match="not a binlog file name"):
        file_order(file)


def test_a_base_name_may_have_dots():
    assert file_order("db1.example.com-bin.000012") == ("db1.example.com-bin", 12)


def test_a_position_prints_as_file_and_offset():
    assert str(Position("mysql-bin.000001", 4)) == "mysql-bin.000001:4"
    assert str(Position("mysql-bin.000001", 4, rows_into_transaction=3)) == "mysql-bin.000001:4+3 rows"


def test_a_group_position_is_one_json_text():
    position = GroupPosition(
        {
            "b": Position(
                "bin.000002", 8, parse_gtid_set("0-1-5"), 1700000000000000, 1700000000000001, server="s-1"
            ),
            "a": Position("bin.000001", 4, parse_gtid_set(f"{A}:1-3"), rows_into_transaction=3),
        },
        sequence=12,
    )
    assert position.to_json() == (
        '{"sequence":12,"shards":{'
        '"a":{"commit_us":0,"file":"bin.000001","gtid_set":"3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3",'
        '"key_us":0,"offset":4,"rows_into_transaction":3,"server":""},'
        '"b":{"commit_us":1700000000000000,"file":"bin.000002","gtid_set":"0-1-5",'
        '"key_us":1700000000000001,"offset":8,"rows_into_transaction":0,"server":"s-1"}}}'
    )
    assert GroupPosition.from_json(position.to_json()) == position
    assert GroupPosition.from_json(position.to_json().encode()) == position


def test_a_files_creation_time_is_kept_and_does_not_order_positions():
    """A cursor of before it was kept has none, and its text stays what it was."""
    known, unknown = Position("bin.000002", 8, created_s=1700000000), Position("bin.000002", 8)
    assert Position.from_dict(known.to_dict()) == known
    assert "created_s" not in unknown.to_dict()
    assert not known < unknown
    assert not unknown < known
    assert known <= unknown <= known
    assert oldest([unknown, known, Position("bin.000003", 4)]).file == "bin.000002"
    here, there = (GroupPosition({"a": each}) for each in (known, unknown))
    assert same_positions(here, there)


LAST = {"gtid": "0-1-5", "commit_us": 9, "server": "1", "file": "bin.000001", "begin_offset": 4}


def test_the_last_transaction_is_kept_and_does_not_order_positions():
    """A position that only its GTIDs describe has none: its set has no last one."""
    known = Position("bin.000002", 8, last=LastTransaction(**LAST))
    unknown = replace(known, last=None)
    assert known.to_dict()["last"] == LAST
    assert Position.from_dict(known.to_dict()) == known
    assert "last" not in unknown.to_dict()
    assert known <= unknown <= known
    assert same_positions(GroupPosition({"a": known}), GroupPosition({"a": unknown}))
    sets = parse_gtid_set(f"{A}:1-3"), parse_gtid_set(f"{A}:1-2,{B}:1")
    apart = [replace(known, gtid_set=each, server=server) for each, server in zip(sets, "ab", strict=True)]
    assert oldest(apart).last is None


def test_what_a_position_does_not_say_is_unknown():
    position = Position.from_dict({"file": "bin.000001", "offset": 4})
    assert position == Position("bin.000001", 4)
    assert position.gtid_set is NO_GTIDS


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"file": "bin.000001"},
        {"offset": 4},
        {"file": "bin.000001", "offset": "four"},
        {"file": "bin.000001", "offset": None},
        {"file": "bin.000001", "offset": 4.0},
        {"file": "bin.000001", "offset": 4.7},
        {"file": "bin.000001", "offset": "4"},
        {"file": "bin.000001", "offset": True},
        {"file": "bin.000001", "offset": -1},
        {"file": "bin.000001", "offset": 4, "commit_us": 1.5},
        {"file": "bin.000001", "offset": 4, "key_us": 1.5},
        {"file": "bin.000001", "offset": 4, "created_s": -1},
        {"file": "bin.000001", "offset": 4, "rows_into_transaction": 0.5},
        {"file": "bin.000001\n", "offset": 4},
        {"file": "bin", "offset": 4},
        {"file": "bin.000001", "offset": 4, "gtid_set": "nonsense"},
        {"file": "bin.000001", "offset": 4, "last": None},
        {"file": "bin.000001", "offset": 4, "last": {}},
        {"file": "bin.000001", "offset": 4, "last": {**LAST, "gtid": "nonsense"}},
        {"file": "bin.000001", "offset": 4, "last": {**LAST, "commit_us": 1.5}},
        {"file": "bin.000001", "offset": 4, "last": {**LAST, "begin_offset": -1}},
    ],
)
def test_other_objects_are_not_positions(value):
    with pytest.raises(UsageError):
        Position.from_dict(value)
    with pytest.raises(UsageError):
        GroupPosition.from_json(json.dumps({"sequence": 0, "shards": {"a": value}}))


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "[" * 100_000, "[]", "7", "null", "{}", '{"shards":{}}', '{"sequence":0}', b"\xff",
     '{"sequence":"x","shards":{}}', '{"sequence":1.5,"shards":{}}', '{"sequence":-1,"shards":{}}',
      '{"sequence":0,"shards":7}', '{"sequence":0,"shards":{"a":7}}'],
)  # fmt: skip
def test_other_texts_are_not_group_positions(text):
    with pytest.raises(UsageError):
        GroupPosition.from_json(text)


def test_with_shard_leaves_the_original_as_it_was():
    before = GroupPosition({"a": Position("bin.000001", 4)}, 3)
    after = before.with_shard("a", Position("bin.000002", 4)).with_shard("b", Position("bin.000001", 9))
    assert before == GroupPosition({"a": Position("bin.000001", 4)}, 3)
    assert after == GroupPosition({"a": Position("bin.000002", 4), "b": Position("bin.000001", 9)}, 3)


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (f"{A}:1:3", f"{A}:1-2", f"{A}:1"),
        (f"{A}:1-9:20-30", f"{A}:5-25", f"{A}:5-9:20-25"),
        ("0-1-2,1-1-1", "0-1-1,1-1-2", "0-1-1,1-1-1"),
        ("0-1-7,1-1-1", "0-2-7", "0-1-7"),
    ],
)
def test_the_oldest_of_two_servers_in_other_orders_is_what_both_have(one, other, shared):
    """No offset of either is before both: only GTIDs can find that."""
    first = Position("a.000001", 900, parse_gtid_set(one), commit_us=7, key_us=30, server="a")
    second = Position("b.000007", 400, parse_gtid_set(other), 5, 20, 3, server="b", created_s=9)
    for positions in ([first, second], [second, first]):
        found = oldest(positions)
        assert (found.offset, found.rows_into_transaction, found.created_s) == (0, 0, 0), (
            "it is not a position"
        )
        assert (str(found.gtid_set), found.key_us, found.commit_us) == (shared, 20, 5)
        assert not found.is_of("a")
        assert not found.is_of("b")
        assert Position.from_dict(found.to_dict()) == found


def test_the_oldest_of_two_servers_has_transactions_that_all_have():
    first = Position("a.000001", 900, parse_gtid_set(f"{A}:1-3"), key_us=10, server="a")
    second = Position("b.000007", 400, parse_gtid_set(f"{A}:1-2"), key_us=20, server="b")
    assert oldest([first, second]) == second


def test_where_one_has_no_gtids_the_oldest_has_the_smallest_key():
    first = Position("a.000001", 900, parse_gtid_set(f"{A}:1-3"), key_us=10, server="a")
    second = Position("b.000007", 400, key_us=5, server="b")
    assert oldest([first, second]) == second


def test_joins_are_part_of_a_group_position():
    joined = Position("a.000001", 4)
    position = GroupPosition({"s0": joined, "s1": joined}, 5, joined={"s1": joined})
    assert GroupPosition.from_json(position.to_json()) == position
    assert position.without({"s1"}).joined == {}
    assert not position.knows_shards_of(GroupPosition(position.shards, 5))


def test_a_server_that_is_not_known_may_be_any():
    assert [Position("a.1", 4, server=one).is_of(two) for one in ("", "x") for two in ("", "x", "y")] == [
        True,
        True,
        True,
        True,
        True,
        False,
    ]


def test_removed_shards_are_named_in_order_and_their_greatest_key_stays():
    group = GroupPosition(
        {name: Position("a.1", 4, key_us=key) for name, key in (("c", 7), ("a", 5), ("b", 9))},
        3,
        tuple("defghi"),
    )
    gone = group.without({"c", "a"})
    assert (list(gone.shards), gone.retired, gone.retired_key_us) == (["b"], tuple("acdefghi"), 7)
    assert gone.without(set()) == gone
    assert gone.without({"b"}).passed_us == 9
    assert GroupPosition.from_json(gone.to_json()) == gone
    shuffled = gone.to_json().replace('["a","c",', '["c","a",')
    assert shuffled != gone.to_json()
    assert GroupPosition.from_json(shuffled) == gone


def test_a_position_without_gtids_is_not_the_oldest_for_that():
    first = Position("a.000001", 900, parse_gtid_set(f"{A}:1-3"), key_us=10, server="a")
    second = Position("b.000007", 400, key_us=20, server="b")
    assert oldest([first, second]) == oldest([second, first]) == first


def test_the_oldest_on_one_server_is_the_first_position_for_any_keys():
    first, second = Position("a.000001", 100, key_us=20), Position("a.000001", 900, key_us=10)
    assert oldest([first, second]) == oldest([second, first]) == first


def test_an_invented_key_does_not_make_a_later_commit_the_oldest():
    """By the commit time of the other server's position, the shard would be opened after what was read."""
    honest = Position("a.000001", 900, commit_us=90, key_us=100, server="a")
    hostile = Position("b.000001", 4, commit_us=1_000, key_us=0, server="b")
    assert oldest([honest, hostile]) == oldest([hostile, honest]) == honest


def test_the_oldest_of_equal_servers_has_the_smaller_key():
    gtids = parse_gtid_set(f"{A}:1-3")
    first = Position("a.000001", 900, gtids, key_us=20, server="a")
    second = Position("b.000007", 400, gtids, key_us=10, server="b")
    assert oldest([first, second]) == oldest([second, first]) == second


def test_the_oldest_of_positions_known_by_gtids_is_within_the_others():
    """An operator chose GTIDs for two client ids: both have the file that the source had first."""
    first, second = (
        Position("a.000001", 0, parse_gtid_set(f"{A}:1-{last}"), server=ANY_SERVER) for last in (3, 9)
    )
    assert oldest([first, second]) == oldest([second, first]) == first
    assert first.within(second)
    assert not second.within(first)
    base = {"s0": second}
    assert not reaches_back(base, {"s0": first}), (
        "a log that begins at the second lacks what follows the first"
    )


def test_the_furthest_positions_are_those_that_no_other_one_has_passed():
    one, two = Position("a.000001", 100, server="a"), Position("a.000002", 9, server="a")
    assert furthest([one, two]) == furthest([two, one]) == furthest([two, two, one]) == (two,)
    beyond = Position("b.000001", 4, parse_gtid_set(f"{A}:1-9"), server="b")
    within = Position("a.000002", 9, parse_gtid_set(f"{A}:1-3"), server="a")
    assert furthest([beyond, within]) == furthest([within, beyond]) == (beyond,)
    assert set(furthest([beyond, two])) == {beyond, two}, "nothing says which is further"
    assert furthest([]) == ()


@pytest.mark.parametrize(
    "other",
    [
        {"offset": 200, "created_s": 8},
        {"last": LastTransaction("", 5, "a", "a.000001", 50)},
    ],
)
def test_positions_of_two_histories_are_both_the_furthest(other):
    one = Position("a.000001", 100, server="a", created_s=7)
    two = replace(one, **other)
    assert set(furthest([one, two])) == set(furthest([two, one])) == {one, two}


def test_what_is_further_is_so_in_every_part():
    """The greatest key of shards that left, too: keys never fall below it."""
    shared_memory = GroupPosition(
        {"a": Position("a.000001", 4), "b": Position("a.000001", 9)}, 3, retired_key_us=5
    )
    far = GroupPosition({"a": Position("a.000001", 8), "b": Position("a.000001", 7)}, 2, retired_key_us=9)
    for one, two in ((shared_memory, far), (far, shared_memory)):
        found = one.further(two)
        assert {name: position.offset for name, position in found.shards.items()} == {"a": 8, "b": 9}
        assert (found.sequence, found.retired_key_us) == (3, 9)


def test_an_error_does_not_repeat_all_of_a_malformed_position():
    for wrong in ("x" * 1_000_000, "[" + "1," * 100_000 + "1]", b"\0" * 1_000_000):
        with pytest.raises(UsageError, match="is not a group position") as caught:
            GroupPosition.from_json(wrong)
        assert len(str(caught.value)) < 2_000
    with pytest.raises(UsageError, match="is not a position") as caught:
        Position.from_dict({"file": "x" * 1_000_000})
    assert len(str(caught.value)) < 2_000


def test_positions_of_any_server_are_the_same_if_their_gtids_are_too():
    """A file and an offset say where a known server is; of any server it is the GTIDs that do."""
    gtids, others = parse_gtid_set("0-1-5"), parse_gtid_set("0-1-6")

    def same(server, one, other):
        first, second = (
            GroupPosition({"a": Position("bin.000001", 4, server=server, gtid_set=each)})
            for each in (one, other)
        )
        return same_positions(first, second)

    assert same("m-1", gtids, gtids)
    assert same("m-1", gtids, others)
    assert same(ANY_SERVER, gtids, gtids)
    assert not same(ANY_SERVER, gtids, others)
