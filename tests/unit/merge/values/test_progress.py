"""Where a group stands after some more headers."""

from support.defaults import timeline_of
from support.group.builders import Source, Tx, run_of

from canal_group.merge.values.header import Flag, no_headers
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.merge.values.progress import Progress

SHARDS = ("a", "b")
START = GroupPosition({"a": Position("bin.000001", 4), "b": Position("bin.000001", 4)}, 100)


def merged(*sources):
    timeline = timeline_of(1 * len(sources))
    for shard, source in enumerate(sources):
        timeline.append(shard, source.run(0, len(source.headers)))
    for shard in range(len(sources)):
        timeline.low_watermark(shard, 10**6)
    return timeline.advance(), timeline.names.as_tuple()


def test_nothing_moves_nothing():
    start = Progress.at(START)
    assert start.past(no_headers(), (), SHARDS) == start


def test_whole_transactions_move_ack_and_end_alike():
    headers, names = merged(Source(Tx(10, (3,)), Tx(30, (2,))), Source(Tx(20, (5,)), server=1))
    after = Progress.at(START).past(headers, names, SHARDS)
    assert after.ack == after.end
    assert after.ack.sequence == 110
    a, b = after.ack.shards["a"], after.ack.shards["b"]
    assert (str(a), a.commit_us, a.key_us, str(a.gtid_set)[-4:]) == ("bin.000001:204", 30, 30, ":1-2")
    assert (str(b), b.commit_us, b.key_us, str(b.gtid_set)[-2:]) == ("bin.000001:104", 20, 20, ":1")


def test_inside_a_huge_transaction_the_end_is_ahead_of_the_ack():
    headers, names = merged(Source(Tx(10, (3, 4, 5))), Source(Tx(5, (1,)), server=1))
    inside = Progress.at(START).past(headers[:3], names, SHARDS)
    assert inside.ack.sequence == 101
    assert inside.ack.shards["a"] == START.shards["a"]
    assert inside.end.sequence == 108
    assert str(inside.end.shards["a"]) == "bin.000001:4+7 rows"
    after = inside.past(headers[3:], names, SHARDS)
    assert after.ack == after.end
    assert after.ack.sequence == 113
    assert str(after.ack.shards["a"]) == "bin.000001:104"


def test_it_does_not_matter_where_batches_are_cut():
    headers, names = merged(
        Source(Tx(10, (3, 4)), Tx(20), Tx(30, (1, 1, 1))), Source(Tx(5), Tx(25, (2, 2)), server=1)
    )
    at_once = Progress.at(START).past(headers, names, SHARDS)
    for cut in range(len(headers) + 1):
        assert (
            Progress.at(START).past(headers[:cut], names, SHARDS).past(headers[cut:], names, SHARDS)
            == at_once
        )


def test_rows_that_the_sink_dropped_are_counted():
    run = run_of(Tx(10, (5,)))
    run.headers["rows"] = 1
    run.headers["key_us"] = 10
    assert Progress.at(START).past(run.headers, run.names, SHARDS).end.sequence == 105


def test_a_late_transactions_position_keeps_both_times():
    headers, names = merged(Source(Tx(10)), Source())
    headers["key_us"], headers["flags"] = 40, headers["flags"] | Flag.LATE
    position = Progress.at(START).past(headers, names, SHARDS).ack.shards["a"]
    assert (position.commit_us, position.key_us) == (10, 40)


def test_in_a_mariadb_domain_the_server_that_wrote_last_is_the_position():
    run = run_of(Tx(1), Tx(2), Tx(3))
    headers = run.headers
    names = (*run.names, "0-7", "0-8")
    headers["gtid_source"] = [names.index(source) for source in ("0-7", "0-8", "0-7")]
    headers["gtid_number"] = [11, 12, 13]
    assert str(Progress.at(START).past(headers, names, SHARDS).ack.shards["a"].gtid_set) == "0-7-13"
    assert str(Progress.at(START).past(headers[:2], names, SHARDS).ack.shards["a"].gtid_set) == "0-8-12"


