"""Simulate seeds of snapshots; print a line per failing seed, and the first one's story."""

from __future__ import annotations

import sys

from simulation.seeds import parser_of, report
from simulation.snapshots.world import simulate

if __name__ == "__main__":
    sys.exit(report(simulate, parser_of("python -m simulation.snapshots", __doc__).parse_args()))
