"""Every small timeline: up to 3 shards, 2 transactions each, 3 commit times, in every order of arrival.

A shard's story is a tuple of steps; a step is what it reports at once. Steps of one shard keep their order,
steps of several shards come in every interleaving. After each step the timeline is advanced.

What must hold, always:

1. a shard's headers go out in its order, each once, nothing is lost once everything is promised past;
2. keys never decrease in what goes out, and are `max(commit, shard's last key, shard's low_watermark)`;
3. a transaction in fragments is not split by another;
4. LATE is flagged exactly where a commit is before its shard's promise; commit times are untouched;
5. what goes out at once is ordered by key, then by shard;
6. nothing goes out above the watermark but the rest of an open transaction; nothing that may go out stays.
"""

from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest
from support.defaults import timeline_of
from support.group.builders import Source, Tx

from canal_group.merge.values.header import Flag

TIMES = (10, 20, 30)
END = 10**6


@cache
def interleavings(*lengths):
    """Every order of steps of several shards, as tuples of shards."""
    if not any(lengths):
        return [()]
    found = []
    for shard, left in enumerate(lengths):
        if left:
            rest = (*lengths[:shard], left - 1, *lengths[shard + 1 :])
            found += [(shard, *order) for order in interleavings(*rest)]
    return found


def whole(*times):
    """Transactions in one piece, each reported alone."""
    return tuple(("tx", (time,), (1,)) for time in times)


def broken(time):
    """A transaction in two fragments, each reported alone."""
    return (("part", time, 0), ("part", time, 1))


def low_watermark(time):
    return (("low_watermark", time),)


ONE = [whole(time) for time in TIMES]
TWO = [whole(first, second) for first, second in product(TIMES, TIMES)]
RUNS = [(("tx", (first, second), (1, 1)),) for first, second in product(TIMES, TIMES)]
LATE = [low_watermark(20) + whole(time) for time in TIMES] + [low_watermark(30) + broken(10)]
LATER = [whole(first) + low_watermark(20) + whole(second) for first, second in product(TIMES, TIMES)]
BROKEN = [broken(time) for time in TIMES]
BROKEN_TWO = [broken(first) + whole(second) for first, second in product(TIMES, (10, 30))]
BROKEN_LAST = [whole(first) + broken(second) for first, second in product((10, 20), (10, 20))]
IDLE = low_watermark(20)

TWO_SHARDS = [IDLE, *ONE, *TWO, *RUNS, *LATE, *LATER, *BROKEN, *BROKEN_TWO, *BROKEN_LAST]
THREE_SHARDS = [IDLE, ONE[0], ONE[1], TWO[2], TWO[3], LATE[0], BROKEN[0], BROKEN[1]]


@cache
def source_of(story):
    """The source of a story, and for each step the headers it brings: (begin, end), or its promise."""
    transactions, steps, at = [], [], 0
    for step in story:
        match step:
            case ("tx", times, _):
                transactions += [Tx(time) for time in times]
                steps.append((at, at + len(times), None))
                at += len(times)
            case ("part", time, number):
                if number == 0:
                    transactions.append(Tx(time, (1, 1)))
                steps.append((at, at + 1, None))
                at += 1
            case ("low_watermark", time):
                steps.append((at, at, time))
    source = Source(*transactions)
    runs = [source.run(begin, end, begin) if end > begin else None for begin, end, _ in steps]
    return source, list(zip(runs, (time for _, _, time in steps), strict=True))


@cache
def expected_of(story):
    """(commit, key, late) of each header of a story, by the rules; the shard's final promise comes after."""
    last = promised = 0
    found, open_key, open_late = [], 0, False
    for step in story:
        match step:
            case ("low_watermark", time):
                promised = max(promised, time)
            case ("tx", times, _):
                for time in times:
                    last = max(last, time, promised)
                    found.append((time, last, time < promised))
            case ("part", time, number):
                if number == 0:
                    open_key, open_late = max(last, time, promised), time < promised
                    last = open_key
                found.append((time, open_key, open_late))
    return found


def play(stories, order):
    """Run one schedule; return the timeline and what went out, checking rules 5 and 6."""
    timeline = timeline_of(1 * len(stories))
    told = [source_of(story) for story in stories]
    at = [0] * len(stories)
    out = []

    def advance():
        was_open = timeline._open is not None
        merged = timeline.advance()
        out.append(merged)
        ends = np.flatnonzero(merged["flags"] & Flag.END)
        fresh = merged[ends[0] + 1 if len(ends) else len(merged) :] if was_open else merged
        order = list(zip(fresh["key_us"].tolist(), fresh["shard"].tolist(), strict=True))
        assert order == sorted(order), "equal keys are ordered by shard"
        if timeline._open is None:
            assert not len(merged) or int(merged["key_us"][-1]) <= timeline.watermark_us
            assert not len(timeline._pending.take(timeline.watermark_us)), "it could go out and did not"
        else:
            assert not timeline._rest, "it could go out and did not"
            waiting = [run for runs in timeline._pending._ranks for run in runs]
            assert not any((run["shard"] == timeline._open).any() for run in waiting)

    for shard in order:
        run, time = told[shard][1][at[shard]]
        at[shard] += 1
        if run is not None:
            timeline.append(shard, run)
        if time is not None:
            timeline.low_watermark(shard, time)
        advance()
    for shard in range(len(stories)):
        timeline.low_watermark(shard, END)
    advance()
    assert timeline.pending == 0
    return timeline, np.concatenate(out)


def check(stories, order):
    timeline, out = play(stories, order)
    columns = (out[name].tolist() for name in ("shard", "sequence", "commit_us", "key_us", "flags"))
    rows = list(zip(*columns, strict=True))
    keys = out["key_us"]
    assert (keys[1:] >= keys[:-1]).all(), "keys decrease"
    late = 0
    for shard, story in enumerate(stories):
        mine = [row for row in rows if row[0] == shard]
        expected = expected_of(story)
        assert [row[1] for row in mine] == list(range(len(expected))), "order, or each once"
        assert [(row[2], row[3], bool(row[4] & Flag.LATE)) for row in mine] == expected
        late += sum(bool(row[4] & Flag.LATE and row[4] & Flag.BEGIN) for row in mine)
    assert timeline.counters.late == late
    for first, second in pairwise(rows):
        if not first[4] & Flag.END:
            assert first[0] == second[0], "a transaction is split by another"
            assert not second[4] & Flag.BEGIN


def schedules(stories):
    return interleavings(*(len(story) for story in stories))


@pytest.mark.parametrize("first", range(len(TWO_SHARDS)))
def test_every_timeline_of_two_shards(first):
    for second in TWO_SHARDS:
        stories = (TWO_SHARDS[first], second)
        for order in schedules(stories):
            check(stories, order)


@pytest.mark.parametrize("first", range(len(THREE_SHARDS)))
def test_every_timeline_of_three_shards(first):
    for rest in product(THREE_SHARDS, repeat=2):
        stories = (THREE_SHARDS[first], *rest)
        for order in schedules(stories):
            check(stories, order)
