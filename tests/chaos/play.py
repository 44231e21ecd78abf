"""Playing a seed: the world is started, its faults happen, the stream drains, and is audited."""

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

from canal_group.demo.replica import read_tables
from chaos.audit import Findings, audit
from chaos.cluster import kept_logs
from chaos.cursors import cursor_writes
from chaos.faults import Done, Faults
from chaos.history import history
from chaos.journal import deliveries_of
from chaos.schedule import Fault, schedule_of
from chaos.world import CLIENT, NotReadyError, World

#: how long what was written may take to be acknowledged once all faults are over, seconds
DRAIN_S: Final = 120.0
#: how long the writers go on after the last fault, seconds: something is to come after each
_AFTERWARDS_S: Final = 5.0
#: Ray's sockets lie deep in its folder, and their paths may have 107 characters
_SHORT: Final = "/tmp"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a seed."""

    seed: int
    #: how often each fault has hit somebody
    faults: dict[str, int]
    findings: Findings
    #: why it was given up before the stream had drained; empty: it was not
    stuck: str
    #: whole time, starting and ending included, seconds
    took_s: float

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.findings.ok and not self.stuck

    def line(self) -> str:
        """Return the outcome as one line of JSON."""
        return json.dumps({"seed": self.seed, "faults": self.faults, **self.findings.to_dict()})


def play(seed: int, minutes: float, say: Callable[[str], None], *, keep: Path | None = None) -> Outcome:
    """Play a seed, and end all that it has started, whatever happens.

    Args:
        seed: of the schedule and of what is written.
        minutes: how long faults happen.
        say: takes lines for people.
        keep: where everything that was written is kept; None: nowhere.
    """
    begun_s = time.monotonic()
    with ExitStack() as stack:
        ray_folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cg-", dir=_SHORT)))
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="canal-group-chaos-"))
        folder = Path(name) if keep is None else keep
        folder.mkdir(parents=True, exist_ok=True)
        if keep is not None:
            stack.callback(kept_logs, ray_folder, folder / "ray")
        world = stack.enter_context(World(folder, ray_folder, seed, minutes * 60 + _AFTERWARDS_S))
        say(f"seed {seed}: everything runs after {time.monotonic() - begun_s:.0f} s")
        faults = Faults(world, say)
        stuck = ""
        try:
            faults.play(schedule_of(seed, minutes), minutes * 60)
            world.until(world.drained, DRAIN_S, "all that was written to be acknowledged")
        except NotReadyError as error:
            stuck = str(error)
            say(stuck)
        say(f"seed {seed}: drained after {time.monotonic() - begun_s:.0f} s")
        world.end_consumers()
        findings = _audited(world, faults.done)
        for words in findings.words:
            say(f"wrong: {words}")
        hit = Counter(done.happening.fault for done in faults.done if done.whom)
        counts = {fault.value: hit[fault] for fault in Fault if hit[fault]}
        say(f"seed {seed}: {findings.rows} rows in {findings.batches} batches")
    return Outcome(seed, counts, findings, stuck, time.monotonic() - begun_s)


def _audited(world: World, done: list[Done]) -> Findings:
    entries = history(member.folder / "data" for member in world.ensemble.members)
    return audit(
        [delivery for folder in world.journals for delivery in deliveries_of(folder)],
        list(cursor_writes(entries, world.tree, CLIENT)),
        [writer.record for writer in world.writers],
        read_tables(world.sources, [writer.record.shard for writer in world.writers]),
        [one.over_us for one in done if one.whom],
    )
