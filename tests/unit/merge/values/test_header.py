"""Runs of headers, cut where a shard that leaves ends."""

import pickle

from support.group.builders import Tx, chunk_of, run_of

from canal_group.merge.values.commit_time import END_OF_TIME_US


def before(until_us, *transactions):
    kept, more = run_of(*transactions).before(until_us, END_OF_TIME_US)
    return kept.headers["commit_us"].tolist(), more


def test_what_commits_from_a_time_on_is_cut_off():
    assert before(31, Tx(10), Tx(20), Tx(30)) == ([10, 20, 30], False)
    assert before(30, Tx(10), Tx(20), Tx(30)) == ([10, 20], True)
    assert before(10, Tx(10), Tx(20)) == ([], True)
    assert before(20, Tx(10), Tx(30), Tx(15)) == ([10], True)


def test_a_transaction_that_has_begun_is_not_cut():
    run = run_of(Tx(10, (1, 1, 1)), Tx(40))
    run.headers["commit_us"][1:3] = 35
    kept, more = run.before(30, END_OF_TIME_US)
    assert (len(kept), more) == (3, True)
    assert kept.names == run.names


def test_a_chunk_is_a_run_of_its_headers():
    chunk = chunk_of(Tx(10), Tx(20))
    assert (chunk.run.headers is chunk.headers, chunk.run.names) == (True, chunk.names)


def test_a_commit_time_ends_a_run_up_to_the_latest_that_is_believed():
    run = run_of(Tx(10), Tx(40), Tx(50))
    assert [len(run.before(30, believed_us)[0]) for believed_us in (39, 40, 45, 50)] == [3, 1, 1, 1]
    assert len(run.before(45, 50)[0]) == 2
    assert run.before(45, 49) == (run, False)


def test_a_run_survives_pickling():
    run = run_of(Tx(10), Tx(20, (1, 2)), first_sequence=7)
    again = pickle.loads(pickle.dumps(run))
    assert again.headers.dtype == run.headers.dtype
    assert (again.headers.tolist(), again.names, again.ddls) == (run.headers.tolist(), run.names, run.ddls)
