"""A group of numbered rows for tests of what stands between a group and its clients, with faults at will.

Its batches are kept by the real ledger. A get takes back what was delivered after the batch that it names.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from canal_group.actors.gateway.canal.destination import CanalDestination, CanalTable
from canal_group.actors.gateway.canal.listeners import CanalServer
from canal_group.actors.gateway.canal.wiring import CanalListener
from canal_group.actors.gateway.gateway_counters import GatewayCounters
from canal_group.canal_protocol import entry_pb2, packet_pb2
from canal_group.conf.listeners.canal_settings import CanalBounds
from canal_group.merge.calls.batch import Batch
from canal_group.merge.calls.call import Call
from canal_group.merge.calls.consumers import Ack, Get, Release, Rollback, Touch, Unsubscribe
from canal_group.merge.delivery.ledger import Ledger
from canal_group.merge.errors import ServerUnavailable
from canal_group.merge.values.header import HEADER
from canal_group.merge.values.position import GroupPosition
from canal_group.merge.values.progress import Progress

OUTSTANDING_MAX = 8
LOST = ServerUnavailable("No answer came.", retry_after_s=0.0)


@dataclass
class Lease:
    """A delivery lease that holds unless a test says otherwise."""

    group: RowGroup
    #: whether it was asked for successfully
    holds: bool = False

    def check(self) -> None:
        """Raise what a test wants."""
        self.group.fail("lease")
        self.holds = not self.group.leases_end


class RowGroup:
    """Delivers the numbers from 0 up to `count`, in batches of at most `rows_max`.

    Args:
        count: of the rows.
        filtered: rows that no client wants.
        entry_bytes: of each row's entry, about.
    """

    def __init__(self, count: int, filtered: Collection[int] = (), entry_bytes: int = 0) -> None:
        self.count, self._filtered, self._padding = count, frozenset(filtered), "x" * entry_bytes
        self._ledger = Ledger(1, OUTSTANDING_MAX)
        #: by batch id: its first row, and the one after its last
        self.rows: dict[int, tuple[int, int]] = {}
        self._read = 0
        #: ids that were acknowledged, and those that gets named
        self.acknowledged: list[int] = []
        self.seen: list[int] = []
        #: what to raise next: of a call before it runs, of "lost METHOD" after it ran, of "lease" and "rows"
        self.failures: dict[str, deque[Exception]] = {}
        #: whether each batch ends a transaction, and whether clients are sent that
        self.has_ends, self.sends_ends = False, True
        #: whether a lease ends at once
        self.leases_end = False
        self._epochs = 0

    def fail(self, what: str) -> None:
        """Raise what a test wants to be raised there."""
        if failures := self.failures.get(what):
            raise failures.popleft()

    # ---- the group

    async def ask_from(self, call: Call[Any]) -> Any:
        """Answer a call of a consumer."""
        name = call.declared.name
        self.fail(name)
        answer: Any = None
        match call:
            case Get(_, _, rows_max, timeout_s, seen_id):
                answer = self._get(rows_max, seen_id or 0)
                if answer is None:
                    await asyncio.sleep(timeout_s)
            case Ack(_, _, batch_id):
                self._ack(batch_id)
            case Rollback(_, _, batch_id):
                self._rollback(batch_id)
            case Release() | Unsubscribe():
                self._rollback(None)
            case Touch():
                pass
        self.fail(f"lost {name}")
        return answer

    def _get(self, rows_max: int, seen_id: int) -> Batch | None:
        self.seen.append(seen_id)
        lost = [batch.batch_id for batch in self._ledger.outstanding if batch.batch_id > seen_id]
        if lost:
            self._rollback(lost[0])
        self._ledger.check_room()
        stop = min(self._read + rows_max, self.count)
        if self._read == stop:
            return None
        batch = _batch(self._ledger.next_id, stop - self._read)
        self._ledger.deliver(batch)
        self.rows[batch.batch_id], self._read = (self._read, stop), stop
        return batch

    def _ack(self, batch_id: int) -> None:
        self._ledger.ack(batch_id)
        self.acknowledged.append(batch_id)

    def _rollback(self, batch_id: int | None) -> None:
        taken = self._ledger.rollback(batch_id)
        if taken:
            self._read = self.rows[taken[0].batch_id][0]

    def delivery_lease(self, _client_id: str, _epoch: int, _batch_id: int) -> Lease:
        return Lease(self)

    @property
    def rows_acknowledged(self) -> list[int]:
        """The rows of what was acknowledged, in order."""
        return [row for batch_id in self.acknowledged for row in range(*self.rows[batch_id])]

    # ---- the rest of a gateway

    def subscribe(self, _call: Any, **_named: Any) -> dict[str, Any]:
        self._rollback(None)
        self._epochs += 1
        return {"epoch": self._epochs}

    def messages(
        self, _client_id: str, _epoch: int, batch_id: int, _filter: str, *, transaction_ends: bool
    ) -> tuple[memoryview, int]:
        self.fail("rows")
        wanted = [row for row in range(*self.rows[batch_id]) if row not in self._filtered]
        entries = [
            entry_pb2.Entry(storeValue=str(row).encode(), header=entry_pb2.Header(gtid=self._padding))
            for row in wanted
        ]
        if self.has_ends and transaction_ends:
            entries += [entry_pb2.Entry(entryType=entry_pb2.TRANSACTIONEND)]
        messages = packet_pb2.Messages(messages=[entry.SerializeToString() for entry in entries])
        return memoryview(messages.SerializeToString()), len(entries)

    def remember(self, *_: Any) -> None:
        pass

    forget = remember


def canal_destination(group: RowGroup, name: str = "shop", login: Any = None) -> CanalDestination:
    """Return a destination that a group answers for."""
    parts: Any = group
    counters = GatewayCounters({"canal_get"})
    return CanalDestination(name, login, group.sends_ends, 30.0, parts, parts, parts, counters)


def canal_table(*destinations: CanalDestination, **absent: Any) -> CanalTable:
    """Return the table of destinations, and of the logins of absent ones."""
    return CanalTable({each.name: each for each in destinations}, absent, GatewayCounters({"canal_get"}))


def canal_server(group: RowGroup, login: Any = None, **limits: Any) -> str:
    """Serve canal's protocol for a group until the process ends; return the address."""
    return f"127.0.0.1:{serving(canal_table(canal_destination(group, login=login)), **limits).port}"


def serving(table: CanalTable, **limits: Any) -> CanalServer:
    """Serve canal's protocol for destinations until the process ends, or it is closed."""
    return CanalServer(CanalListener("127.0.0.1", 0, None, CanalBounds(**limits)), table)


def rows_of(entries: list[entry_pb2.Entry]) -> list[int]:
    """Return the numbers of the rows in a client's entries."""
    return [int(entry.storeValue) for entry in entries]


def _batch(batch_id: int, rows: int) -> Batch:
    headers = np.zeros(1, HEADER)
    headers["rows"], headers["bytes"] = rows, rows
    nowhere = Progress.at(GroupPosition())
    return Batch(batch_id, nowhere, nowhere, headers, (), 0, 0, 0)
