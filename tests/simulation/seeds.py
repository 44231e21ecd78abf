"""Seeds from a first one on: how they are played by several processes, and what is printed of them."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

#: seeds that a process gets at a time
A_TIME = 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a seed."""

    seed: int
    #: what did not hold; None: all did
    violation: str | None
    #: time from the last fault until everything was delivered
    recovery_us: int
    #: how often each thing happened
    counts: dict[str, int]
    story: list[tuple[int, str, str]] = field(repr=False, default_factory=list)


class Play(Protocol):
    """Plays a seed."""

    def __call__(self, seed: int, *, telling: bool = False) -> Outcome:
        """Return the outcome; `telling`: with its story."""


def parser_of(program: str, description: str | None) -> argparse.ArgumentParser:
    """Return the options that say which seeds are played, and on how many processes."""
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("--seed", type=int, default=1, help="the first one (default: 1)")
    parser.add_argument("--seeds", type=int, default=1, help="how many (default: 1)")
    parser.add_argument("--story", action="store_true", help="print the first seed's story even if it passes")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="processes (default: one per processor)"
    )
    return parser


def report(play: Play, asked: argparse.Namespace) -> int:
    """Play the requested seeds, print what became of them, and return the exit code: 1 if one failed."""
    begun_s = time.monotonic()
    outcomes = _played(play, range(asked.seed, asked.seed + asked.seeds), asked.jobs)
    failed = [outcome for outcome in outcomes if outcome.violation is not None]
    for outcome in failed[:1] or (outcomes[:1] if asked.story else []):
        again = play(outcome.seed, telling=True)
        assert again.violation == outcome.violation, f"a seed does not replay: {again.violation}"
        for now_us, who, what in again.story:
            print(f"{now_us / 1e6:9.4f} s  {who:12} {what}")
    for outcome in failed:
        print(f"seed {outcome.seed}: {outcome.violation}")
    print(_summary(outcomes, len(failed), time.monotonic() - begun_s))
    return 1 if failed else 0


def _played(play: Play, seeds: range, jobs: int) -> list[Outcome]:
    """Play seeds on `jobs` processes; return their outcomes in the order of the seeds."""
    if jobs <= 1 or len(seeds) <= A_TIME:
        return [play(seed) for seed in seeds]
    # Real threads run the simulated ones: a forked process would lack them.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        return pool.map(play, seeds, A_TIME)


def _summary(outcomes: Sequence[Outcome], failed: int, took_s: float) -> str:
    totals = Counter[str]()
    for outcome in outcomes:
        totals.update(outcome.counts)
    longest_s = max(outcome.recovery_us for outcome in outcomes) / 1e6
    counted = ", ".join(f"{count} {what}" for what, count in totals.items())
    return (
        f"{len(outcomes)} seeds, {failed} failed; {counted}; recovery_s_max={longest_s:.1f}; "
        f"{took_s:.1f} s, {len(outcomes) / took_s:.1f} seeds/s"
    )
