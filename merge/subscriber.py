"""One client id on a destination: its cursor, its consumer's lease, its place in the merged log.

Rules:

1. A call with another epoch than the current one is refused and changes nothing.
2. The cursor moves only to where a batch's `ack` vector says, after the cursor store has it.
3. What stands at or before the cursor is never delivered, whatever comes out of the log again.
4. Keys never fall below what the cursor has passed: what comes out of the log below it is raised to it and
   flagged LATE.
5. One write at a time is on its way to the cursor store. None follows one that acknowledges until it is known
   whether that arrived: the cursor would move backwards. While the batch that it acknowledges was lost
   meanwhile, nothing is delivered: whether that batch is behind the cursor is not known yet.
6. That shards joined or left, or that it was dropped, is written until a write which says so has arrived.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from merge.cut import cut
from merge.errors import (
    ConsumerActive,
    DataError,
    FencedError,
    NotSubscribed,
    RolledBack,
    SubscriptionDropped,
)
from merge.events import (
    AckRequested,
    GetRequested,
    Instruction,
    Reply,
    Resume,
    RollbackRequested,
    SaveCursor,
    SpanRequested,
    UnsubscribeRequested,
)
from merge.header import WHOLE, Flag, Headers
from merge.ledger import Batch, Ledger
from merge.position import GroupPosition, Position, oldest
from merge.progress import Progress
from merge.span import Span, arrange, check_same, covered, reaches_back, same_places, up_to, whole
from merge.stream import Stream

#: calls that wait for a write which nobody asked for
Deferrable: TypeAlias = AckRequested | RollbackRequested | UnsubscribeRequested
#: call of a write that nobody asked for: shards joined or left
OWN_CALL = 0
#: headers looked at for one batch
HEADERS_MAX = 32_768


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Bounds of a batch and of the batches of one subscriber."""

    #: row changes; a consumer may ask for fewer
    rows_max: int = 131_072
    #: bytes of rows in the rings
    bytes_max: int = 16 << 20
    #: batches delivered and not acknowledged
    outstanding_max: int = 64
    #: let a DDL leave alone
    ddl_isolation: bool = False
    #: headers without rows that are gathered before they are delivered as an empty batch. At most the slots
    #: of a ring: one that is full of such headers would wait for its consumer, and the consumer for it.
    empty_headers_max: int = 1_024
    #: what the ring of a shard holds at most, headers and bytes: a transaction of a span has to fit
    ring_headers_max: int | None = None
    ring_bytes_max: int | None = None


@dataclass(frozen=True, slots=True)
class Saving:
    """A write that is on its way to the cursor store, or may be there."""

    #: whom it answers; `OWN_CALL`: nobody
    call: int
    #: what it acknowledges; None: it stores a subscription
    batch: Batch | None
    #: whether the caller was told that nobody knows whether it was written
    unsure: bool = False
    #: False: it waits to be repeated
    under_way: bool = True
    #: whether no write before it is known to have told the store what rule 6 is about
    unsaved: bool = False


