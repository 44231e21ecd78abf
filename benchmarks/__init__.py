"""Benchmarks: `python -m benchmarks NAME [--size F] [--json]`; each one starts and stops what it needs.

A number on its own says as much about the machine as about the code. So each benchmark measures what it is
to be compared with in the same run, and reports the ratio too.
"""
