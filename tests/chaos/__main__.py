"""Run chaos seeds with real processes from the command line; print one line of JSON per seed.

The exit status is 1 if a stream has a fault. The same seed and minutes give the same schedule.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

from canal_group.programs.demo.interrupts import Interrupts
from chaos.play import play
from chaos.schedule import schedule_of


def main() -> int:
    """Play the requested seeds."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first one (default: 1)")
    parser.add_argument("--seeds", type=int, default=1, help="how many, one after the other (default: 1)")
    parser.add_argument(
        "--minutes", type=float, default=2.0, help="how many minutes faults happen (default: 2)"
    )
    parser.add_argument(
        "--soak",
        type=float,
        default=0.0,
        help="play seeds until this many minutes have passed (default: --seeds)",
    )
    parser.add_argument("--schedule", action="store_true", help="print the schedule only")
    parser.add_argument(
        "--keep",
        type=Path,
        help="keep journals and logs in a folder, below the seed's number (default: of a seed that fails)",
    )
    asked = parser.parse_args()
    wrong = False
    until_s = time.monotonic() + asked.soak * 60
    for seed in count(asked.seed):
        # The limit includes starts and audits; no seed begins after it.
        if time.monotonic() >= until_s if asked.soak else seed == asked.seed + asked.seeds:
            break
        if asked.schedule:
            print(f"seed {seed}, {asked.minutes:g} minutes")
            print("\n".join(map(str, schedule_of(seed, asked.minutes))))
            continue
        kept = asked.keep / str(seed) if asked.keep is not None else None
        if kept is not None and kept.exists():
            parser.error(f"{kept} already exists: remove it, or choose another folder")
        folder = kept or Path(tempfile.mkdtemp(prefix=f"canal-group-chaos-{seed}-"))
        try:
            with Interrupts():
                outcome = play(seed, asked.minutes, _say, folder)
        except KeyboardInterrupt:
            _say("interrupted")
            if kept is None:
                shutil.rmtree(folder, ignore_errors=True)
            return 130
        print(outcome.line(), flush=True)
        if outcome.ok and kept is None:
            shutil.rmtree(folder)
        elif not outcome.ok:
            _say(f"seed {seed}: journals and logs are in {folder}")
        wrong = wrong or not outcome.ok
    return 1 if wrong else 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
