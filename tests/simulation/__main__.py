"""Simulate seeds from the command line; print a line per failing seed, and the first one's story."""

from __future__ import annotations

import sys
from functools import partial

from simulation.schedule import FAULTS, Fault
from simulation.seeds import parser_of, report
from simulation.world import simulate


def main() -> int:
    """Simulate the requested seeds and return the exit code: 0, or 1 if one of them failed."""
    parser = parser_of("make sim", __doc__)
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
    asked = parser.parse_args()
    faults = tuple(Fault[name] for name in asked.fault) if asked.fault else FAULTS
    faults += tuple(Fault[name] for name in asked.more or ())
    return report(partial(simulate, faults=faults), asked)


if __name__ == "__main__":
    sys.exit(main())
