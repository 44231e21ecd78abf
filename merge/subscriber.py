"""One client id on a destination: its cursor, its consumer's lease, its place in the merged log.

Rules:

1. A call with another epoch than the current one is refused and changes nothing.
2. The cursor moves only to where a batch's `ack` vector says, after the cursor store has it.
3. What stands at or before the cursor is never delivered, whatever comes out of the log again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from merge.cut import cut
from merge.errors import ConsumerActive, FencedError, NotSubscribed, RolledBack
from merge.events import GetRequested
from merge.header import Flag, Headers
from merge.ledger import Batch, Ledger
from merge.merged_log import MergedLog
from merge.position import GroupPosition, Position, file_order
from merge.progress import Progress

#: headers looked at for one batch
HEADERS_MAX = 65_536
#: headers without rows that are gathered before they are delivered as an empty batch
EMPTY_HEADERS_MAX = 1_024


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Bounds of a batch and of the batches of one subscriber."""

    #: row changes; a consumer may ask for fewer
    rows_max: int = 10_000
    #: bytes of rows in the rings
    bytes_max: int = 16 << 20
    #: batches delivered and not acknowledged
    outstanding_max: int = 64
    #: let a DDL leave alone
    ddl_isolation: bool = False


class Subscriber:
    """State of one client id; see the module's rules."""

    def __init__(self, client_id: str, server_epoch: int, limits: BatchLimits) -> None:
        self.client_id = client_id
        #: canal's filter on `schema.table`; empty: everything
        self.filter = ""
        #: durable place; None until the first position of the group is known
        self.cursor: GroupPosition | None = None
        #: who consumes; empty: nobody
        self.holder = ""
        #: fencing epoch of the consumer
        self.epoch = 0
        #: when the holder was last heard of, microseconds of the shell's clock
        self.seen_us = 0
        self.ledger = Ledger(server_epoch, limits.outstanding_max)
        #: gets that wait for data, by call
        self.waiting: dict[int, GetRequested] = {}
        #: call and batch of an acknowledgement that is on its way to the cursor store
        self.saving: tuple[int, Batch] | None = None
        #: told to the consumer with its next get: its outstanding batches were lost
        self.notice: RolledBack | None = None
        self._limits = limits
        #: where it stands in the merged log, and in the stream
        self._read = 0
        self._progress = Progress.at(GroupPosition())
        #: by shard_index: what stands at or before this position is behind the cursor
        self._behind: dict[int, Position] = {}

    # ---- lease -----------------------------------------------------------------------------------------

    def check_holder(self, epoch: int, at_us: int) -> None:
        """Return if a call with this epoch comes from the current consumer; note that it is alive.

        Raises:
            NotSubscribed: nobody holds this client id.
            FencedError: somebody newer holds it.
        """
        if epoch != self.epoch:
            raise FencedError(
                f"Consumer epoch {epoch} of client {self.client_id} is over; the current one is {self.epoch}.",
                hint="Another consumer took over. Stop this one.",
                our_epoch=epoch,
                current_epoch=self.epoch,
            )
        if not self.holder:
            raise NotSubscribed(
                f"The lease of client {self.client_id} has run out.", hint="Subscribe again.", our_epoch=epoch
            )
        self.seen_us = at_us

    def check_free(self, holder: str, lease_us: int, at_us: int) -> None:
        """Return if `holder` may take this client id.

        Raises:
            ConsumerActive: somebody else holds it and was heard of within the lease.
        """
        left_us = self.seen_us + lease_us - at_us
        if self.holder and self.holder != holder and left_us > 0:
            raise ConsumerActive(
                f"Client {self.client_id} is held by {self.holder}.",
                hint="Wait until it unsubscribes or its lease runs out, or use another client id.",
                holder=self.holder,
                retry_after_s=min(1.0, left_us / 1e6),
            )

    # ---- place in the stream ---------------------------------------------------------------------------

    @property
    def done(self) -> int:
        """Log index before which it needs nothing any more."""
        outstanding = self.ledger.outstanding
        return outstanding[0].log_start if outstanding else self._read

    def rewind(self, shards: tuple[str, ...], log_base: int) -> None:
        """Stand at the cursor again, at the base of a new log; outstanding batches are lost."""
        if self.ledger.rollback():
            self.notice = RolledBack(
                f"Outstanding batches of client {self.client_id} were rolled back: a shard or the group restarted.",
                hint="Forget what you did not finish and get again.",
            )
        self._read = log_base
        if self.cursor is not None:
            self.stand_at(self.cursor, shards)

    def stand_at(self, cursor: GroupPosition, shards: tuple[str, ...]) -> None:
        """Make `cursor` the cursor and skip what stands at or before it."""
        self.cursor = cursor
        self._progress = Progress.at(cursor)
        self._behind = {
            index: cursor.shards[shard] for index, shard in enumerate(shards) if shard in cursor.shards
        }

    def next_batch(
        self, log: MergedLog, names: tuple[str, ...], shards: tuple[str, ...], generation: int, rows_max: int
    ) -> Batch | None:
        """Deliver the next batch from the log, if there is something to deliver."""
        while True:
            headers = log.slice(self._read, self._read + HEADERS_MAX)
            if not len(headers):
                return None
            count = cut(
                headers,
                rows_max=min(rows_max, self._limits.rows_max),
                bytes_max=self._limits.bytes_max,
                ddl_isolation=self._limits.ddl_isolation,
            )
            fresh = self._fresh(headers[:count], names)
            if len(fresh):
                break
            self._read += count
        if not fresh["rows"].any() and len(fresh) < EMPTY_HEADERS_MAX:
            return None
        batch = Batch(
            batch_id=self.ledger.next_id,
            before=self._progress,
            after=self._progress.past(fresh, names, shards),
            headers=fresh,
            names=names,
            log_start=self._read,
            log_stop=self._read + count,
            generation=generation,
        )
        self.ledger.deliver(batch)
        self._read, self._progress = batch.log_stop, batch.after
        return batch

    def rollback(self, batch_id: int | None = None) -> int:
        """Take back a batch and every later one, or all; return how many. Raises as `Ledger.rollback`."""
        taken = self.ledger.rollback(batch_id)
        if taken:
            self._read, self._progress = taken[0].log_start, taken[0].before
        return len(taken)

    def acked(self, batch: Batch, shards: tuple[str, ...]) -> None:
        """Move the cursor past a batch: the cursor store has it."""
        if batch in self.ledger.outstanding:
            self.ledger.ack(batch.batch_id)
            self.cursor = batch.ack
        else:
            # The batch was lost while its cursor was being written: go on behind it all the same.
            self.stand_at(batch.ack, shards)

    def _fresh(self, headers: Headers, names: tuple[str, ...]) -> Headers:
        """Return the headers that stand behind the cursor."""
        keep = np.ones(len(headers), dtype=bool)
        for shard, position in list(self._behind.items()):
            mine = headers["shard"] == shard
            old = mine & _at_or_before(headers, names, position)
            keep &= ~old
            if (mine & ~old).any():
                del self._behind[shard]
        fresh = headers[keep]
        if self._progress.ack == self._progress.end:
            # A log can begin inside a huge transaction that others have read in part; it is not for this one.
            begins = np.flatnonzero(fresh["flags"] & Flag.BEGIN)
            fresh = fresh[begins[0] if len(begins) else len(fresh) :]
        return fresh


def _at_or_before(headers: Headers, names: tuple[str, ...], position: Position) -> NDArray[np.bool_]:
    """Return which headers, of the position's shard, end at or before the position."""
    numbers = np.zeros(len(names), dtype=np.int64)
    for index in np.unique(headers["file"]):
        numbers[index] = file_order(names[index])[1]
    files, number = numbers[headers["file"]], file_order(position.file)[1]
    behind: NDArray[np.bool_] = (files < number) | (
        (files == number) & (headers["end_offset"] <= position.offset)
    )
    return behind
