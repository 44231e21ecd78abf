"""Confirms: how many messages are on their way, and what went wrong, between publisher and connection."""

from __future__ import annotations

import threading
import time
from typing import Any

from canal_group.merge.errors import CanalGroupError, SinkUnavailable


class Confirms:
    """The delivery tags of one channel, which count messages from 1. Thread-safe."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._is_open = False
        self._sent = self._confirmed = 0
        #: confirmed tags after `_confirmed`
        self._ahead: set[int] = set()
        self._error: CanalGroupError | None = None

    # ---- the connection

    @property
    def has_failed(self) -> bool:
        """Whether anything went wrong."""
        return self._error is not None

    def opened(self) -> None:
        """Set the state: messages may be sent."""
        with self._news:
            self._is_open = True
            self._news.notify_all()

    def fail(self, error: CanalGroupError) -> None:
        """Record an error; the first one counts."""
        with self._news:
            self._error = self._error or error
            self._news.notify_all()

    def answered(self, frame: Any) -> None:
        """Record the broker's answer to a message, or to all up to it."""
        method = frame.method
        if method.NAME != "Basic.Ack":
            self.fail(SinkUnavailable("RabbitMQ could not store a message.", retry_after_s=1.0))
            return
        with self._news:
            if method.multiple:
                self._confirmed = max(self._confirmed, method.delivery_tag)
                self._ahead = {tag for tag in self._ahead if tag > self._confirmed}
            else:
                self._ahead.add(method.delivery_tag)
            while self._confirmed + 1 in self._ahead:
                self._confirmed += 1
                self._ahead.discard(self._confirmed)
            self._news.notify_all()

    # ---- the publisher

    def wait_open(self, timeout_s: float, late: CanalGroupError) -> None:
        """Wait until messages may be sent.

        Raises:
            CanalGroupError: what went wrong, or `late` after the timeout.
        """
        with self._news:
            if not self._news.wait_for(lambda: self._is_open or self._error, timeout_s):
                raise late
            self._check()

    def reserve(self, count: int, in_flight_max: int, silence_s: float, late: CanalGroupError) -> None:
        """Count messages as sent, when no more than the bound are on their way.

        Raises:
            CanalGroupError: what went wrong, or `late` if nothing is confirmed for `silence_s`.
        """
        with self._news:
            self._wait_until_left(max(0, in_flight_max - count), silence_s, late)
            self._sent += count

    def wait_all(self, silence_s: float, late: CanalGroupError) -> None:
        """Wait until every message is confirmed; raises as `reserve`."""
        with self._news:
            self._wait_until_left(0, silence_s, late)

    def _wait_until_left(self, count: int, silence_s: float, late: CanalGroupError) -> None:
        before, deadline_s = self._confirmed, time.monotonic() + silence_s
        while self._check() and self._sent - self._confirmed > count:
            self._news.wait(max(0.0, deadline_s - time.monotonic()))
            if self._confirmed > before:
                before, deadline_s = self._confirmed, time.monotonic() + silence_s
            elif time.monotonic() >= deadline_s:
                self._check()
                raise late

    def _check(self) -> bool:
        if self._error is not None:
            raise self._error
        return True
