"""Positions as JSON, and their order against that of tuples."""

import json
import pickle
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from canal_group.merge.values.gtids.gtid import parse_gtid_set
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.merge.whole import TIMES_US

GTIDS = ["", "0-1-100,1-2-5", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3:8:tag:5"]

positions = st.builds(
    Position,
    file=st.integers(1, 10**7).map(lambda number: f"mysql-bin.{number:06}"),
    offset=st.integers(4, 2**40),
    gtid_set=st.sampled_from(GTIDS).map(parse_gtid_set),
    commit_us=st.integers(0, TIMES_US.most),
    key_us=st.integers(0, TIMES_US.most),
    rows_into_transaction=st.integers(0, 2**31),
    page_rows=st.integers(0, 2**31),
)
vectors = st.dictionaries(st.text(max_size=8), positions, max_size=4)


@given(positions)
def test_a_position_comes_back_from_json(position):
    assert Position.from_dict(json.loads(json.dumps(position.to_dict()))) == position
    assert hash(Position.from_dict(position.to_dict())) == hash(position)


@given(vectors, st.integers(0, 2**62), st.randoms())
def test_a_group_position_comes_back_and_has_one_text(shards, sequence, chance):
    position = GroupPosition(shards, sequence)
    names = list(shards)
    chance.shuffle(names)
    shuffled = GroupPosition({name: shards[name] for name in names}, sequence)
    assert GroupPosition.from_json(position.to_json()) == position
    assert shuffled.to_json() == position.to_json()


@given(vectors, st.integers(0, 2**62))
def test_a_group_position_travels_as_its_text_and_is_read_when_it_is_used(shards, sequence):
    position = GroupPosition(shards, sequence, ("gone",), 7, shards)
    copy = pickle.loads(pickle.dumps(position))
    assert (copy.sequence, copy.to_json()) == (sequence, position.to_json())
    assert copy == position
    assert json.loads(position.to_json())["shards"] == {name: at.to_dict() for name, at in shards.items()}
    assert position.to_json() == json.dumps(
        json.loads(position.to_json()), sort_keys=True, separators=(",", ":")
    )
    assert replace(copy, sequence=sequence + 1).to_json() != position.to_json()


@given(st.lists(positions, max_size=6))
def test_order_is_that_of_file_number_offset_and_rows(found):
    def key(position):
        return int(position.file.split(".")[1]), position.offset, position.rows_into_transaction

    assert [key(one) for one in sorted(found)] == sorted(key(one) for one in found)
