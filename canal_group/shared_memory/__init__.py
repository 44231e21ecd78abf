"""Shared memory: rows lent by a process of the same machine."""
