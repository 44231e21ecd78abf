"""Decided DDL: the gate of a replay, which passes on what was decided for the live stream.

A replay decides nothing: a statement that was decided is delivered or withheld again as it was. What follows
a statement about which nothing is decided yet waits until the live stream has passed it, or is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from canal_group.merge.order.ddl.gate import DdlGate, Positions
from canal_group.merge.order.ddl.policy import Origin, withhold
from canal_group.merge.order.ddl.rounds import Shards
from canal_group.merge.order.stream import Stream
from canal_group.merge.values.header import Flag, HeaderRun, Headers, no_headers


class DecidedDdl(DdlGate):
    """Passes headers on as the live stream did; see the module.

    Args:
        live: the live stream.
    """

    def __init__(self, live: Stream) -> None:
        super().__init__()
        self._live = live
        #: what went out of the timeline, from a statement on about which nothing is decided
        self._held = no_headers()
        #: by shard_index and sequence: the statements on tables that came in and were not passed on
        self._statements: set[tuple[int, int]] = set()

    @property
    def waiting(self) -> list[Headers]:
        """Headers that wait for the live stream, in merged order."""
        return [self._held] if len(self._held) else []

    def rewind(self) -> None:
        """Forget what waits: the sources are read again."""
        self._held, self._statements = no_headers(), set()

    def came_in(self, shard: int, run: HeaderRun) -> None:
        """Note which of the headers that the timeline takes are statements on tables."""
        if len(run):
            last = int(run.headers["sequence"][-1])
            self._statements |= {(shard, number) for number in run.ddls if number <= last}

    def pass_on(
        self,
        headers: Headers,
        names: Callable[[], tuple[str, ...]],
        origins: Callable[[], Sequence[Origin]],
        shards: Callable[[], Shards],  # noqa: ARG002  of what is new
        positions: Positions,  # noqa: ARG002
    ) -> Headers:
        """Take headers that went out of the timeline; return those that may go into the log."""
        coming = np.concatenate([self._held, headers]) if len(self._held) else headers
        stop = len(coming)
        if self._statements:
            stop = self._decided(coming, names(), origins())
        self._held = coming[stop:]
        return coming[:stop]

    def _decided(self, headers: Headers, names: tuple[str, ...], origins: Sequence[Origin]) -> int:
        """Withhold statements as was decided; return the index of the first of which nothing is decided."""
        gate = self._live.ddl
        assert gate.policy is not None, "the live stream decides"
        for at in np.flatnonzero(headers["flags"] & Flag.DDL).tolist():
            key = int(headers["shard"][at]), int(headers["sequence"][at])
            if key not in self._statements:
                continue
            one, origin = headers[at : at + 1], origins[key[0]]
            passed = self._live.base.ack.shards.get(origin.shard)
            withheld = gate.policy.find(one, names, origin, passed) if gate.durable else None
            if withheld is None:
                return at
            self._statements.discard(key)
            withhold(one, np.array([withheld]))
        return len(headers)
