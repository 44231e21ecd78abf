"""Simulate seeds of snapshots; print a line per failing seed, and the first one's story."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter

from simulation.snapshots.world import Outcome, simulate

#: seeds that a process gets at a time
A_TIME = 20


def main() -> int:
    """Simulate the requested seeds and return the exit code: 0, or 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m simulation.snapshots", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first one (default: 1)")
    parser.add_argument("--seeds", type=int, default=1, help="how many (default: 1)")
    parser.add_argument("--story", action="store_true", help="print the first seed's story even if it passes")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="processes (default: one per processor)"
    )
    asked = parser.parse_args()
    begun_s, used_s = time.monotonic(), time.process_time()
    seeds = range(asked.seed, asked.seed + asked.seeds)
    outcomes = played(seeds, asked.jobs)
    failed = [outcome for outcome in outcomes if outcome.violation is not None]
    for outcome in failed[:1] or (outcomes[:1] if asked.story else []):
        again = simulate(outcome.seed, telling=True)
        assert again.violation == outcome.violation, f"a seed does not replay: {again.violation}"
        for now_us, who, what in again.story:
            print(f"{now_us / 1e6:9.4f} s  {who:10} {what}")
    for outcome in failed:
        print(f"seed {outcome.seed}: {outcome.violation}")
    totals = Counter[str]()
    for outcome in outcomes:
        totals.update(outcome.counts)
    longest_s = max(outcome.recovery_us for outcome in outcomes) / 1e6
    took_s, used_s = time.monotonic() - begun_s, time.process_time() - used_s
    counted = ", ".join(f"{count} {what}" for what, count in totals.items())
    print(
        f"{len(outcomes)} seeds, {len(failed)} failed; {counted}; recovery_s_max={longest_s:.1f}; "
        f"{took_s:.1f} s, {len(outcomes) / took_s:.1f} seeds/s; processor {used_s:.1f} s"
    )
    return 1 if failed else 0


def played(seeds: range, jobs: int) -> list[Outcome]:
    """Simulate seeds on `jobs` processes; return their outcomes in the order of the seeds."""
    if jobs <= 1 or len(seeds) <= A_TIME:
        return [simulate(seed) for seed in seeds]
    # Real threads run the simulated ones: a forked process would lack them.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        return pool.map(simulate, seeds, A_TIME)


if __name__ == "__main__":
    sys.exit(main())
