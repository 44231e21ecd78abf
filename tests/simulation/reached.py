"""Run seeds, and walks of the group alone, and print each branch of the deciding code that none has reached.

The exit status is 1 if there is one for which `tests/simulation/unreached.toml` has no reason, or if one that
has a reason was reached; it is 2 if a seed fails. `--sample` is for few seeds, which may reach less.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

from simulation.branches import Branch, Counts
from simulation.unreached import compare, entry_of, load

ROOT = Path(__file__).parents[2]
#: the deciding code
DECIDES = ("merge/delivery", "merge/order", "merge/replay", "merge/group.py", "actors/group")
#: the tables of phases: each pair in them counts as a branch
TABLES = (("merge/delivery/phase.py", "_NEXT"), ("merge/delivery/write_phase.py", "_NEXT"))
#: seeds that a process gets at a time
A_TIME = 10
#: walks of the group alone for each seed
WALKS = 3
#: seeds of a complete run: this many reach what is not listed
SEEDS = 300


class Run(NamedTuple):
    """What some seeds have reached."""

    violations: list[str]
    #: by file
    branches: dict[str, list[Branch]]
    #: how often each was taken
    taken: dict[str, list[int]]


def main() -> int:
    """Run the requested seeds, and return the exit code."""
    parser = argparse.ArgumentParser(prog="make reached", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first one (default: 1)")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many (default: {SEEDS})")
    parser.add_argument("--sample", action="store_true", help="let seeds reach less than all")
    parser.add_argument("--rare", type=int, default=0, help="also print what was reached less often")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="processes (default: one per processor)"
    )
    asked = parser.parse_args()
    begun_s = time.monotonic()
    run = run_all(range(asked.seed, asked.seed + asked.seeds), asked.jobs)
    differences = compare(load(), run.branches, run.taken)
    for file in sorted(run.branches):
        for branch, count in zip(run.branches[file], run.taken[file], strict=True):
            if 0 < count < asked.rare:
                print(f"{branch}: {count} times")
    for title, those in (
        ("Never reached: reach it, remove it, or add a reason to unreached.toml", differences.unlisted),
        ("Listed as not reached, but reached: remove it from unreached.toml", differences.reached),
        ("Listed as not reached, but not in the code", differences.gone),
    ):
        if those:
            print(title, *(f"  {each}" for each in those), sep="\n")
    if differences.unlisted and not asked.sample:
        print("Entries for the list:", *map(entry_of, differences.unlisted), sep="\n")
    for violation in run.violations:
        print(violation)
    counts = [count for counts in run.taken.values() for count in counts]
    print(
        f"{sum(map(bool, counts))} of {len(counts)} branches reached by {asked.seeds} seeds, "
        f"{len(differences.unlisted)} of the others not listed; {time.monotonic() - begun_s:.0f} s"
    )
    if run.violations:
        return 2
    unlisted = differences.unlisted if not asked.sample else ()
    return 1 if unlisted or differences.reached or differences.gone else 0


def run_all(seeds: range, jobs: int) -> Run:
    """Run seeds on `jobs` processes."""
    parts = [seeds[index : index + A_TIME] for index in range(0, len(seeds), A_TIME)]
    whole = Run([], {}, {})
    # Each process compiles the deciding code with counts, so none may have imported it.
    with multiprocessing.get_context("spawn").Pool(min(jobs, len(parts))) as pool:
        for part in pool.imap_unordered(run_some, parts):
            whole.violations.extend(part.violations)
            whole.branches.update(part.branches)
            for file, taken in part.taken.items():
                before = whole.taken.get(file, [0] * len(taken))
                whole.taken[file] = [one + other for one, other in zip(before, taken, strict=True)]
    return whole


def run_some(seeds: range) -> Run:
    """Run seeds in this process, which imports the deciding code now."""
    counts = _counts()
    from simulation.mutations import MUTATIONS
    from simulation.walk import walk
    from simulation.world import simulate

    # A schedule of few kinds of faults has more of each than one of all kinds.
    kinds = list(dict.fromkeys(faults for _, faults in MUTATIONS))
    outcomes = [simulate(seed) for seed in seeds]
    outcomes += [simulate(seed, kinds[seed % len(kinds)]) for seed in seeds]
    violations = [f"seed {each.seed}: {each.violation}" for each in outcomes if each.violation is not None]
    for number in range(WALKS * seeds.start, WALKS * seeds.stop):
        try:
            walk(number)
        except AssertionError as error:
            violations.append(f"walk {number}: {error}")
    return Run(violations, counts.branches, counts.collect())


def _counts() -> Counts:
    for finder in sys.meta_path:
        if isinstance(finder, Counts):
            return finder
    counts = Counts(ROOT / "canal_group", DECIDES, "canal_group.")
    sys.meta_path.insert(0, counts)
    for file, name in TABLES:
        counts.count_table(file, name)
    return counts


if __name__ == "__main__":
    sys.exit(main())
