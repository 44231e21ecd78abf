"""Starts: what each text means, and a sentence for each that means nothing."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canal_group.merge.errors import CanalGroupError, ConfigError, UsageError
from canal_group.merge.values.gtids.gtid import parse_gtid_set
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.merge.values.start import (
    After,
    At,
    Holding,
    InFile,
    is_in_files,
    parse_shard_start,
    parse_start,
    time_of,
)

NOW = 1_800_000_000_000_000
SECOND = 1_000_000


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("-90s", At(NOW - 90 * SECOND)),
        ("-30m", At(NOW - 1800 * SECOND)),
        ("-2h", At(NOW - 7200 * SECOND)),
        ("-1d", At(NOW - 86_400 * SECOND)),
        ("2026-01-31T12:00:00Z", At(1_769_860_800 * SECOND)),
        ("2026-01-31T12:00:00.000001+01:00", At(1_769_857_200 * SECOND + 1)),
        ("1960-01-01T00:00:00Z", At(0)),
    ],
)
def test_words_and_times_mean_the_same_to_clients_and_shards(text, start):
    assert parse_start(text, NOW) == start == parse_shard_start(text, NOW)


def test_a_group_position_is_a_start_of_a_client():
    position = GroupPosition({"a": Position("binlog.000003", 4)}, 7)
    assert parse_start(position.to_json(), NOW) == position
    with pytest.raises(UsageError, match="not a group position"):
        parse_start("{}", NOW)
    with pytest.raises(ConfigError):
        parse_shard_start(position.to_json(), NOW)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("binlog.000003:4", InFile("binlog.000003", 4)),
        ("my.log-bin.1000000:18446744073", InFile("my.log-bin.1000000", 18446744073)),
        ("binlog.000003:~4711", Holding("binlog.000003", 4711)),
        ("0-1-42,1-2-7", After(parse_gtid_set("0-1-42,1-2-7"))),
        (
            "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5",
            After(parse_gtid_set("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5")),
        ),
    ],
)
def test_offsets_of_one_server_are_starts_of_a_shard_only(text, start):
    assert parse_shard_start(text, NOW) == start
    with pytest.raises(ConfigError, match="is not a start"):
        parse_start(text, NOW)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "'' is not a start."),
        ("Earliest", "'Earliest' is not a start."),
        ("2h", "'2h' is not a start."),
        ("-2w", "'-2w' is not a start."),
        ("yesterday", "'yesterday' is not a start."),
        ("2026-01-31T12:00:00", "The start 2026-01-31T12:00:00 is a time without a zone."),
        ("2126-01-31T12:00:00Z", "The start 2126-01-31T12:00:00Z is in the future."),
        ("binlog.000003", "'binlog.000003' is not a start."),
        ("binlog.000003:3", "binlog.000003:3 is inside the first 4 bytes of a binlog file."),
        ("binlog.000003:~3", "binlog.000003:~3 is inside the first 4 bytes of a binlog file."),
        ("binlog.000003:~", "'binlog.000003:~' is not a start."),
        ("binlog.000003:x", "'binlog.000003:x' is not a start."),
    ],
)
def test_a_malformed_start_of_a_shard_is_refused_with_a_sentence(text, sentence):
    with pytest.raises(ConfigError) as told:
        parse_shard_start(text, NOW)
    assert told.value.message == sentence
    assert told.value.hint


@pytest.mark.parametrize("name", ["x', 4), SLEEP(9) -- .000001", "../x.000001", "a\nb.000001", "a\\b.000001"])
def test_a_start_in_a_file_of_a_strange_name_is_refused(name):
    for mark in ("", "~"):
        with pytest.raises(ConfigError, match="is not a binlog file name"):
            parse_shard_start(f"{name}:{mark}4", NOW)


@given(st.text(max_size=40))
def test_any_text_is_a_start_or_refused(text):
    for parse in (parse_start, parse_shard_start):
        with suppress(CanalGroupError):
            parse(text, NOW)


@given(st.integers(0, 10**9 - 1), st.sampled_from("smhd"))
def test_a_time_before_now_is_that_long_before(count, unit):
    seconds = {"s": 1, "m": 60, "h": 3600, "d": 86_400}[unit]
    assert time_of(f"-{count}{unit}", NOW) == NOW - count * seconds * SECOND


@pytest.mark.parametrize("text", ["earliest", "binlog.000003:4", "-2h", "2026-01-31T12:00:00Z"])
def test_files_know_their_beginning_their_times_and_their_offsets(text):
    assert is_in_files(parse_shard_start(text, NOW))


@pytest.mark.parametrize("text", ["latest", "0-1-42", "binlog.000003:~4711"])
def test_only_a_server_knows_its_end_and_its_gtid_sets(text):
    assert not is_in_files(parse_shard_start(text, NOW))
