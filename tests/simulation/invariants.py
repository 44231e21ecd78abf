"""The invariants of the simulation: each process reports its actions, which are checked against the sources.

Safety:

1. Epochs grow. Only the newest epoch delivers batches and accepts acknowledgements. No write is older than
   the newest epoch that the cursor store has seen.
2. A cursor never moves backwards, and never passes rows that its consumer has not acknowledged. What has no
   rows it passes without the consumer.
3. An acknowledgement is accepted when the cursor is durable, and in the order of delivery. Each whole
   transaction is accepted once.
4. Transactions of a shard never change their order. Across shards, a transaction never follows one that was
   committed later by the world's clock, except by as much as the clocks of the two sources explain: their
   skews, their steps, and how early they stamp; see `Source.key_min_us` and `key_max_us`. The same holds
   against the transactions that a cursor has passed. A shard that was skipped, removed or joined is exempt.
   Otherwise a transaction is flagged late only after a clock stepped back. No transaction of a held shard
   becomes late. The product's keys are not used.
5. A transaction is never interleaved with another, and its first fragment comes first.
6. A header at or before the cursor is not delivered again.
7. The numbers of outstanding batches and of held headers stay within their bounds.
8. When a cursor drops a removed shard, it has passed everything that the shard committed before the removal,
   as far as the shard's clock and ours agree, or has the rest as a loss. Exempt are removals `--now`.
   What the shard commits later is not delivered, with the same tolerance. Nothing is delivered once a cursor
   says that the shard left.
9. A client id that was dropped as inactive continues at its cursor. If it asks to skip, it misses what the
   others have consumed, and nothing more.
10. A position represents the transactions that its server committed before it, and those of its GTID set. So
    a cursor represents a set of transactions, in the order of the server that they came from. After a
    failover, a transaction may come again if the server of the cursor's position committed it after that
    position, and the other server before. Offset ranges may then be refused, or come in the other server's
    order.

Liveness: some time after the last fault every client has everything, and its position has passed what nothing
is kept of, except the transactions of a shard that
is dead and skipped; and those too when the shard is back.
"""

from __future__ import annotations

from canal_group.merge.group import Group
from simulation.cursor_checks import CursorChecks
from simulation.order_checks import OrderChecks
from simulation.source import Reach


class Invariants(OrderChecks, CursorChecks):
    """Raises `ViolationError` as soon as an invariant is violated; constructed like a `Record`."""

    def bounded(self, group: Group, ring_slots: int) -> None:
        """Check the bounds of a server."""
        stream = group._stream
        kept = stream.log.tip - stream.log.base
        pending = stream._timeline.pending if stream._timeline is not None else 0
        self._require(kept + pending <= ring_slots, "more headers are held than the rings hold")
        for client in group.describe(0)["clients"]:
            count = len(client["outstanding"])
            self._require(count <= self._outstanding_max, "too many batches are outstanding")

    def missing(self, client_ids: list[str], without: int | None) -> int:
        """Return how many headers the position of one of the client ids has not passed, with rows or without.

        Args:
            client_ids: the client ids to count for.
            without: a shard that is not counted; None: all shards that the cursor holds are counted.
        """
        count = 0
        for client_id in client_ids:
            if client_id in self._stranded:
                continue
            consumption = self._of(client_id)
            durable = consumption.durable or [Reach()] * len(self._sources)
            left = consumption.cursor.retired if consumption.cursor is not None else ()
            for source, reach in zip(self._sources, durable, strict=True):
                if source.index != without and f"s{source.index}" not in left:
                    # A reader that keeps its position has what it read, even if its last ack is lost.
                    has = consumption.finished if consumption.keeps_position else ()
                    count += sum(
                        1
                        for index in range(len(source.records))
                        if index not in reach.passed and (source.index, index) not in has
                    )
        return count
