"""GTID sets in both servers' text forms."""

import pickle

import numpy as np
import pytest

from canal_group.merge.errors import UsageError
from canal_group.merge.values.gtids.gtid import NO_GTIDS, MariaDbGtidSet, MySqlGtidSet, parse_gtid_set

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "9b3c7f20-0001-11ee-8000-0242ac120002"


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        (" \n ", ""),
        (f"{A}:1", f"{A}:1"),
        (f"{A}:1-3:8", f"{A}:1-3:8"),
        (f"{A.upper()}:1-3", f"{A}:1-3"),
        (f"{B}:1-9,\n{A}:5", f"{A}:5,{B}:1-9"),
        (f"{A}:8:1-3:2-5:6", f"{A}:1-6:8"),
        (f"{A}:5-5", f"{A}:5"),
        (f"{A}:1-3,{A}:4", f"{A}:1-4"),
        (f"{A}:1-3:8,{A}:tag:5", f"{A}:1-3:8:tag:5"),
        (f"{A}:Orders:5-7:2:_b:1:1-3", f"{A}:_b:1-3:orders:2:5-7"),
        (f"{A}:t:1:t:3", f"{A}:t:1:3"),
        (f"{A}:1-9223372036854775806", f"{A}:1-9223372036854775806"),
        (f"{A}:1,,{B}:1,", f"{A}:1,{B}:1"),
        ("0-1-100", "0-1-100"),
        ("1-2-5, 0-1-100", "0-1-100,1-2-5"),
        ("10-1-7,9-1-7", "9-1-7,10-1-7"),
    ],
)
def test_text_is_read_and_printed_as_the_server_does(text, printed):
    assert str(parse_gtid_set(text)) == printed


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        A,
        f"{A}:",
        f"{A}:0",
        f"{A}:0-3",
        f"{A}:5-3",
        f"{A}:1-",
        f"{A}:1-2-3",
        f"{A}:tag",
        f"{A}:tag:other:1",
        f"{A}:1:tag",
        f"{A}:9tag:1",
        f"{A}:{'t' * 33}:1",
        f"{A}:9223372036854775807",
        f"{A[:-1]}:1",
        f"{A}:1,0-1-100",
        "0-1-100,0-2-101",
        "0-1-0",
        "0-1-",
        "0-1",
        "0-1-2-3",
    ],
)
def test_other_text_is_refused_with_what_was_expected(text):
    with pytest.raises(UsageError) as caught:
        parse_gtid_set(text)
    assert "0-1-100" in caught.value.hint


def test_sets_have_the_flavour_of_their_text():
    assert isinstance(parse_gtid_set(f"{A}:1"), MySqlGtidSet)
    assert isinstance(parse_gtid_set("0-1-1"), MariaDbGtidSet)
    assert parse_gtid_set("") == NO_GTIDS


def test_only_the_empty_set_is_false():
    assert not NO_GTIDS
    assert parse_gtid_set(f"{A}:1")
    assert parse_gtid_set("0-1-1")


def test_equal_sets_are_equal_keys_and_survive_pickling():
    for text, same in [(f"{A}:1-3", f"{A}:1:2-3"), ("0-1-1,1-1-1", "1-1-1,0-1-1"), ("", " ")]:
        one, two = parse_gtid_set(text), parse_gtid_set(same)
        assert one == two
        assert hash(one) == hash(two)
        assert pickle.loads(pickle.dumps(one)) == one


def test_mysql_add_fills_and_joins_intervals():
    known = parse_gtid_set(f"{A}:1-3:8")
    assert str(known.add(A, [4])) == f"{A}:1-4:8"
    assert str(known.add(A, np.array([7, 6, 4, 5], dtype=np.int64))) == f"{A}:1-8"
    assert str(known.add(A, [10, 2])) == f"{A}:1-3:8:10"
    assert str(known.add(A, [9])) == f"{A}:1-3:8-9"
    assert str(known.add(A, [9, 10, 11])) == f"{A}:1-3:8-11"
    assert str(known.add(A, [9, 11])) == f"{A}:1-3:8-9:11"
    assert str(known.add(A, [9, 4, 10])) == f"{A}:1-4:8-10", "they do not grow"
    assert str(known.add(f"{A}:Tag", [5, 6])) == f"{A}:1-3:8:tag:5-6"
    assert str(known.add(B, [1])) == f"{A}:1-3:8,{B}:1"
    assert str(known) == f"{A}:1-3:8"


def test_mysql_add_takes_a_million_numbers_at_once():
    numbers = np.arange(1, 1_000_001, dtype=np.int64)
    assert str(NO_GTIDS.add(A, numbers[::-1])) == f"{A}:1-1000000"


def test_mariadb_add_replaces_the_domains_entry_with_the_last_number():
    known = parse_gtid_set("0-1-100,1-2-5")
    assert str(known.add("0-3", [101, 102])) == "0-3-102,1-2-5"
    assert str(known.add("0-3", [102, 101])) == "0-3-101,1-2-5"
    assert str(known.add("7-1", [1])) == "0-1-100,1-2-5,7-1-1"


