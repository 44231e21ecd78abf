"""The DDL gate: between the timeline and the log, it holds headers until decisions on DDL are durable.

Without a policy every header passes. With one, headers wait from the first statement that was decided now,
until the store has the decision. What waits is bounded by the rings, which free nothing of it. A rewind
forgets what waits; what was decided stays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import Any

import numpy as np

from canal_group.merge.instructions import SaveDdl
from canal_group.merge.order.ddl.policy import DdlPolicy, Origin, withhold
from canal_group.merge.order.ddl.rounds import Shards
from canal_group.merge.values.ddl_mark import DdlMark
from canal_group.merge.values.header import Flag, HeaderRun, Headers, no_headers
from canal_group.merge.values.position import Position

#: what returns the shards' positions before headers, and after them
Positions = Callable[[Headers], tuple[Callable[[str], Position], Callable[[str], Position]]]


class _Write(Enum):
    #: none is under way
    IDLE = auto()
    #: one is under way
    UNDER_WAY = auto()
    #: the last one was refused, or may have been; the next waits for a tick
    REFUSED = auto()


class DdlGate:
    """Passes headers on, see the module."""

    def __init__(self) -> None:
        #: None: every statement is delivered
        self.policy: DdlPolicy | None = None
        #: by shard_index and sequence: what came in and did not go out of the timeline yet
        self._marks: dict[tuple[int, int], DdlMark] = {}
        #: the version that has to be durable, and the headers that wait for it
        self._waiting: deque[tuple[int, Headers]] = deque()
        #: the version that the store has
        self._saved = 0
        self._write = _Write.IDLE

    @property
    def waiting(self) -> list[Headers]:
        """Headers that wait for the store, in merged order."""
        return [headers for _, headers in self._waiting]

    @property
    def durable(self) -> bool:
        """Whether the store has all that was decided."""
        return self.policy is None or self.policy.version == self._saved

    def rewind(self) -> None:
        """Forget what waits: the sources are read again."""
        self._marks.clear()
        self._waiting.clear()
        if self.policy is not None:
            self.policy.forget_tables()

    def came_in(self, shard: int, run: HeaderRun) -> None:
        """Note the marks of headers that the timeline takes."""
        if self.policy is None or not len(run):
            return
        last = int(run.headers["sequence"][-1])
        self._marks |= {(shard, number): mark for number, mark in run.ddls.items() if number <= last}

    def pass_on(
        self,
        headers: Headers,
        names: Callable[[], tuple[str, ...]],
        origins: Callable[[], Sequence[Origin]],
        shards: Callable[[], Shards],
        positions: Positions,
    ) -> Headers:
        """Take headers that went out of the timeline; return those that may go into the log.

        Args:
            headers: (n,) HEADER in merged order; their flags are changed where statements are withheld.
            names: what their indexes point to.
            origins: by shard_index.
            shards: the shards, as they are now.
            positions: returns `before` and `after` of `DdlPolicy.decide`, for headers that follow the last.
        """
        policy = self.policy
        if policy is None or not len(headers):
            return headers
        marks = self._marks_of(headers)
        if marks:
            withheld = policy.decide(headers, marks, names(), origins(), shards(), *positions(headers))
            withhold(headers, withheld)
        if policy.version == self._saved and not self._waiting:
            return headers
        self._waiting.append((policy.version, headers))
        return no_headers()

    def _marks_of(self, headers: Headers) -> dict[int, DdlMark]:
        if not self._marks:
            return {}
        found: dict[int, DdlMark] = {}
        for at in np.flatnonzero(headers["flags"] & Flag.DDL).tolist():
            mark = self._marks.pop((int(headers["shard"][at]), int(headers["sequence"][at])), None)
            if mark is not None:
                found[at] = mark
        return found

    # ---- the store ---------------------------------------------------------------------------------------

    def write(self) -> Iterable[SaveDdl]:
        """Return the write that is due; at most one is under way, a refused one waits for a tick."""
        policy = self.policy
        if policy is None or self._write is not _Write.IDLE or policy.version == self._saved:
            return ()
        self._write = _Write.UNDER_WAY
        return (SaveDdl(policy.version, policy.to_text()),)

    def saved(self, version: int) -> Headers:
        """Note that the store has a version; return the headers that waited for it."""
        self._write, self._saved = _Write.IDLE, version
        free: list[Headers] = [no_headers()]
        while self._waiting and self._waiting[0][0] <= version:
            free.append(self._waiting.popleft()[1])
        return np.concatenate(free)

    def not_saved(self) -> None:
        """Note that the store refused, or may have."""
        self._write = _Write.REFUSED

    def ticked(self) -> None:
        """Note that time has passed: a refused write is repeated."""
        if self._write is _Write.REFUSED:
            self._write = _Write.IDLE

    def describe(self, shards: Callable[[], Shards]) -> dict[str, Any] | None:
        """Return the state as a JSON object; None without a policy."""
        if self.policy is None:
            return None
        waiting = sum(map(len, self.waiting))
        return {**self.policy.describe(shards()), "headers_waiting_for_store": waiting}
