"""What a shard says of an event that takes long, and what is said of a shard that does not answer."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from support.binlog.binlog_bytes import File
from support.defaults import files_source, ring_of, shard_wiring
from support.group.builders import Tx, run_of

from canal_group.actors.gateway.shard_actors import ShardActors
from canal_group.actors.group import follower
from canal_group.actors.group.follower import BACKLOG_BYTES, POLL_WAIT_S, Follower, Losses
from canal_group.actors.process.host import OS_HOST
from canal_group.actors.shard.intervals import ShardIntervals
from canal_group.actors.shard.report import ShardReport
from canal_group.actors.shard.shard import Shard
from canal_group.binlog.columns.table_lookup import NoLookup
from canal_group.binlog.files.binlog_files import BinlogFiles
from canal_group.binlog.files.files_reader import FilesReader
from canal_group.merge.errors import ShardUnavailable
from canal_group.merge.values.chunk import TableName
from canal_group.programs.command.status_page import print_status

DEADLINE_S = 20.0
NAME = "mysql-bin.000001"


def a_file(folder):
    file = File("10.11.6-MariaDB-log", checksum=False)
    begin = len(file.data)
    return file.query("CREATE TABLE t (a INT)").write(folder / NAME), begin


class Slow(NoLookup):
    """Takes its time with a statement, until `go_on` is set."""

    def __init__(self):
        self.busy, self.go_on = threading.Event(), threading.Event()

    def redefine(self, _query, _file, _end):
        self.busy.set()
        assert self.go_on.wait(DEADLINE_S)


@pytest.fixture
def slow():
    lookup = Slow()
    yield lookup
    lookup.go_on.set()


def test_an_event_is_named_while_it_is_read(tmp_path, slow):
    path, begin = a_file(tmp_path)
    files = BinlogFiles([path], TableName, lookup=slow)
    assert str(files.reading) == f"read up to {NAME}:4"
    thread = threading.Thread(target=lambda: list(files))
    thread.start()
    assert slow.busy.wait(DEADLINE_S)
    assert str(files.reading).startswith(f"reading QUERY (2) at {NAME}:{begin} for ")
    slow.go_on.set()
    thread.join()
    assert str(files.reading) == f"read up to {NAME}:{path.stat().st_size}"


def test_a_shard_says_what_keeps_it_busy(tmp_path, slow, monkeypatch, caplog):
    """1. a statement takes long; 2. status, reports and log name it with its place; 3. after it none does."""
    intervals = ShardIntervals(slow_s=0.01, slowest_s=0.05, watch_s=0.01)
    monkeypatch.setattr(FilesReader, "_lookup", lambda _: _Given(slow))
    _, begin = a_file(tmp_path)
    ring = ring_of("items", 1 << 16)
    source = files_source("s0", str(tmp_path))
    shard = Shard(shard_wiring(source, store=ring, silence_max_s=60.0), intervals=intervals)
    try:
        shard.open(1, 1, None)
        assert slow.busy.wait(DEADLINE_S)
        description = f"reading QUERY (2) at {NAME}:{begin} for "
        until(lambda: any(description in record.getMessage() for record in caplog.records))
        assert shard.status()["reading"].startswith(description)
        assert shard.poll(1, 1, 10, 0.0).reading.startswith(description)
        slow.go_on.set()
        until(lambda: shard.status()["reading"] is None)
    finally:
        slow.go_on.set()
        shard.close(1 << 40)


class _Given:
    """A lookup that is there already."""

    def __init__(self, lookup):
        self._lookup = lookup

    def __enter__(self):
        return self._lookup

    def __exit__(self, *_):
        pass


class FallingSilent:
    """A shard that answers one poll."""

    def __init__(self):
        self.polls = 0

    async def open(self, _epoch, _generation, position, *_stored):
        return position

    async def rpc(self):
        return self

    def poll(self, *_arguments: Any):
        self.polls += 1
        future: asyncio.Future[ShardReport] = asyncio.get_running_loop().create_future()
        if self.polls == 1:
            future.set_result(ShardReport(None, None, None, reading=f"reading QUERY at {NAME}:4 for 0.1 s"))
        return future

    def close(self):
        pass


class NoHistories:
    async def load(self, _name):
        return None


class NoSkips:
    async def of(self, _name):
        return ()

    def cached_of(self, _name):
        return ()


class Answering:
    """A shard with nothing to say, and the clock of its group."""

    def __init__(self, at_us: int):
        self.at_us, self.polled_us, self.took_us = at_us, [], 3_000
        #: how long each poll may wait, seconds, and when its answer has headers
        self.waits_s, self.with_headers = [], set[int]()
        #: bytes of the rows of each of these answers, and whether each answer says that the ring is full
        self.bytes_each, self.full = 100, False

    def now_us(self) -> int:
        return self.at_us

    async def sleep(self, seconds: float):
        self.at_us += round(seconds * 1e6)

    async def open(self, _epoch, _generation, position, *_stored):
        return position

    async def rpc(self):
        return self

    async def poll(self, _epoch, _generation, _items_max, wait_s, *_more):
        self.polled_us.append(self.at_us)
        self.waits_s.append(wait_s)
        if len(self.polled_us) > 5:
            raise ShardUnavailable("It is over.")
        self.at_us += self.took_us
        run = run_of(Tx(1, bytes_each=self.bytes_each)) if len(self.polled_us) in self.with_headers else None
        return ShardReport(run, None, None, full=self.full)

    def close(self):
        pass


def follow(shard: Answering, monkeypatch, pace_s=0.01):
    """Follow a shard until it is lost."""
    monkeypatch.setattr(follower.asyncio, "sleep", shard.sleep)
    following = Follower(
        0,
        "s0",
        shard,
        (1, 1),
        lambda _: None,
        NoHistories(),
        NoSkips(),
        shard,
        losses=Losses(),
        pace_s=pace_s,
    )
    asyncio.run(following.follow(None, ()))


@pytest.mark.parametrize(
    ("begin_us", "second_us"), [(1_000_000, 1_010_000), (1_003_000, 1_010_000), (1_009_000, 1_012_000)]
)
def test_all_shards_are_polled_at_multiples_of_the_pace(begin_us, second_us, monkeypatch):
    """Whenever each of them began; one whose answer comes after the moment is polled at once."""
    shard = Answering(begin_us)
    follow(shard, monkeypatch)
    assert shard.polled_us == [begin_us, second_us, 1_020_000, 1_030_000, 1_040_000, 1_050_000]


def test_only_a_shard_that_had_nothing_is_told_to_wait(monkeypatch):
    shard = Answering(1_000_000)
    shard.with_headers = {2, 3, 5}
    follow(shard, monkeypatch)
    assert shard.waits_s == [POLL_WAIT_S, POLL_WAIT_S, 0.0, 0.0, POLL_WAIT_S, 0.0]
    late = Answering(1_000_000)
    late.with_headers, late.took_us = {1, 2, 3, 4, 5}, 5_000
    follow(late, monkeypatch)
    assert set(late.waits_s) == {POLL_WAIT_S}, "it had none at first"


def test_a_shard_with_a_backlog_is_not_polled_at_a_long_pace(monkeypatch):
    """A report of many bytes, or of a full ring, shows one."""
    few, many, full = (Answering(1_000_000) for _ in range(3))
    few.with_headers = many.with_headers = {1, 2, 3, 4, 5}
    few.bytes_each, many.bytes_each, full.full = BACKLOG_BYTES - 1, BACKLOG_BYTES, True
    for shard in (few, many, full):
        follow(shard, monkeypatch, 0.05)
    assert few.polled_us == [1_000_000 + 50_000 * count for count in range(6)]
    assert many.polled_us == full.polled_us == [1_000_000 + 10_000 * count for count in range(6)]


def test_a_group_says_what_a_silent_shard_was_reading(caplog):
    def said():
        return [each.getMessage() for each in caplog.records if "has not answered" in each.getMessage()]

    async def main():
        follower = Follower(
            0,
            "s0",
            FallingSilent(),
            (1, 1),
            lambda _: None,
            NoHistories(),
            NoSkips(),
            OS_HOST,
            losses=Losses(),
            pace_s=0.01,
            silent_s=0.02,
        )
        following = asyncio.create_task(follower.follow(None, ()))
        await asyncio.to_thread(until, lambda: len(said()) > 1)
        following.cancel()
        await asyncio.wait([following])
        assert follower._silence.cancelled(), "it is not waited for any more"
        return follower

    follower = asyncio.run(main())
    assert f"reading QUERY at {NAME}:4 for 0.1 s" in said()[0]
    assert follower.answered_us
    assert follower.reading == f"reading QUERY at {NAME}:4 for 0.1 s"


def test_the_state_of_an_unresponsive_shard_shows_what_it_reads():
    error = ShardUnavailable("Shard s0 did not answer within 10 s.")
    last = {"answered_us": 1_767_323_045_678_000, "reading": f"read up to {NAME}:4"}
    state = ShardActors("p-", ["s0"])._answer("s0", error, last)
    assert state["state"] == "unavailable"
    assert state["error"].endswith(
        f"It answered its group last at 2026-01-02 03:04:05.678+00:00: read up to {NAME}:4."
    )
    assert ShardActors("p-", ["s0"])._answer("s0", error, {})["error"] == str(error)


def test_the_status_page_names_what_a_shard_is_reading(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    reading = f"reading QUERY at {NAME}:4711 for 12.0 s"
    shard = {
        "shard": "s0",
        "words": ["streaming"],
        "error": None,
        "position": f"{NAME}:4",
        "reading": reading,
    }
    group = {"active": False, "shards": [], "clients": []}
    print_status({"destination": "shop", "now_us": 1, "group": group, "shards": [shard]})
    assert f"  {reading}" in capsys.readouterr().out.splitlines()


def until(holds):
    """Wait until something holds."""
    deadline, pause = time.monotonic() + DEADLINE_S, threading.Event()
    while not holds():
        assert time.monotonic() < deadline
        pause.wait(0.01)
