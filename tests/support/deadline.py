"""Waits for a condition, until a deadline."""

from __future__ import annotations

import threading
import time


def await_true(condition, what, deadline_s=60.0):
    """Wait until a condition holds; fail with `what` after the deadline."""
    waited = threading.Event()
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"not within {deadline_s:g} s: {what}"
        waited.wait(0.01)
