"""Inject small faults into `merge/` and what applies DDL, one at a time; print those that no test detects.

The exit status is 1 if fewer than 90 % of the mutants are detected, or if one survives for which
`tests/mutants/survivors.toml` has no reason; it is 2 if the tests fail without a fault.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from pathlib import Path

import pytest

from mutants.campaign import Campaign
from mutants.survivors import compare, entries, load
from mutants.targets import IMPORTED, PACKAGES, ROOT, files_of, suite_of
from mutants.verdict import NOTICED, Fate, not_noticed, score, table

#: required share of the mutants that are run
NOTICED_PERCENT_MIN = 90


def main() -> int:
    """Run the requested mutants."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument(
        "modules", nargs="*", help=f"files and folders of {', '.join(PACKAGES)} (default: all)"
    )
    parser.add_argument("--sample", type=int, help="how many randomly chosen mutants (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="seed of that choice (default: 1)")
    parser.add_argument(
        "--minutes", type=float, default=60, help="start no mutant after this many minutes (default: 60)"
    )
    parser.add_argument("--json", type=Path, help="write the outcome of each mutant to a file")
    parser.add_argument(
        "--again", type=Path, help="run only the mutants that such a file lists as undetected"
    )
    parser.add_argument("--deselect", action="append", default=[], help="a test that fails without a fault")
    asked = parser.parse_args()
    try:
        files = files_of(map(Path, asked.modules))
    except ValueError as error:
        parser.error(str(error))
    for file in files:
        importlib.import_module(
            ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        )
    only = asked.again and not_noticed(json.loads(asked.again.read_text()))
    listed, begun_s = load(), time.monotonic()
    campaign = Campaign(IMPORTED, files, only, asked.sample, asked.seed, 60 * asked.minutes, _say)
    options = [
        "-qq",
        "--no-summary",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:faulthandler",
        "--capture=no",
        "--timeout=0",
    ]
    # Hypothesis is already imported, so its assertions are not rewritten; they are not ours.
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning", f"--rootdir={ROOT}"]
    options += [f"--deselect={test}" for test in asked.deselect]
    pytest.main([*options, *map(str, suite_of(files))], plugins=[campaign])
    if campaign.broken or not campaign.verdicts:
        print("These tests fail before any fault is injected:", *campaign.broken, sep="\n  ")
        return 2
    order = {mutant.key: index for index, mutant in enumerate(campaign.possible)}
    verdicts = sorted(campaign.verdicts, key=lambda verdict: order[verdict.key])
    if asked.json is not None:
        asked.json.write_text(json.dumps([verdict.json() for verdict in verdicts], indent=1) + "\n")
    differences = compare(
        listed,
        survived=[each.key for each in verdicts if each.fate in (Fate.SURVIVED, Fate.UNTESTED)],
        killed={each.key for each in verdicts if each.fate in NOTICED},
        possible={mutant.key for mutant in campaign.possible},
        files={str(file.relative_to(IMPORTED)) for file in files},
    )
    for title, keys in (
        ("Survived without a reason: kill it, or add a reason to survivors.toml", differences.unlisted),
        ("Listed as a survivor, but killed: remove it from survivors.toml", differences.killed),
        ("Listed as a survivor, but no longer in the code", differences.gone),
    ):
        if keys:
            print(title, *(f"  {key}" for key in keys), sep="\n")
    if differences.unlisted:
        print("Entries for the list:", entries(differences.unlisted), sep="\n")
    print(*table(verdicts), sep="\n")
    noticed, run = score(verdicts)
    print(f"{noticed}/{run} killed in {time.monotonic() - begun_s:.0f} s, seed {asked.seed}")
    return 1 if differences.unlisted or 100 * noticed < NOTICED_PERCENT_MIN * run else 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
