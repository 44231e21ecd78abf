"""Mutants: small faults, injected one at a time, to find those that no test detects."""