class Subscriber:
    """State of one client id; see the module's rules.

    Args:
        client_id: the client id.
        server_epoch: fencing epoch of the server, from which batch ids begin.
        limits: bounds of its batches.
    """

    def __init__(self, client_id: str, server_epoch: int, limits: BatchLimits) -> None:
        self.client_id = client_id
        #: canal's filter on `schema.table`; empty: everything
        self.filter = ""
        #: durable place; None until the first position of the group is known
        self.cursor: GroupPosition | None = None
        #: whether the cursor store knows the subscription
        self.durable = False
        #: who consumes; empty: nobody
        self.holder = ""
        #: fencing epoch of the consumer
        self.epoch = 0
        #: when the holder was last heard of, microseconds of the shell's clock
        self.seen_us = 0
        self.ledger = Ledger(server_epoch, limits.outstanding_max)
        #: gets that wait for data, by call
        self.waiting: dict[int, GetRequested | SpanRequested] = {}
        #: call of a subscription that is not answered yet
        self.subscribing: int | None = None
        #: what is on its way to the cursor store
        self.saving: Saving | None = None
        #: whether it was away for too long: no ring is kept for it until it says where to go on
        self.dropped = False
        #: its cursor when it gave up what it had missed: it does not go back behind that either
        self._gave_up_at: GroupPosition | None = None
        #: whether it has a place in the merged log
        self.placed = False
        #: whether the stored subscription lacks that shards joined or left, or that it was dropped
        self.unsaved = False
        #: calls that came during a write that nobody asked for
        self.deferred: list[Deferrable] = []
        #: told to the consumer with its next get: its outstanding batches were lost
        self.notice: RolledBack | None = None
        #: whether it was stood where the log does not reach back to: the shards have to be opened again
        self.astray = False
        #: the cursor before it was stood there, until that is known to be possible
        self._came_from: GroupPosition | None = None
        self._limits = limits
        #: where it stands in the merged log, and in the stream
        self._read = 0
        self._progress = Progress.at(GroupPosition())
        #: by shard_index: what the log holds at or before this position is behind the cursor
        self._behind: dict[int, Position] = {}
        #: greatest key that the cursor had passed when it was stood at
        self._passed_us = 0

    # ---- lease -----------------------------------------------------------------------------------------

    def check_holder(self, epoch: int, at_us: int) -> None:
        """Return if a call with this epoch comes from the current consumer; note that it is alive.

        Raises:
            NotSubscribed: nobody holds this client id.
            FencedError: somebody newer holds it.
        """
        if epoch != self.epoch:
            raise FencedError(
                f"Epoch {epoch} of client {self.client_id} is over; the current one is {self.epoch}.",
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

    @property
    def busy(self) -> bool:
        """Whether its consumer waits for an answer: it cannot be heard of meanwhile."""
        saving = self.saving is not None and not self.saving.unsure
        return bool(self.waiting) or saving or self.subscribing is not None

    # ---- gets and writes -------------------------------------------------------------------------------

    def give_up_gets(self) -> list[Instruction]:
        """Answer the gets that told what their consumer had seen: it asks again, so it reads no answer."""
        given_up = [
            call
            for call, request in self.waiting.items()
            if isinstance(request, GetRequested) and request.seen_id is not None
        ]
        for call in given_up:
            del self.waiting[call]
        return [Reply(call, None) for call in given_up]

    def is_unsure_of(self, batch_id: int) -> bool:
        """Return whether the acknowledgement of this batch waits to be repeated: its consumer may do so."""
        batch = self.saving.batch if self.saving is not None and not self.saving.under_way else None
        return batch is not None and batch.batch_id == batch_id and self.ledger.holds(batch)

    def save(self, saving: Saving, stream: Stream) -> list[Instruction]:
        """Write subscription and cursor; with a batch, the cursor behind it. What was not stored is in it."""
        self.saving, self.unsaved = replace(saving, unsaved=self.lacks_shards), False
        cursor = self.cursor if saving.batch is None else stream.settled(saving.batch.ack)
        return [SaveCursor(saving.call, self.client_id, self.filter, cursor, self.dropped)]

    @property
    def lacks_shards(self) -> bool:
        """Whether the store is not known to have what rule 6 is about."""
        return self.unsaved or (self.saving is not None and self.saving.unsaved)

    @property
    def follows_shards(self) -> bool:
        """Whether its cursor is being written because shards joined or left; calls wait for that."""
        return self.saving is not None and self.saving.call == OWN_CALL

    def check_kept(self, resume: Resume | None, at_us: int) -> None:
        """Return if it goes on at its cursor, or it was said where else.

        Raises:
            SubscriptionDropped: it was away for too long; nothing is lost yet.
        """
        if self.dropped and resume is None:
            away_s = (at_us - self.seen_us) / 1e6
            raise SubscriptionDropped(
                f"Client {self.client_id} was away for too long: its rows are no longer held.",
                hint="Subscribe with resume='cursor' to have the sources read again from its cursor, as far"
                " as they still have it (every consumer is rolled back), or with resume='now' to go on where"
                " the others are and miss what is between.",
                away_s=away_s,
                cursor=self.cursor.to_json() if self.cursor is not None else None,
            )

    def drop(self) -> None:
        """Keep nothing for it any more; its cursor stays."""
        self.dropped = self.unsaved = True
        self.placed = False

    def take_up(self, resume: Resume | None) -> None:
        """Go on after a drop; `stand_at` has to follow."""
        if self.dropped:
            self.dropped, self.unsaved = False, True
            if resume is Resume.NOW:
                self.cursor, self._gave_up_at = None, self.cursor

    # ---- place in the stream ---------------------------------------------------------------------------

    @property
    def done(self) -> int:
        """Log index before which it needs nothing any more."""
        outstanding = self.ledger.outstanding
        return outstanding[0].log_start if outstanding else self._read

    @property
    def undecided(self) -> bool:
        """Whether it is unknown if a lost batch will have been acknowledged."""
        batch = self.saving.batch if self.saving is not None else None
        return batch is not None and not self.ledger.holds(batch)

    def rewind(self) -> None:
        """Forget outstanding batches: the log that they came from is gone. `stand_at` has to follow."""
        self.placed = False
        self.astray = False
        if self.ledger.rollback():
            self.notice = RolledBack(
                f"Batches of client {self.client_id} were rolled back: a shard or the group restarted.",
                hint="Forget what you did not finish and get again.",
            )

    def stand_at(self, cursor: GroupPosition, stream: Stream) -> None:
        """Make `cursor` the cursor, stand at the log's base and skip what stands at or before the cursor.

        Args:
            cursor: shards that it does not name stand where the log begins.
            stream: one that merges and stands between two transactions.
        """
        self.placed = True
        if self._gave_up_at is not None:
            cursor, self._gave_up_at = _further(cursor, self._gave_up_at), None
        self._came_from = None
        begin = stream.base.ack.shards
        self.unsaved |= self.cursor is not None and not _same_shards(cursor, stream.settled(cursor))
        self.cursor = stream.settled(cursor)
        self._read, self._progress = stream.log.base, Progress.at(self.cursor)
        self._passed_us = self.cursor.passed_us
        # The log holds nothing before its base. Where cursor and base agree, nothing has to be compared.
        self._behind = {
            index: self.cursor.shards[shard]
            for index, shard in enumerate(stream.shards)
            if shard in begin and self.cursor.shards[shard] != begin[shard]
        }

    def settle(self, stream: Stream) -> None:
        """Take note that shards joined or left; those that joined stand where they did."""
        if self.cursor is None:
            return
        settled = stream.settled(self.cursor)
        self.unsaved |= not _same_shards(self.cursor, settled)
        self.cursor = settled

    def skip_behind(self, stream: Stream) -> None:
        """Read past headers that are behind the cursor, so that they hold no ring."""
        while self._behind:
            window = stream.log.slice(self._read, self._read + HEADERS_MAX)
            places = np.flatnonzero(self._fresh(window, stream))
            self._read += int(places[0]) if len(places) else len(window)
            if len(places) or not len(window):
                return

    def next_batch(self, stream: Stream, rows_max: int) -> Batch | None:
        """Deliver the next batch from the log, if there is something to deliver.

        Args:
            stream: one that merges.
            rows_max: bound on row changes beside the limits; one header always leaves.
        """
        if self.undecided or self.astray:
            return None
        self.skip_behind(stream)
        window = stream.log.slice(self._read, self._read + HEADERS_MAX)
        if not len(window):
            return None
        headers, places = window, np.arange(len(window))
        if self._behind:
            places = np.flatnonzero(self._fresh(window, stream))
            headers = window[places]
            headers = headers[: _up_to_a_gap(headers)]
            if not len(headers):
                return None
        count = self._count(headers, rows_max)
        stop = len(window)
        if count < len(places):
            stop = int(places[count])
        # A copy: what is delivered outlives the window it was cut from.
        headers = headers[:count].copy()
        may_wait = self._read + stop == stream.log.tip and count < self._limits.empty_headers_max
        if may_wait and not stream.draining and not _matter(headers):
            return None
        self._raise_keys(headers)
        # A batch that was taken back may be older than a shard that joined.
        before = replace(
            self._progress,
            ack=stream.settled(self._progress.ack),
            end=stream.settled(self._progress.end),
        )
        batch = Batch(
            batch_id=self.ledger.next_id,
            before=before,
            after=before.past(headers, stream.names, stream.shards, stream.servers),
            headers=headers,
            names=stream.names,
            log_start=self._read,
            log_stop=self._read + stop,
            generation=stream.generation,
            shards=stream.shards,
        )
        self.ledger.deliver(batch)
        self._read, self._progress = batch.log_stop, batch.after
        return batch

    # ---- spans -----------------------------------------------------------------------------------------

    def find_span(self, span: Span) -> Batch | None:
        """Return the span if it is outstanding: who asks again is answered again."""
        for batch in self.ledger.outstanding:
            if same_places(batch.start, span.start) and (
                span.until is None or same_places(batch.end, span.until)
            ):
                return batch
        return None

    def seek(self, start: GroupPosition, stream: Stream, *, may_rewind: bool) -> None:
        """Stand at `start`: everything before it is done with, whatever the cursor says.

        Raises:
            RolledBack: it is before the cursor, and that may not be; nothing was changed.
        """
        standing = self._progress.end if stream.merging else self.cursor
        if standing is not None and same_places(standing, start):
            return
        forward = self.cursor is not None and reaches_back(self.cursor.shards, start.shards)
        if not forward and not may_rewind:
            raise RolledBack(
                f"Client {self.client_id} stands behind what is asked for.",
                hint="It was finished, or belongs to a run of the consumer that is over.",
            )
        self.rollback()
        self.notice = None
        before, self.cursor = self.cursor, stream.settled(start)
        base = stream.base
        if stream.merging and base.ack == base.end and reaches_back(base.ack.shards, start.shards):
            self.stand_at(start, stream)
        elif stream.merging or not forward:
            self.astray = True
            self._came_from = self._came_from or before

    def come_back(self) -> None:
        """Stand where it stood before a `seek` whose place was not reached."""
        if self._came_from is not None:
            self.cursor, self.astray, self._came_from = self._came_from, True, None

    def next_span(self, span: Span, stream: Stream) -> Batch | None:
        """Deliver a span that begins where the subscriber stands; None: not all of it is there yet.

        Raises:
            DataError: it is not any more what it was when its end was noted.
        """
        if self.undecided or self.astray:
            return None
        self.skip_behind(stream)
        window = stream.log.slice(self._read, stream.log.tip)
        places = np.flatnonzero(self._fresh(window, stream))
        headers = window[places]
        if span.until is None:
            chosen = np.arange(len(headers)) < self._count_span(headers, span, stream)
        else:
            within = covered(
                span.until, self._progress.end, headers, stream.names, stream.shards, stream.servers
            )
            if within is None:
                return None
            chosen = within
        if span.until is None and not chosen.any():
            return None
        return self._deliver_span(span, stream, window, places, chosen)

    def _count_span(self, headers: Headers, span: Span, stream: Stream) -> int:
        """Return how many of the headers a span has whose end is not given; 0: it has to wait."""
        if span.key_us_max is not None:
            headers = headers[: int(np.searchsorted(headers["key_us"], span.key_us_max, side="right"))]
        if not len(headers):
            return 0
        with_rows = np.flatnonzero(headers["rows"])
        lead = int(with_rows[0]) if len(with_rows) else len(headers)
        count = lead + cut(headers[lead:], rows_max=span.rows_max, bytes_max=span.bytes_max)
        count = whole(headers, lead, count)
        if not count:
            self._check_fits(headers[lead:])
        if count == len(headers) and int(headers["rows"].sum()) < span.rows_min:
            return 0
        may_wait = count < self._limits.empty_headers_max and not stream.draining
        return 0 if may_wait and not _matter(headers[:count]) else count

    def _check_fits(self, fragments: Headers) -> None:
        """Return if more of a transaction that has not ended can come into its shard's ring.

        Raises:
            DataError: it is larger than the ring, which nothing frees before a span has all of it.
        """
        limits = self._limits
        for held, most in (
            (len(fragments), limits.ring_headers_max),
            (int(fragments["bytes"].sum()), limits.ring_bytes_max),
        ):
            if most is not None and held >= most:
                raise DataError(
                    f"A transaction is larger than the ring of its shard, {most} "
                    f"{'bytes' if most == limits.ring_bytes_max else 'headers'}: no span can have it whole.",
                    hint="Raise store.size of the instance, and restart it.",
                    offset=int(fragments["begin_offset"][0]),
                )

    def _deliver_span(
        self, span: Span, stream: Stream, window: Headers, places: NDArray[np.intp], chosen: NDArray[np.bool_]
    ) -> Batch:
        """Deliver the chosen headers; what stands between them in the log stays for later."""
        # Who joined since the start was noted stands where it joined.
        start = stream.settled(
            replace(self._progress.end, shards={**self._progress.end.shards, **span.start.shards})
        )
        headers = arrange(window[places[chosen]], start)
        if _up_to_a_gap(headers) < len(headers):
            raise DataError(
                "What is asked for again does not stand together any more: another server took over, which"
                " wrote its transactions in another order.",
                hint="Begin anew from another position.",
            )
        before = Progress.at(start)
        after = before.past(headers, stream.names, stream.shards, stream.servers)
        if span.until is not None:
            check_same(span.until, after)
            after = Progress.at(replace(after.end, shards={**after.end.shards, **span.until.shards}))
        left = places[~chosen]
        stop = int(left[0]) if len(left) else len(window)
        batch = Batch(
            batch_id=self.ledger.next_id,
            before=before,
            after=after,
            headers=headers,
            names=stream.names,
            log_start=self._read,
            log_stop=self._read + stop,
            generation=stream.generation,
            shards=stream.shards,
            behind=dict(self._behind),
        )
        self.ledger.deliver(batch)
        shards = np.unique(headers["shard"]).tolist()
        holes = bool((places[chosen] > stop).any())
        for shard in shards:
            self._behind.pop(shard, None)
            if holes:
                self._behind[shard] = after.end.shards[stream.shards[shard]]
        self._read, self._progress = batch.log_stop, after
        return batch

    def rollback(self, batch_id: int | None = None) -> int:
        """Take back a batch and every later one, or all; return how many. Raises as `Ledger.rollback`."""
        taken = self.ledger.rollback(batch_id)
        if taken:
            self._read, self._progress = taken[0].log_start, taken[0].before
            behind = next((batch.behind for batch in taken if batch.behind is not None), self._behind)
            self._behind = dict(behind)
        return len(taken)

    def take_back_unseen(self, seen_id: int) -> None:
        """Take back what was delivered behind `seen_id`: the answers got lost on their way."""
        for batch in self.ledger.outstanding:
            if batch.batch_id > seen_id:
                self.rollback(batch.batch_id)
                return

    def acked(self, batch: Batch, stream: Stream) -> None:
        """Move the cursor past a batch: the cursor store has it."""
        if self.ledger.holds(batch):
            self.ledger.ack(batch.batch_id)
            self.cursor = stream.settled(batch.ack)
            if batch.behind is None:
                for shard in np.unique(batch.headers["shard"]).tolist():
                    self._behind.pop(shard, None)
        elif batch.generation == stream.generation and batch.behind is None:
            # It was taken back while it was being acknowledged, and its log is still there: go on behind it.
            self._read, self._progress = batch.log_stop, batch.after
            self.cursor = stream.settled(batch.ack)
        elif stream.merging:
            self.stand_at(batch.ack, stream)
        else:
            self.cursor = stream.settled(batch.ack)

    def _count(self, headers: Headers, rows_max: int) -> int:
        """Return how many of the headers leave together."""
        # Headers without rows leave with what follows them; alone they would have to wait for it.
        with_rows = np.flatnonzero(headers["rows"])
        lead = int(with_rows[0]) if len(with_rows) else len(headers)
        return lead + cut(
            headers[lead:],
            rows_max=min(rows_max, self._limits.rows_max),
            bytes_max=self._limits.bytes_max,
            ddl_isolation=self._limits.ddl_isolation,
        )

    def _raise_keys(self, headers: Headers) -> None:
        """Apply rule 4 to headers that are about to leave."""
        low = headers["key_us"] < self._passed_us
        headers["flags"][low] |= np.uint16(Flag.LATE)
        headers["key_us"][low] = self._passed_us

    def _fresh(self, headers: Headers, stream: Stream) -> NDArray[np.bool_]:
        """Return which headers stand behind the cursor."""
        fresh = np.ones(len(headers), dtype=bool)
        for shard, position in self._behind.items():
            mine = headers["shard"] == shard
            same = position.is_of(stream.servers[shard])
            fresh[mine] = ~up_to(headers[mine], stream.names, position, same_server=same)
        return fresh


def _matter(headers: Headers) -> bool:
    """Return whether headers have to be delivered now: they have rows, or end a transaction that had some.

    The cursor passes a transaction whose last fragment is empty only with that fragment.
    """
    ends_earlier = (headers["flags"] & WHOLE) == Flag.END
    return bool(((headers["rows"] > 0) | ends_earlier).any())


def _up_to_a_gap(headers: Headers) -> int:
    """Return how many of the headers go before one in front of which others of its shard were left out.

    A batch is a run of each shard's sequences. Behind a failover, what is old for a subscriber may lie
    between what is new: the other server wrote in an order of its own.
    """
    by_shard = np.argsort(headers["shard"], kind="stable")
    shard, sequence = headers["shard"][by_shard], headers["sequence"][by_shard]
    gaps = by_shard[1:][(shard[1:] == shard[:-1]) & (sequence[1:] != sequence[:-1] + 1)]
    return int(gaps.min()) if len(gaps) else len(headers)


def _further(cursor: GroupPosition, other: GroupPosition) -> GroupPosition:
    """Return `cursor`, with those positions of `other` that are further."""
    shards = {
        name: other.shards[name]
        if name in other.shards and oldest([position, other.shards[name]]) == position
        else position
        for name, position in cursor.shards.items()
    }
    passed_us = max(cursor.retired_key_us, other.retired_key_us)
    sequence = max(cursor.sequence, other.sequence)
    return replace(cursor, shards=shards, sequence=sequence, retired_key_us=passed_us)


def _same_shards(one: GroupPosition, other: GroupPosition) -> bool:
    return one.shards.keys() == other.shards.keys() and one.retired == other.retired
