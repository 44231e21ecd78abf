"""Simulates seeds from the command line: one line a failing seed, and the story of the first of them."""

from __future__ import annotations

import argparse
import sys
import time

from simulation.world import Outcome, simulate


def main() -> int:
    """Simulate the seeds asked for and return the exit code: 0, or 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="make sim", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first one (default: 1)")
    parser.add_argument("--seeds", type=int, default=1, help="how many (default: 1)")
    parser.add_argument("--story", action="store_true", help="tell the story of the first seed in any case")
    asked = parser.parse_args()
    begun_s = time.monotonic()
    outcomes = [simulate(seed) for seed in range(asked.seed, asked.seed + asked.seeds)]
    failed = [outcome for outcome in outcomes if outcome.violation is not None]
    told = failed[:1] or (outcomes[:1] if asked.story else [])
    for outcome in told:
        print(story_of(outcome))
    for outcome in failed:
        print(f"seed {outcome.seed}: {outcome.violation}")
    print(summary(outcomes, time.monotonic() - begun_s))
    return 1 if failed else 0


def story_of(outcome: Outcome) -> str:
    """Return the story of a seed, a line for everything that happened."""
    again = simulate(outcome.seed, telling=True)
    assert again.violation == outcome.violation, "a seed does not replay"
    lines = [f"seed {outcome.seed}: {outcome.schedule}"]
    lines += [f"{now_us / 1e6:9.4f} s  {who:12} {what}" for now_us, who, what in again.story]
    return "\n".join(lines)


def summary(outcomes: list[Outcome], took_s: float) -> str:
    """Return what was simulated, in one line."""
    totals: dict[str, int] = {}
    for outcome in outcomes:
        for what, count in outcome.counts.items():
            totals[what] = totals.get(what, 0) + count
    longest_s = max(outcome.recovery_us for outcome in outcomes) / 1e6
    failed = sum(outcome.violation is not None for outcome in outcomes)
    counted = ", ".join(f"{count} {what}" for what, count in totals.items())
    return (
        f"{len(outcomes)} seeds, {failed} failed; {counted}; recovery_s_max={longest_s:.1f}; {took_s:.1f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
