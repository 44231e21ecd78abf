"""Faults in real processes, by seed: whatever dies, pauses or is cut off, the stream is one, and complete.

`make chaos SEED=n` plays a seed that fails here; ARGS="--keep folder" keeps its journals and logs.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from integration.zookeeper_fixtures import eventually

from chaos.process import Slow, Victim
from chaos.schedule import (
    COPY,
    JOINS_MAX,
    RANGE_COPY,
    SHARDS,
    STEP_S,
    TABLE_ROWS,
    Fault,
    cast_of,
    schedule_of,
)
from playground.database.engine import Engine
from playground.database.mariadb import MariaDbServer
from playground.database.server_process import ServerMissingError

#: seeds and their minutes: one of sources, one of an archive, one of snapshots. `make soak` also plays others
PLAYED = [(17540, 0.55), (447, 1.4), (8918, 0.75)]
#: a seed with a client that begins with a snapshot, and takes batches
WITH_COPY = 3
#: what each of them plays, and the operations that it completes
OF_SOURCES = {
    Fault.FAILOVER_SOURCE: "failovers",
    Fault.PURGE_SOURCE: "purges",
    Fault.STEP_SOURCE: "clock_steps",
    Fault.LOSE_SOURCE: "lost_ends",
}
OF_ARCHIVES = {
    Fault.FORGET_SOURCE: "forgets",
    Fault.FILL_ARCHIVE: "disk_fulls",
    Fault.STOP_CONSUMERS: "replays",
    Fault.BUSY_SOURCE: "busy_purges",
    Fault.KILL_DUMP: "",
    Fault.SLOW_GROUP: "",
    Fault.SLOW_GATEWAY: "",
}
OF_COPIES = {
    Fault.STEER_COPY: "steers",
    Fault.KILL_COPY: "",
    Fault.KILL_SERVER: "",
    Fault.KILL_GATEWAY: "",
    Fault.KILL_DUMP: "",
}
OPERATIONS = dict(zip(PLAYED, (OF_SOURCES, OF_ARCHIVES, OF_COPIES), strict=True))
#: seconds that a seed may take: its faults, start, drain and audit
A_SEED_S = 420
WRONG = (
    "lost",
    "duplicated_after_dedup",
    "reordered",
    "cursor_regressions",
    "double_active",
    "late_beyond",
    "stalled",
    "range_faults",
    "archive_faults",
    "snapshot_faults",
    "defects",
)


@pytest.fixture(autouse=True, scope="module")
def mariadb_is_there() -> None:
    try:
        MariaDbServer.template()
    except ServerMissingError as error:
        pytest.skip(str(error))


@contextmanager
def chaos(*options: str) -> Iterator[subprocess.Popen[str]]:
    """Run the command in its own process, which ends the processes that it has started."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-m", "chaos", *options]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


@pytest.mark.soak
@pytest.mark.parametrize(("seed", "minutes"), PLAYED)
@pytest.mark.timeout(A_SEED_S)
def test_the_stream_survives_chaos_without_loss(seed: int, minutes: float):
    with chaos("--seed", str(seed), "--minutes", str(minutes)) as process:
        said, told = process.communicate()
        assert process.returncode == 0, told + said
    line = json.loads(said)
    assert line["seed"] == seed
    assert sum(line["faults"].values()) >= len(schedule_of(seed, minutes)) - 2, "faults met somebody"
    assert all(line[operation] for operation in OPERATIONS[seed, minutes].values() if operation)
    copies = len(cast_of(seed).copies)
    assert line["clients"] == 2 + copies
    assert line["snapshot_rows"] >= copies * SHARDS * TABLE_ROWS
    assert line["late"] <= line["late_bound"]
    assert line["range_rereads"] > 0
    assert not any(line[count] for count in WRONG)
    assert line["recovery_s_max"] > 0


