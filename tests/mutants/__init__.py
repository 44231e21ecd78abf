"""Mutants of `merge/`: small faults put in one at a time, to show which of them no test notices."""
