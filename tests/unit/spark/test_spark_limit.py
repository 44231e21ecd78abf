"""Rows on the near side of a position, by offsets of one server and by GTIDs of another."""

import pyarrow as pa
import pytest

from canal_group.merge.values.gtids.gtid import parse_gtid_set
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.spark.limit import crossed, reached, within


def group(**shards):
    return GroupPosition(shards)


def at(file, offset, gtids="", server="one"):
    return Position(file, offset, parse_gtid_set(gtids), server=server)


def rows(*begins, prefix="_"):
    """Return rows of (shard, file, pos, gtid), numbered."""
    columns = dict(
        zip(("shard", "file", "pos", "gtid"), map(pa.array, zip(*begins, strict=True)), strict=True)
    )
    prefixed = {prefix + name: values for name, values in columns.items()}
    return pa.table({"id": range(len(begins)), **prefixed})


def kept(*parts, **changes):
    return within(*parts, **changes)["id"].to_pylist()


def test_rows_after_the_position_of_their_shard_are_left_out():
    limit = group(a=at("bin.000009", 100), b=at("bin.000001", 4))
    table = rows(
        ("a", "bin.000009", 90, ""),
        ("b", "bin.000001", 4, ""),
        ("a", "bin.000009", 100, ""),
        ("c", "bin.000001", 1, ""),
        ("a", "bin.000010", 4, ""),
        ("a", "bin.000008", 900, ""),
    )
    servers = {"a": "one", "b": "one", "c": "one"}
    assert kept(table, limit, servers) == [0, 5]
    envelopes = table.rename_columns([name.removeprefix("_") for name in table.schema.names])
    assert kept(envelopes, limit, servers) == [0, 5]
    assert kept(table.slice(0, 0), limit, servers) == []


@pytest.mark.parametrize(
    ("gtids", "source"),
    [
        ("0-1-7", "0-2-"),
        ("11111111-1111-1111-1111-111111111111:1-7", "11111111-1111-1111-1111-111111111111:"),
        ("11111111-1111-1111-1111-111111111111:tag:1-7", "11111111-1111-1111-1111-111111111111:tag:"),
    ],
)
def test_after_a_failover_it_is_the_gtids_that_tell(gtids, source):
    limit = group(a=at("bin.000002", 100, gtids))
    table = rows(
        ("a", "bin.000001", 4, f"{source}8"), ("a", "bin.000009", 4, f"{source}7"), ("a", "bin.000001", 4, "")
    )
    assert kept(table, limit, {"a": "two"}) == [1]
    assert kept(table, limit, {"a": "one"}) == [0, 2]


def test_a_limit_is_passed_in_one_shard_and_reached_in_all():
    limit = group(a=at("bin.000002", 100), b=at("bin.000002", 100))
    short, even = at("bin.000002", 50), at("bin.000002", 100)
    beyond = at("bin.000003", 4)
    for position, reaches, crosses in (
        (group(a=short, b=even), False, False),
        (group(a=even, b=even), True, False),
        (group(a=short, b=beyond), False, True),
        (group(a=even, b=beyond), True, True),
        (group(a=beyond), False, True),
        (group(a=even, b=even, c=short), True, True),
    ):
        assert (reached(limit, position), crossed(limit, position)) == (reaches, crosses), position