def test_the_empty_set_becomes_the_flavour_of_what_is_added():
    assert NO_GTIDS.add(A, [1]) == parse_gtid_set(f"{A}:1")
    assert NO_GTIDS.add(f"{A}:t", [1]) == parse_gtid_set(f"{A}:t:1")
    assert NO_GTIDS.add("0-1", [1]) == parse_gtid_set("0-1-1")


@pytest.mark.parametrize("source", [A, f"{A}:t", "0-1"])
def test_zero_means_no_gtid_and_adds_nothing(source):
    assert NO_GTIDS.add(source, [0, 0]) == NO_GTIDS
    assert NO_GTIDS.add(source, []) == NO_GTIDS
    assert NO_GTIDS.add(source, [0, 3]) == NO_GTIDS.add(source, [3])


@pytest.mark.parametrize("known", ["", f"{A}:1", "0-1-1"])
@pytest.mark.parametrize(
    ("source", "numbers"),
    [
        ("x", [1]),
        ("", [1]),
        (f"{A}:", [1]),
        (f"{A}:1", [1]),
        ("0-1-1", [1]),
        (A, [-1]),
        ("0-1", [-1]),
        (A, [-1, 5]),
        (A, [1, 2**63 - 1]),
    ],
)
def test_add_refuses_other_sources_and_numbers(known, source, numbers):
    with pytest.raises(UsageError):
        parse_gtid_set(known).add(source, numbers)


def test_add_refuses_the_other_flavour():
    with pytest.raises(UsageError):
        parse_gtid_set(f"{A}:1").add("0-1", [1])
    with pytest.raises(UsageError):
        parse_gtid_set("0-1-1").add(A, [1])


@pytest.mark.parametrize(
    ("outer", "inner", "contained"),
    [
        ("", "", True),
        (f"{A}:1", "", True),
        ("", f"{A}:1", False),
        ("0-1-1", "", True),
        ("", "0-1-1", False),
        (f"{A}:1-5", f"{A}:2-5", True),
        (f"{A}:1-5", f"{A}:2-6", False),
        (f"{A}:2-5", f"{A}:1-2", False),
        (f"{A}:1-3:5-7", f"{A}:2:6-7", True),
        (f"{A}:1-3:5-7", f"{A}:3-5", False),
        (f"{A}:1-5", f"{B}:1", False),
        (f"{A}:1-5", f"{A}:t:1", False),
        (f"{A}:1-5", f"{A}:2:4-9", False),
        (f"{A}:1-5", f"{A}:2,{B}:1", False),
        (f"{A}:1-5", "0-1-1", False),
        ("0-1-5", f"{A}:1", False),
        ("0-1-5", "0-2-5", True),
        ("0-1-5", "0-1-6", False),
        ("0-1-5", "1-1-1", False),
        ("0-1-5,1-1-1", "1-1-1", True),
        ("0-1-5", "0-1-1,1-1-1", False),
    ],
)
def test_contains(outer, inner, contained):
    assert parse_gtid_set(outer).contains(parse_gtid_set(inner)) is contained


@pytest.mark.parametrize(
    ("one", "two", "both"),
    [
        ("", "", ""),
        (f"{A}:1", "", f"{A}:1"),
        (f"{A}:1-3:9", f"{A}:4:8,{B}:1", f"{A}:1-4:8-9,{B}:1"),
        (f"{A}:1", f"{A}:t:1", f"{A}:1:t:1"),
        ("0-1-1", "", "0-1-1"),
        ("0-1-5,1-1-1", "0-2-4,2-1-1", "0-1-5,1-1-1,2-1-1"),
        ("0-1-5", "0-2-5", "0-2-5"),
        ("0-1-9223372036854775806", "", "0-1-9223372036854775806"),
    ],
)
def test_union(one, two, both):
    assert str(parse_gtid_set(one).union(parse_gtid_set(two))) == both
    assert str(parse_gtid_set(two).union(parse_gtid_set(one))) == both


def test_union_refuses_two_kinds_of_server():
    mysql, mariadb = parse_gtid_set(f"{A}:1"), parse_gtid_set("0-1-1")
    for one, two in [(mysql, mariadb), (mariadb, mysql)]:
        with pytest.raises(UsageError):
            one.union(two)


MYSQL = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"


@pytest.mark.parametrize("mine", [MYSQL, "0-1-7", ""])
@pytest.mark.parametrize("theirs", [MYSQL.replace("3e11", "4e11"), "5-1-7", ""])
def test_sets_that_have_nothing_in_common_have_no_gtids_in_common(mine, theirs):
    """Of two sources or domains, of two kinds of server, and of none."""
    common = parse_gtid_set(mine).intersection(parse_gtid_set(theirs))
    assert common is NO_GTIDS


def test_what_two_sets_have_in_common_is_what_both_have():
    mine = parse_gtid_set(MYSQL.replace("1-5", "1-5:8-9:12"))
    theirs = parse_gtid_set(MYSQL.replace("1-5", "3-5:6-8:20-21"))
    assert str(mine.intersection(theirs)) == MYSQL.replace("1-5", "3-5:8")
    assert str(parse_gtid_set("0-1-7,1-1-4").intersection(parse_gtid_set("0-1-9,2-1-4"))) == "0-1-7"
