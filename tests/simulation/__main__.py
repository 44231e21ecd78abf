"""Simulate seeds from the command line; print a line per failing seed, and the first one's story."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from functools import partial

from simulation.schedule import FAULTS, Fault
from simulation.world import Outcome, simulate

#: seeds that a process gets at a time
A_TIME = 20


def main() -> int:
    """Simulate the requested seeds and return the exit code: 0, or 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="make sim", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first one (default: 1)")
    parser.add_argument("--seeds", type=int, default=1, help="how many (default: 1)")
    parser.add_argument("--story", action="store_true", help="print the first seed's story even if it passes")
    parser.add_argument(
        "--fault",
        action="append",
        choices=[fault.name for fault in Fault],
        help="allow only this fault; may be repeated (default: all)",
    )
    parser.add_argument(
        "--more",
        action="append",
        choices=[fault.name for fault in Fault],
        help="allow this fault too; may be repeated",
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="processes (default: one per processor)"
    )
    asked = parser.parse_args()
    faults = tuple(Fault[name] for name in asked.fault) if asked.fault else FAULTS
    faults += tuple(Fault[name] for name in asked.more or ())
    begun_s = time.monotonic()
    outcomes = played(range(asked.seed, asked.seed + asked.seeds), faults, asked.jobs)
    failed = [outcome for outcome in outcomes if outcome.violation is not None]
    told = failed[:1] or (outcomes[:1] if asked.story else [])
    for outcome in told:
        print(story_of(outcome, faults))
    for outcome in failed:
        print(f"seed {outcome.seed}: {outcome.violation}")
    print(summary(outcomes, time.monotonic() - begun_s))
    return 1 if failed else 0


def played(seeds: range, faults: tuple[Fault, ...], jobs: int) -> list[Outcome]:
    """Simulate seeds on `jobs` processes; return their outcomes in the order of the seeds."""
    play = partial(simulate, faults=faults)
    if jobs <= 1 or len(seeds) <= A_TIME:
        return [play(seed) for seed in seeds]
    # Real threads run the simulated ones: a forked process would lack them.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        return pool.map(play, seeds, A_TIME)


def story_of(outcome: Outcome, faults: tuple[Fault, ...]) -> str:
    """Return the story of a seed, one line per event."""
    again = simulate(outcome.seed, faults, telling=True)
    assert again.violation == outcome.violation, "a seed does not replay"
    lines = [f"seed {outcome.seed}: {outcome.schedule}"]
    lines += [f"{now_us / 1e6:9.4f} s  {who:12} {what}" for now_us, who, what in again.story]
    return "\n".join(lines)


def summary(outcomes: list[Outcome], took_s: float) -> str:
    """Return a summary of the simulation in one line."""
    totals: dict[str, int] = {}
    for outcome in outcomes:
        for what, count in outcome.counts.items():
            totals[what] = totals.get(what, 0) + count
    longest_s = max(outcome.recovery_us for outcome in outcomes) / 1e6
    failed = sum(outcome.violation is not None for outcome in outcomes)
    counted = ", ".join(f"{count} {what}" for what, count in totals.items())
    return (
        f"{len(outcomes)} seeds, {failed} failed; {counted}; recovery_s_max={longest_s:.1f}; "
        f"{took_s:.1f} s, {len(outcomes) / took_s:.1f} seeds/s"
    )


if __name__ == "__main__":
    sys.exit(main())