@pytest.mark.soak
def test_what_it_started_ends_with_it_when_it_is_interrupted(tmp_path: Path):
    with chaos("--seed", "1", "--minutes", "1", "--keep", str(tmp_path)) as process:
        assert process.stderr is not None
        assert "everything runs" in process.stderr.readline()
        family = descendants(process.pid)
        assert len(family) > 20
        process.send_signal(signal.SIGINT)
        process.communicate()
        assert process.returncode == 130
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in family), "all processes to end")


def descendants(pid: int) -> list[int]:
    """Return the ids of a process's living descendants."""
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended since it was listed
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


def test_a_schedule_is_a_function_of_seed_and_minutes():
    assert schedule_of(7, 3.0) == schedule_of(7, 3.0)
    assert schedule_of(7, 3.0) != schedule_of(8, 3.0)
    short, long = schedule_of(WITH_COPY, 1.0), schedule_of(WITH_COPY, 60.0)
    assert long[: len(short)] == short, "a longer one goes on as the shorter one began"
    assert all(one.at_s + one.lasting_s <= 60 for one in short)
    assert {one.fault for one in long} == set(Fault), "it has an archive and a snapshot"
    assert sum(one.fault is Fault.JOIN_SHARD for one in long) == JOINS_MAX
    steps_s = [one.step_s for one in long if one.fault.verb == "step"]
    assert min(steps_s) < 0 < max(steps_s), "clocks step in both directions"
    assert all(STEP_S[0] <= abs(step_s) <= STEP_S[1] for step_s in steps_s)


def test_half_of_the_seeds_have_both_vendors_and_a_mariadb_has_the_replica():
    casts = [cast_of(seed) for seed in range(100)]
    assert 30 < sum(cast.engine is Engine.MIXED for cast in casts) < 70
    assert all(cast.paired % 2 == 0 for cast in casts if cast.engine is Engine.MIXED)


def test_the_seeds_of_the_tests_play_what_they_are_for():
    for played, operations in OPERATIONS.items():
        assert {one.fault for one in schedule_of(*played)} >= set(operations)


def test_most_seeds_have_an_archive_and_its_faults_come_first():
    casts = [cast_of(seed) for seed in range(100)]
    kinds = Counter(cast.store for cast in casts)
    assert kinds == {"memory": 20, "mixed": 40, "file": 40}
    assert 25 < sum(cast.moves for cast in casts) < 55
    for seed in range(1, 100):
        faults = [one.fault for one in schedule_of(seed, 2.0)]
        of_archive = [fault.of_archive for fault in faults]
        if not cast_of(seed).copies:
            assert of_archive[1:10:2] == [cast_of(seed).archives] * 5


def test_most_seeds_with_an_archive_have_snapshots_and_their_faults():
    counts = Counter(cast_of(seed).copies for seed in range(100) if cast_of(seed).archives)
    assert counts.keys() == {(), (COPY,), (RANGE_COPY,), (COPY, RANGE_COPY)}
    assert sum(counts.values()) == 80
    assert counts[()] < 30
    assert min(counts.values()) > 10
    for seed in range(1, 100):
        faults, copies = [one.fault for one in schedule_of(seed, 2.0)], cast_of(seed).copies
        assert [fault.of_copy for fault in faults][1:8:4] == [bool(copies)] * 2
        assert any(fault.of_copy for fault in faults) == bool(copies)
        assert Fault.FAILOVER_SOURCE not in faults or RANGE_COPY not in copies


def test_a_slow_process_moves_on_for_moments_and_runs_as_before_in_the_end():
    """It is stopped for longer than callers wait, and never for good."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        victim = Victim(process.pid)
        slow = Slow(victim)
        slow.start()
        for state in ("T", "R", "T"):
            eventually(lambda state=state: state_of(process.pid) == state, f"the process to be {state}")
        slow.end()
        victim.let_go()
        eventually(lambda: state_of(process.pid) == "R", "the process to run")
        process.kill()


def state_of(pid: int) -> str:
    """Return the state of a process as ps shows it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
