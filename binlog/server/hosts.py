"""Hosts: the servers of one shard, of which one is read, and when another one is.

The first is the primary, the others replicate it. A server that fails several times in a row is left for the
next one of the list, and after the last comes the first: only one is read at a time, and there is no way back
as long as the one that is read answers. What a server has to have before it can be read is decided where a
stream begins, see `start`: the next one is tried if it lacks transactions that were read.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import pymysql

from canal_group.binlog.server.source import SourceAddress, query
from canal_group.merge.errors import DataError, SourceUnavailable

_log = logging.getLogger(__name__)


class Detecting(Protocol):
    """How a server that fails is noticed; the words are canal's."""

    @property
    def sql(self) -> str:
        """A statement that a server must execute."""

    @property
    def interval_s(self) -> float:
        """Seconds between two executions."""

    @property
    def threshold(self) -> int:
        """Failures in a row after which another server is read."""


@dataclass(frozen=True, slots=True)
class _Switch:
    from_host: str
    to_host: str
    reason: str
    #: seconds since 1970, for people
    at_s: float
    #: when the first failure was noticed, `time.monotonic`
    failed_at_s: float


class _Check:
    """Lets a server execute a statement when the time has come."""

    def __init__(
        self, address: SourceAddress, control: pymysql.Connection[Any], detecting: Detecting
    ) -> None:
        self._address, self._control, self._detecting = address, control, detecting
        #: when it has to execute the next one, `time.monotonic`
        self._due_s = 0.0

    def __call__(self) -> None:
        """Execute it, if it is due.

        Raises:
            SourceUnavailable: it fails.
        """
        if time.monotonic() < self._due_s:
            return
        sql = self._detecting.sql
        try:
            query(self._address, self._control, sql)
        except DataError as error:
            raise SourceUnavailable(
                f"The source of shard {self._address.name} at {self._address} does not execute {sql!r} "
                f"(reader.detecting.sql): {error.message}",
                shard=self._address.name,
            ) from error
        self._due_s = time.monotonic() + self._detecting.interval_s


class SourceHosts:
    """The servers of one shard. Safe to use from several threads.

    Args:
        addresses: the primary, then its replicas.
        detecting: when a server counts as failed.
    """

    def __init__(self, addresses: Sequence[SourceAddress], detecting: Detecting) -> None:
        self.detecting = detecting
        self._addresses = list(addresses)
        self._lock = threading.Lock()
        self._at = 0
        self._failures = 0
        self._failed_at_s = 0.0
        self._switches = 0
        self._last: _Switch | None = None
        #: how the last server that was not that of the position continued, see `continued`
        self._continued: dict[str, Any] = {}
        #: seconds without rows at the last switch; None: no switch so far, or the switch has not ended
        self._gap_s: float | None = None

    @property
    def current(self) -> SourceAddress:
        """The server to read."""
        with self._lock:
            return self._addresses[self._at]

    @property
    def several(self) -> bool:
        """Whether there is another server to go to."""
        return len(self._addresses) > 1

    @property
    def reports(self) -> bool:
        """Whether there is something to describe."""
        return self.several or bool(self._continued)

    def continued(self, by: Literal["gtid", "time"], dropped: int = 0, repeated: int = 0) -> None:
        """Note how a stream continued on another server than that of its position.

        Args:
            by: by GTIDs, exactly, or by commit time.
            dropped: transactions that were found again, and are not delivered a second time.
            repeated: transactions that are delivered, perhaps a second time.
        """
        with self._lock:
            self._continued = {"by": by, "dropped": dropped, "possibly_repeated": repeated}

    def checks(self, address: SourceAddress, control: pymysql.Connection[Any]) -> Callable[[], None]:
        """Return a callable that executes a statement at intervals, first when it is called first.

        It raises SourceUnavailable if that fails. It does nothing if there is no other server to go to.

        Args:
            address: the server.
            control: an open connection to it.
        """
        return _Check(address, control, self.detecting) if self.several else lambda: None

    def failed(self, address: SourceAddress, reason: str) -> bool:
        """Count a failure; return whether another server than this one is to be read now.

        Args:
            address: the server that failed.
            reason: why, a sentence.
        """
        with self._lock:
            if address != self._addresses[self._at]:
                return True
            if not self._failures:
                self._failed_at_s = time.monotonic()
            self._failures += 1
            if not self.several or self._failures < self.detecting.threshold:
                return False
            self._failures = 0
            self._at = (self._at + 1) % len(self._addresses)
            self._switches += 1
            # A switch that reached no server is a part of the gap.
            ended = self._last is None or self._gap_s is not None
            began_s = self._failed_at_s if ended or self._last is None else self._last.failed_at_s
            after = self._addresses[self._at]
            self._last = _Switch(address.location, after.location, reason, time.time(), began_s)
            self._gap_s = None
        _log.warning(
            "switches from %s to %s: %s",
            address.location,
            after.location,
            reason,
            extra={"shard": address.name},
        )
        return True

    def reached(self, address: SourceAddress) -> None:
        """Note that a server has sent something, and executes statements."""
        with self._lock:
            if address == self._addresses[self._at]:
                self._failures = 0
                if self._last is not None and self._gap_s is None:
                    self._gap_s = time.monotonic() - self._last.failed_at_s

    def describe(self) -> dict[str, Any]:
        """Return the servers, and the last switch, as a JSON object."""
        with self._lock:
            last = self._last
            return {
                "hosts": [each.location for each in self._addresses],
                "switches": self._switches,
                "continued": self._continued or None,
                "last": None
                if last is None
                else {
                    "from": last.from_host,
                    "to": last.to_host,
                    "reason": last.reason,
                    "at_us": int(last.at_s * 1e6),
                    "gap_s": None if self._gap_s is None else round(self._gap_s, 3),
                },
            }
