"""Play a seed: start the world, inject its faults, drain the streams, and audit them."""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaos.audit import Findings, audit, audit_archive, audit_held_rows, audit_ranges
from chaos.clocks import S_US
from chaos.cluster import kept_logs
from chaos.consumers import OF_BATCHES
from chaos.cursors import cursor_writes
from chaos.defects import defects
from chaos.ends import End
from chaos.faults import Faults
from chaos.history import history
from chaos.journal import begun_at, deliveries_of, now_us, rows_of
from chaos.lateness import Oracle
from chaos.ranges import ranges_of
from chaos.schedule import COPY, RANGE_COPY, Fault, cast_of, schedule_of
from chaos.truth import Truth
from chaos.world import NotReadyError, World
from playground.load.held import read_tables

#: counts that the line always has, even if they are 0
OPERATIONS: Final = (
    *("failovers", "purges", "clock_steps", "joins", "skips", "lost_ends", "busy_purges"),
    *("forgets", "disk_fulls", "replays", "steers"),
)
#: how long a client id that has everything may take to leave its replay, seconds
_JOIN_S: Final = 30.0
#: how long a snapshot may take that begins again at the end, seconds
_COPY_S: Final = 150.0
#: how long the writers may take for their current transactions, and the large one, seconds
_WRITERS_S: Final = 60.0
#: how long the writers continue after the last fault, seconds, so that transactions follow each fault
_AFTERWARDS_S: Final = 5.0
#: Ray's sockets are deep in its folder, and a socket path may have 107 characters
_SHORT: Final = "/tmp"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a seed."""

    seed: int
    engine: str
    #: how often each fault had a target
    faults: dict[str, int]
    #: how often each operation was completed
    operations: dict[str, int]
    findings: Findings
    #: why the seed was given up before the streams had drained; empty: it was not
    stuck: str
    #: whole time, including start and end, seconds
    took_s: float

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.findings.ok and not self.stuck

    def line(self) -> str:
        """Return the outcome as one line of JSON."""
        said = {
            "seed": self.seed,
            "engine": self.engine,
            "store": cast_of(self.seed).store,
            "moves": cast_of(self.seed).moves,
            "clients": 2 + len(cast_of(self.seed).copies),
            "faults": self.faults,
            **{name: self.operations.get(name, 0) for name in OPERATIONS},
            **self.findings.to_dict(),
            "took_s": round(self.took_s),
        }
        return json.dumps(said)


def play(seed: int, minutes: float, say: Callable[[str], None], folder: Path) -> Outcome:
    """Play a seed; end all processes that it started, even after an error.

    Args:
        seed: of the schedule and of the writers' workload.
        minutes: how long faults happen.
        say: takes lines for people.
        folder: for all journals and logs, which stay there.
    """
    begun_s = time.monotonic()
    with ExitStack() as stack:
        ray_folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cg-", dir=_SHORT)))
        folder.mkdir(parents=True, exist_ok=True)
        stack.callback(kept_logs, ray_folder, folder / "ray")
        world = stack.enter_context(World(folder, ray_folder, seed, minutes * 60 + _AFTERWARDS_S))
        start_s = time.monotonic() - begun_s
        say(f"seed {seed}: everything runs after {start_s:.0f} s")
        faults = Faults(world, say)
        stuck, quiet_us = "", 0
        try:
            faults.play(schedule_of(seed, minutes), minutes * 60)
            world.until(world.written, _WRITERS_S, "the writers to end")
            quiet_us = now_us()
            truth = _truth(world, faults, quiet_us, start_s)
            wait_s = (truth.end.until_us - quiet_us) / S_US
            world.until(world.drained, wait_s, "all that was written to be acknowledged by all")
            world.until(world.copied, _COPY_S, "all snapshots to end")
            world.until(world.joined, _JOIN_S, "all replays to join the live stream")
        except NotReadyError as error:
            stuck = str(error)
            say(stuck)
            say(f"what the servers say: {json.dumps(world.states(), default=str)}")
        say(f"seed {seed}: drained after {time.monotonic() - begun_s:.0f} s")
        world.consumers.end()
        left_out, logged = faults.operations.left_out, list(defects(sorted(folder.glob("server-*.log"))))
        findings = _audited(world, _truth(world, faults, quiet_us, start_s), faults)
        findings += Findings(lost=len(left_out), defects=len(logged), words=(*left_out, *logged))
        for words in findings.words:
            say(f"wrong: {words}")
        hit = Counter(done.happening.fault for done in faults.done if done.whom)
        counts = {fault.value: hit[fault] for fault in Fault if hit[fault]}
        say(f"seed {seed}: {findings.rows} rows in {findings.batches} batches")
    operations, engine = faults.operations.done, cast_of(seed).engine.value
    return Outcome(seed, engine, counts, operations, findings, stuck, time.monotonic() - begun_s)


def _truth(world: World, faults: Faults, quiet_us: int, start_s: float) -> Truth:
    """Return the known facts about the sources."""
    dials = {number: dial for source in world.sources for number, dial in source.dials.items()}
    records = [writer.record for writer in world.writers]
    oracle = Oracle(records, dials, faults.operations.windows)
    servers = read_tables([source.server for source in world.sources], [record.shard for record in records])
    end = End.after(quiet_us or now_us(), oracle.furthest_us, start_s)
    return Truth(records, servers, oracle, end, world.there)


def _audited(world: World, truth: Truth, faults: Faults) -> Findings:
    entries = history(member.folder / "data" for member in world.ensemble.members)
    over_us = [one.over_us for one in faults.done if one.whom]
    journals, steering = world.consumers.journals, faults.operations.steering
    clients = list(journals)
    writes = {client: list(cursor_writes(entries, world.tree, client)) for client in clients}
    deliveries = {
        client: [delivery for folder in journals[client] for delivery in deliveries_of(folder)]
        for client in clients
        if client in OF_BATCHES
    }
    offset_ranges = {client: ranges_of(journals[client]) for client in clients if client not in OF_BATCHES}
    truths = dict.fromkeys(clients, truth)
    if COPY in clients:
        stopped = COPY in steering.stopped
        truths[COPY] = truth.of_copy(begun_at(journals[COPY]), stopped=stopped)
    if RANGE_COPY in clients:
        read = offset_ranges[RANGE_COPY]
        begun = read[0].start if read else begun_at(journals[RANGE_COPY])
        truths[RANGE_COPY] = truth.of_copy(begun, stopped=False)
    findings = Findings()
    for client, batches in deliveries.items():
        findings += audit(client, batches, writes[client], truths[client], over_us, steering.calls)
    for client, ranges in offset_ranges.items():
        findings += audit_ranges(client, ranges, writes[client], truths[client])
    if world.archive is None:
        return findings
    world.archive.end_writers()
    binlogs = {name: folder for source in world.sources for name, folder in source.binlogs.items()}
    archive = world.archive.archive()
    findings += audit_archive(archive, binlogs)
    if cast_of(world.seed).store == "file":
        readings = [(one.step.at_us, one.rows()) for each in deliveries.values() for one in each]
        ranged = (reading for each in offset_ranges.values() for one in each for reading in one.readings)
        readings += [(step.at_us, rows_of(folder, step)) for folder, step in ranged]
        findings += audit_held_rows(archive, readings, truth.records, faults.operations.full)
    return findings
