"""Which values canal is known to write otherwise, and which really differ."""

import pytest

from canal_group.programs.migration.compare.known import known_difference


@pytest.mark.parametrize(
    ("mysql_type", "ours", "theirs", "same"),
    [
        ("float", "0.1", "0.10000000149011612", "FLOAT"),
        ("float", "0.1", "0.10001", None),
        ("double", "1e+16", "1.0E16", "number"),
        ("double", "1", "x", None),
        ("decimal(9,2)", "1.50", "1.5", "number"),
        ("decimal(9,2)", "1.50", "1.51", None),
        ("decimal(9,2)", "1.50", "x", None),
        ("json", '{"a": [1, 2]}', '{"a":[1,2]}', "JSON"),
        ("json", '{"a": 1}', '{"a": 2}', None),
        ("json", '{"a": 1}', "{", None),
        ("datetime(6)", "2020-01-01 00:00:00", "2020-01-01 00:00:00.000000", "fractions"),
        ("datetime", "2020-01-01 00:00:00", "2020-01-01 00:00:01", None),
        ("datetime", None, "0000-00-00 00:00:00", "zero dates"),
        ("date", None, "2020-00-01", "zero dates"),
        ("date", None, "2020-10-01", None),
        ("varchar(9)", None, "0000-00-00", None),
        ("int", None, "0", None),
        ("timestamp", "2020-01-01 00:00:00", "2020-01-01 08:00:00", "time zone"),
        ("timestamp", "2020-01-01 00:00:00", "2020-01-01 00:00:01", None),
        ("timestamp", "2020-01-01 00:00:00", "2020-01-01 15:00:00", None),
        ("time(3)", "01:02:03.100", "01:02:03.1", "fractions"),
        ("time", "01:02:03", "01:02:04", None),
        ("binary(4)", "ab\0\0", "ab", "zero bytes"),
        ("binary(4)", "ab", "ac", None),
        ("enum('a','b')", "b", "2", "ENUM"),
        ("enum('a','b')", "b", "a", None),
        ("enum('a','b')", "b", "1", None),
        ("enum('a','b')", "b", "3", None),
        ("enum('a','b')", "", "0", "ENUM"),
        ("enum('1','2''x')", "2'x", "2", "ENUM"),
        ("enum('3','1')", "1", "2", "ENUM"),
        ("enum", "b", "7", "ENUM"),
        ("enum", "7", "1", None),
        (r"enum('a\\b')", "a\\\\b", "1", "ENUM"),
        ("set('a','b')", "a,b", "3", "SET"),
        ("set('a','b')", "a", "3", None),
        ("set('a','b')", "", "0", "SET"),
        ("bigint unsigned", "1", "2", None),
        ("", "1", "1.0", None),
    ],
)
def test_a_known_difference_has_a_name(mysql_type, ours, theirs, same):
    difference = known_difference(mysql_type, ours, theirs)
    assert difference is None if same is None else same in (difference or "")
