"""Benchmarks: `python -m benchmarks NAME [--size F] [--json]`; each starts and stops what it needs.

An absolute figure depends on the machine as much as on the code. So each benchmark also measures what it is
compared with, in the same run, and reports the ratio.
"""
