"""A shard's fences: of two groups the newer one is obeyed, and a silent one leaves its source to another.

The shard actor's own class, reading recorded files; what it is asked is what a group, or a gateway, asks.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.deadline import await_true
from support.defaults import files_source, ring_of, shard_wiring

from canal_group.actors.shard import wiring
from canal_group.actors.shard.channel import RayShardRpc
from canal_group.actors.shard.intake import Intake
from canal_group.actors.shard.intervals import INTERVALS, ShardIntervals
from canal_group.actors.shard.report import NOTHING
from canal_group.actors.shard.shard import Shard
from canal_group.actors.store.ring import RingStore
from canal_group.actors.store.rows import Selection
from canal_group.actors.transport.row_ticket import RowTicket
from canal_group.actors.transport.rpc_client import RpcClient
from canal_group.conf.load import build_instance
from canal_group.merge.errors import FencedError, ShardUnavailable, UsageError
from canal_group.merge.order.timeline import END_OF_TIME_US
from canal_group.merge.values.lane import before_first
from canal_group.programs.demo.recorded_shards import recorded_shards

DEADLINE_S = 20.0
OLD, NEW = (1, 7), (2, 1)


@pytest.fixture
def make(tmp_path):
    for file in recorded_shards()[0].folder.glob("mysql-bin.*"):
        shutil.copy(file, tmp_path)
    made = []

    def shard(silence_max_s=60.0, intervals=INTERVALS, **changes):
        source = files_source("s0", str(tmp_path))
        ring = ring_of("items", 1 << 16)
        wired = shard_wiring(source, store=ring, silence_max_s=silence_max_s, **changes)
        made.append(Shard(wired, intervals=intervals))
        return made[-1]

    yield shard
    for each in made:
        each.close(1 << 40)


def headers(shard, term, wait_s=DEADLINE_S):
    return shard.poll(*term, 10, wait_s).run


def ticket(term, stop=1):
    return RowTicket(*term, 0, stop, Selection())


def test_a_group_of_an_older_epoch_can_do_nothing_to_a_shard(make):
    """1. the older group opens the shard and polls it; 2. the newer one opens it; 3. the older one cannot
    open, poll, free or read rows, nor close it; 4. the newer one goes on as if it had not tried.
    """
    shard = make()
    begin = shard.open(*OLD, None)
    assert len(headers(shard, OLD)) == 10
    assert list(shard._rows(ticket(OLD)))
    shard.open(*NEW, begin)
    assert len(headers(shard, NEW)) == 10
    with pytest.raises(FencedError) as fenced:
        shard.open(OLD[0], OLD[1] + 1, begin)
    assert (fenced.value.details["our_epoch"], fenced.value.details["current_epoch"]) == (1, 2)
    with pytest.raises(ShardUnavailable):
        headers(shard, OLD, 0)
    with pytest.raises(ShardUnavailable):
        list(shard._rows(ticket(OLD)))
    with pytest.raises(ShardUnavailable):
        shard.poll(*OLD, 10, 0, 5)
    shard.free(*OLD, 5)
    shard.close(OLD[0])
    assert list(shard._rows(ticket(NEW, 6))), "nothing was freed"
    assert shard.status()["state"] != "closed"
    assert len(headers(shard, NEW)) == 10


def test_an_older_generation_of_the_same_group_is_refused(make):
    shard = make()
    begin = shard.open(2, 1, None)
    assert len(headers(shard, (2, 1))) == 10
    shard.open(2, 2, begin)
    assert len(headers(shard, (2, 2))) == 10
    with pytest.raises(FencedError):
        shard.open(2, 1, begin)
    shard.free(2, 1, 5)
    with pytest.raises(ShardUnavailable):
        list(shard._rows(ticket((2, 1))))
    assert list(shard._rows(ticket((2, 2), 6))), "nothing was freed"


def test_a_shard_without_calls_from_a_group_leaves_its_source(make):
    """1. a group opens it, and is silent; 2. it has left; 3. the group's next poll says so; 4. opened again,
    it begins where it is told.
    """
    shard = make(silence_max_s=0.2)
    begin = shard.open(*NEW, None)
    deadline_s = time.monotonic() + DEADLINE_S
    while shard.status()["state"] != "closed":
        assert time.monotonic() < deadline_s
        shard._pause.wait(0.02)
    with pytest.raises(ShardUnavailable):
        headers(shard, NEW, 0)
    assert shard.open(NEW[0], NEW[1] + 1, begin) == begin


def test_another_epoch_brings_what_others_stored_unless_the_ring_goes_on(make, monkeypatch):
    shard, seen = make(), []
    monkeypatch.setattr(shard._source, "restore", lambda history, *, anew: seen.append((history, anew)))
    begin = shard.open(1, 1, None, "first")
    assert len(headers(shard, (1, 1))) == 10
    shard.open(1, 2, begin, "same epoch")
    shard.open(2, 1, begin, "where the ring begins")
    shard.close(2)
    shard.open(3, 1, begin, "others read")
    assert seen == [
        ("first", True),
        ("same epoch", False),
        ("where the ring begins", False),
        ("others read", True),
    ]


@pytest.mark.parametrize("by_poll", [False, True])
def test_a_free_that_a_rewind_overtakes_frees_nothing_of_the_newer_group(make, monkeypatch, by_poll):
    """1. A group frees what it was given; 2. before that reaches the ring, a newer group opens the shard
    where the ring begins, and reads; 3. the ring forgets nothing of what the newer one reads.
    """
    shard = make()
    begin = shard.open(*OLD, None)
    assert len(headers(shard, OLD)) == 10
    real = RingStore.ack

    def overtaken(ring, *arguments):
        monkeypatch.undo()
        shard.open(*NEW, begin)
        assert len(headers(shard, NEW)) == 10
        real(ring, *arguments)

    monkeypatch.setattr(RingStore, "ack", overtaken)
    if by_poll:
        with pytest.raises(ShardUnavailable):
            shard.poll(*OLD, 10, 0, 5)
    else:
        shard.free(*OLD, 5)
    assert list(shard._rows(ticket(NEW, 6))), "nothing was freed"


def test_a_replay_has_a_ring_of_its_own(make):
    """1. the live stream and a replay are read; 2. what one frees the other has; 3. the replay ends, and the
    live stream goes on; 4. late calls for it do nothing.
    """
    shard, replay = make(), (NEW[0], before_first(1) + 1)
    begin = shard.open(*NEW, None)
    assert len(headers(shard, NEW)) == 10
    shard.free(*NEW, 9)
    assert shard.open(*replay, begin) == begin
    assert len(headers(shard, replay)) == 10
    assert list(shard._rows(ticket(replay, 6)))
    with pytest.raises(UsageError):
        shard._rows(ticket(NEW, 6))
    await_true(
        lambda: [each["state"] for each in shard.status()["replays"]] == ["finished"], "the replay ends"
    )
    shard.close_lane(NEW[0] - 1, 1)
    shard.close_lane(NEW[0], 1)
    shard.free(*replay, 5)
    with pytest.raises(ShardUnavailable):
        headers(shard, replay)
    assert not shard.status()["replays"]
    assert len(headers(shard, NEW)) == 10


def test_replays_of_an_older_epoch_end(make):
    shard, replay = make(), (OLD[0], before_first(1) + 1)
    begin = shard.open(*OLD, None)
    shard.open(*replay, begin)
    shard.open(*NEW, begin)
    with pytest.raises(ShardUnavailable):
        headers(shard, replay)
    with pytest.raises(FencedError):
        shard.open(*replay, begin)
    assert not shard.status()["replays"]


def test_a_replay_without_polls_ends(make):
    shard, replay = make(silence_max_s=0.2, intervals=ShardIntervals(watch_s=0.02)), (2, before_first(3) + 1)
    shard.open(*replay, None)
    deadline_s = time.monotonic() + DEADLINE_S
    while shard.status()["replays"]:
        assert time.monotonic() < deadline_s
        shard._pause.wait(0.02)


def test_a_replay_that_is_being_opened_is_not_silent(make, monkeypatch):
    """1. Its source takes longer to answer than a group may be silent; 2. then it is opened and read."""
    silence_s, answers, opened = 0.5, threading.Event(), Intake.opened

    def late(intake, position):
        answers.wait(DEADLINE_S)
        opened(intake, position)

    monkeypatch.setattr(Intake, "opened", late)
    shard = make(silence_max_s=silence_s, intervals=ShardIntervals(watch_s=0.02))
    replay = (NEW[0], before_first(1) + 1)
    with ThreadPoolExecutor(1) as threads:
        opening = threads.submit(shard.open, *replay, None)
        shard._pause.wait(2 * silence_s)
        answers.set()
        assert opening.result()
        assert len(headers(shard, replay)) == 10


def test_the_last_low_watermark_of_files_is_said_again(make):
    """To the same group, which may not have heard it, and to the next one."""
    shard = make(intervals=ShardIntervals(repeat_s=0.0))
    begin = shard.open(*OLD, None)

    def low_watermarks(shard, term, count):
        deadline_s, watermarks = time.monotonic() + DEADLINE_S, []
        while len(watermarks) < count:
            assert time.monotonic() < deadline_s
            low_watermark = shard.poll(*term, 1000, 0.05).frontier_us
            watermarks += [low_watermark] if low_watermark is not None else []
        return watermarks

    assert low_watermarks(shard, OLD, 3) == [END_OF_TIME_US] * 3
    shard = make(intervals=ShardIntervals(repeat_s=3600.0))
    shard.open(*OLD, begin)
    assert low_watermarks(shard, OLD, 1) == [END_OF_TIME_US]
    shard.open(*NEW, begin)
    assert low_watermarks(shard, NEW, 1) == [END_OF_TIME_US]
    assert shard.poll(*NEW, 1000, 0).frontier_us is None, "not with each poll"


def test_a_report_tells_the_sources_clock_and_when_its_files_were_created(make):
    shard = make()
    shard.open(*OLD, None)
    report = shard.poll(*OLD, 1 << 16, DEADLINE_S)
    assert abs(report.source_us - time.time_ns() // 1000) < 5_000_000
    files = {report.run.names[index] for index in report.run.headers["file"]}
    assert files
    assert report.created.keys() == files
    assert all(created_s > 1_700_000_000 for created_s in report.created.values())


def test_a_poll_that_has_headers_is_answered_without_a_thread(make):
    """1. there are headers: the loop answers; 2. none: a thread waits for some, if it may; 3. one waits."""

    async def main():
        shard = make()
        shard.open(*OLD, None)
        rpc = RayShardRpc(await RpcClient.open(shard.rpc_address(), "Shard s0"))
        threads = []
        ask = shard.poll

        def poll(*arguments):
            threads.append(threading.current_thread().name)
            return ask(*arguments)

        shard.poll = poll
        first = await rpc.poll(*OLD, 1, DEADLINE_S, NOTHING)
        second = await rpc.poll(*OLD, 1 << 16, DEADLINE_S, NOTHING)
        assert (len(first.run), second.run.headers["sequence"][0]) == (1, 1)
        for wait_s in (0.01, 0.0):
            await rpc.poll(*OLD, 10, wait_s, NOTHING)
        waiting = asyncio.ensure_future(rpc.poll(*OLD, 10, 0.1, NOTHING))
        await asyncio.sleep(0)
        await rpc.poll(*OLD, 10, 0.0, NOTHING)
        await waiting
        rpc.close()
        return threads

    threads = asyncio.run(main())
    assert threads[1] == threads[3] == "line-s0"
    assert threads[2].startswith("poll")
    assert all(each.startswith("poll") for each in threads[4:]), "the loop does not wait for one that waits"


def test_a_shard_that_holds_back_reports_what_is_released(make):
    """1. what is read waits, and it is said; 2. it is released; 3. so it is in a replay."""
    shard, replay = make(holds_back=True), (NEW[0], before_first(1) + 1)
    begin = shard.open(*NEW, None)
    for term in (NEW, replay):
        shard.open(*term, begin)
        ring = shard._lane(*term).held.intake.ring
        await_true(lambda ring=ring: ring.first_held, "it is read")
        assert headers(shard, term, 0.0) is None
        assert "wait until the archive has mysql-bin.0" in shard.status()["held_back"]
        held, file, end = ring.first_held
        assert shard._lane(*term).describe()["ring"]["held"] == held
        ring.release({file: end})
        assert headers(shard, term).headers["end_offset"].tolist() == [end]


@pytest.mark.parametrize(
    ("store", "shard", "held_back"),
    [
        ("file", {"host": "db0", "user": "canal"}, True),
        ("mixed", {"host": "db0", "user": "canal"}, False),
        ("file", {"files": "/backup"}, False),
    ],
)
def test_with_the_store_file_shards_of_servers_hold_back(store, shard, held_back):
    shards = [{"name": "s0", **shard}]
    settings = build_instance(
        {
            "preset": "memory",
            "destination": "shop",
            "shards": shards,
            "archive": {"folder": "/archive"},
            "store": {"kind": store},
        }
    )
    assert wiring.shard_wiring(settings, settings.shards[0]).holds_back == held_back