def test_a_source_without_gtids_has_none():
    run = run_of(Tx(1))
    run.headers["gtid_number"] = 0
    assert not Progress.at(START).past(run.headers, run.names, SHARDS).ack.shards["a"].gtid_set


def test_after_a_fragment_without_rows_it_is_inside_at_an_equal_position():
    headers, names = merged(Source(Tx(10, (0, 3))), Source(Tx(50, (1,)), server=1))
    first = Progress.at(START).past(headers[:1], names, SHARDS)
    assert first.inside
    assert first.ack == first.end
    assert first.past(no_headers(), names, SHARDS).inside
    assert not first.past(headers[1:2], names, SHARDS).inside


def test_positions_tell_when_their_files_were_created():
    """Of what is told; else of the position before, as long as the file and its server are the same."""
    headers, names = merged(Source(Tx(10, (3,)), Tx(30, (2, 2))), Source(Tx(20), server=1))
    known = Progress.at(START).past(headers[:3], names, SHARDS, ("one", "two"), ({"bin.000001": 7}, {}))
    assert known.end.shards["a"].rows_into_transaction
    assert [known.end.shards["a"].created_s, known.ack.shards["a"].created_s] == [7, 7]
    assert known.end.shards["b"].created_s == 0
    for server, created_s in (("one", 7), ("another", 0)):
        on = known.past(headers[3:], names, SHARDS, (server, "two"), ({}, {}))
        assert on.ack.shards["a"].created_s == created_s


def test_positions_tell_which_transaction_was_the_last():
    """Inside a transaction it is the one before."""
    headers, names = merged(Source(Tx(10, (3,)), Tx(30, (2, 2))), Source(Tx(20), server=1))
    inside = Progress.at(START).past(headers[:3], names, SHARDS, ("one", "two"))
    a, b = inside.ack.shards["a"].last, inside.ack.shards["b"].last
    assert a == inside.end.shards["a"].last
    assert (a.gtid[-2:], a.commit_us, a.server, a.file, a.begin_offset) == (":1", 10, "one", "bin.000001", 4)
    assert (b.commit_us, b.server) == (20, "two")
    after = inside.past(headers[3:], names, SHARDS, ("one", "two")).ack.shards["a"].last
    assert (after.gtid[-2:], after.commit_us, after.begin_offset) == (":2", 30, 104)


def test_both_positions_are_of_the_server_that_the_headers_are_of():
    headers, names = merged(Source(Tx(10), Tx(20, (1, 1))), Source())
    for count, server in ((1, "new"), (2, "newer")):
        after = Progress.at(START).past(headers[:count], names, SHARDS, (server, "other"))
        assert after.end.shards["a"].server == server
        assert after.ack.shards["a"].server == server
        assert after.end.shards["b"].server == ""
    inside, names = merged(Source(Tx(10, (1, 1))), Source())
    after = Progress.at(START).past(inside[:1], names, SHARDS, ("new", "other"))
    assert (after.end.shards["a"].server, after.ack.shards["a"].server) == ("new", "")


def test_a_transaction_without_a_gtid_adds_nothing_to_those_that_have_one():
    run = run_of(Tx(1), Tx(2), Tx(3))
    run.headers["gtid_number"] = [5, 0, 7]
    run.headers["gtid_source"][1] = 0
    after = Progress.at(START).past(run.headers, run.names, SHARDS).ack.shards["a"]
    assert str(after.gtid_set) == f"{run.names[-1]}:5:7"


def test_each_mariadb_domain_has_its_position():
    run = run_of(Tx(1), Tx(2))
    names = (*run.names, "0-7", "1-8")
    run.headers["gtid_source"] = [names.index("0-7"), names.index("1-8")]
    run.headers["gtid_number"] = [11, 5]
    after = Progress.at(START).past(run.headers, names, SHARDS).ack.shards["a"]
    assert str(after.gtid_set) == "0-7-11,1-8-5"
