"""What must hold whatever happens; the simulation tells it what everybody does and it knows the truth.

Safety:

1. Epochs grow. What is delivered or accepted is the newest epoch's; what is written is no older than what the
   cursor store has seen.
2. A cursor never moves backwards, and passes nothing that its consumer has not acknowledged.
3. An acknowledgement is accepted when the cursor is durable, in the order of delivery, and each whole
   transaction is accepted once.
4. Transactions of a shard never change their order. What is delivered after another shard's was not committed
   before it, by the world's clock, but for what the clocks of the two sources explain: their skews, the steps
   that they made, and how early they stamp; see `Source.key_min_us` and `key_max_us`. Nor does anything come
   after what a cursor has passed and was committed later by more than that. Excused is a shard that was
   skipped, removed, or joined the others; nothing else is flagged late, but after a step back. Nothing of a
   shard that is held becomes late. The product's keys are not looked at.
5. A transaction is never interleaved with another, and begins with its beginning.
6. What stands at or before the cursor is not delivered again.
7. No more batches are outstanding, nor headers held, than the bounds say.
8. A shard that is removed leaves a cursor behind everything that it committed before, as far as its clock and
   ours agree on that, unless it was dropped at once, or the cursor is of a client id that was dropped. What
   it commits later is not delivered, likewise, and nothing any more once a cursor says that it left.
9. A client id that was dropped for being away goes on at its cursor. If it says so, it misses what the others
   have behind them, and nothing more.

10. A place stands for what its server committed before it, and for what its GTID set names: a cursor stands
   for a set of transactions, whose order is that of the server that they came from. A source that failed over
   may bring again, on the server of the cursor's place, what it committed after that and the other before.
   Its offset ranges may be refused, or come in the order of the other server.

Liveness: a while after the last fault everybody has everything, but for what a shard that is dead and skipped
holds; and that too when it is back.
"""

from __future__ import annotations

from merge.group import Group
from simulation.cursor_checks import CursorChecks
from simulation.order_checks import OrderChecks
from simulation.source import Reach


class Invariants(OrderChecks, CursorChecks):
    """Sees everything and raises `ViolationError` as soon as something is wrong; made as a `Record` is."""

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
        """Return how many headers with rows are not behind the durable cursor of one of the client ids.

        Args:
            client_ids: whose.
            without: a shard that does not count; None: all do that the cursor holds.
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
                    # Who keeps its place has what it has read, should its last acknowledgement be lost.
                    has = consumption.finished if consumption.keeps_place else ()
                    count += sum(
                        1
                        for index, record in enumerate(source.records)
                        if record[3] and index not in reach.passed and (source.index, index) not in has
                    )
        return count
