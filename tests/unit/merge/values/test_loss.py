"""Losses: how they are counted, joined, bounded and written."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canal_group.merge.errors import PositionPurged, UsageError
from canal_group.merge.values.gtids.gtid import parse_gtid_set
from canal_group.merge.values.loss import (
    GTIDS_CHARACTERS_MAX,
    KEPT_MAX,
    Purged,
    from_dicts,
    gtids_between,
    to_dicts,
    with_loss,
)
from canal_group.merge.values.position import Position

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def at(offset, gtids="", commit_us=0):
    return Position("bin.000001", offset, gtid_set=parse_gtid_set(gtids), commit_us=commit_us)


@pytest.mark.parametrize(
    ("after", "until", "count"),
    [
        (f"{UUID}:1-5", f"{UUID}:1-9", 4),
        (f"{UUID}:1-3:7-8", f"{UUID}:1-9", 4),
        ("", f"{UUID}:1-9", 9),
        ("0-1-5,1-1-7", "0-2-9,1-1-7", 4),
        ("", "0-1-5", 5),
        ("0-1-5", "", None),
    ],
)
def test_missed_gtids_are_counted(after, until, count):
    assert gtids_between(parse_gtid_set(after), parse_gtid_set(until)) == count


@given(
    moves=st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.integers(1, 9)), max_size=50),
)
def test_the_last_losses_of_each_shard_are_kept_and_all_are_numbered(moves):
    losses, offsets = (), {"a": 4, "b": 4}
    for time_us, (shard, read, lost) in enumerate(moves):
        after = offsets[shard] + read
        offsets[shard] = after + lost
        losses = with_loss(losses, shard, at(after), at(offsets[shard]), time_us)
    for shard in "ab":
        count = sum(each[0] == shard for each in moves)
        numbers = [loss.number for loss in losses if loss.shard == shard]
        assert numbers == list(range(max(1, count - KEPT_MAX + 1), count + 1))
    assert from_dicts(json.loads(json.dumps(to_dicts(losses)))) == losses


def test_a_loss_that_follows_another_one_extends_it():
    one = with_loss((), "a", at(4, "0-1-1", commit_us=30), at(10, "0-1-3"), 50)
    (both,) = with_loss(one, "a", at(10, "0-1-3"), at(20, "0-1-7"), 60)
    assert (both.number, both.after.offset, both.until.offset, both.gtids) == (1, 4, 20, 6)
    assert both.between_us == 30


def test_a_long_gtid_set_is_left_out_but_counted():
    many = ":".join(str(number) for number in range(1, GTIDS_CHARACTERS_MAX, 2))
    (loss,) = with_loss((), "a", at(4), at(10, f"{UUID}:{many}"), 1)
    assert loss.gtids == GTIDS_CHARACTERS_MAX // 2
    assert not loss.until.gtid_set


@pytest.mark.parametrize("value", [{}, {"shard": "a", "number": -1}, [], "x"])
def test_a_malformed_loss_is_refused(value):
    with pytest.raises(UsageError):
        from_dicts([value])


def test_a_source_that_does_not_say_what_it_has_is_not_passed_over():
    assert Purged.EARLIEST.goes_on_at(PositionPurged("It is gone.")) is None
