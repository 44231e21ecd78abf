"""Checks of cursors: which epoch writes them, how far they move, and what was acknowledged by then."""

from __future__ import annotations

from canal_group.actors.ports import Subscription
from canal_group.merge.calls.resume import Resume
from canal_group.merge.values.header import Flag
from canal_group.merge.values.position import GroupPosition
from simulation.consumption import LOOK, Consumption
from simulation.operator_checks import OperatorChecks
from simulation.source import Reach, Source

#: as whole numbers: the enumeration's own operators are slow
BEGIN, END = int(Flag.BEGIN), int(Flag.END)


class CursorChecks(OperatorChecks):
    """Rules 1 to 3 and 9 of `simulation.invariants`."""

    # ---- who writes ---------------------------------------------------------------------------------------

    def elected(self, epoch: int, server: str) -> None:
        """Note that a server was elected."""
        self._loop.note("zookeeper", "elects {} for epoch {}", server, epoch)
        self._require(epoch > self._epoch, "an epoch does not grow")
        self._epoch = epoch
        if self._elections_fence:
            self._fence = epoch
        self.counts["elections"] += 1

    def claimed(self, epoch: int) -> None:
        """Note that the cursor store has seen an epoch."""
        self._require(epoch >= self._fence, "an older epoch claimed the cursors")
        self._fence = epoch

    def took_over(self, epoch: int, subscriptions: list[Subscription]) -> None:
        """Note the cursor that a server begins with."""
        if epoch != self._epoch:
            return
        kept = [each.cursor.retired for each in subscriptions if each.cursor is not None]
        # The cursors say which shards have left: without one, it is what the settings list that counts.
        self._left = {
            shard: left for shard, left in self._left.items() if any(f"s{shard}" in names for names in kept)
        }
        for subscription in subscriptions:
            consumption = self._of(subscription.client_id)
            self._require(subscription.cursor == consumption.cursor, "a server begins at another cursor")
            # Rows that were acknowledged, while the cursor was not written, come again.
            consumption.known, consumption.passed_us, consumption.passed_most_us = [], 0, 0
            self._know(consumption, subscription.cursor)

    def looks(self) -> None:
        """Count the answers to looks, of which nothing may be stored."""
        self.counts["looks"] += 1

    # ---- subscriptions that end ---------------------------------------------------------------------------

    def forgotten(self, client_id: str) -> None:
        """Note that a subscription and its cursor were removed."""
        self._loop.note("cursors", "forget {}", client_id)
        consumption = self._of(client_id)
        # A subscription that was refused may have been written nevertheless.
        given_up = consumption.unsubscribes or not consumption.begun
        self._require(given_up, "a subscription was removed without an unsubscribe")
        self._consumptions.pop(client_id, None)
        self.counts["forgotten"] += 1
        self._note_newcomer(0)

    def _note_newcomer(self, epoch: int) -> None:
        """Note under which epoch a cursor first held the newcomer, and when no cursor holds it any more.

        It joined where its source began: a join skips no transaction that the source still had.
        """
        if self._newcomer is None or not self.is_known(self._newcomer):
            self._joined_epoch, self._joined_after = None, None
        elif self._joined_epoch is None:
            source, name = self._sources[self._newcomer], f"s{self._newcomer}"
            cursors = [one.cursor for one in self._consumptions.values() if one.cursor is not None]
            joined = [source.reach(cursor.joined[name]) for cursor in cursors if name in cursor.joined]
            consumed = frozenset().union(*(reach.passed for reach in joined))
            gone = frozenset().union(*(binlog.forgotten for binlog in source.binlogs))
            self._require(consumed <= gone, "a shard joined after transactions that its source still has")
            self._joined_epoch, self._joined_after = epoch, consumed

    def unsubscribes(self, client_id: str) -> None:
        """Note that a consumer is about to unsubscribe."""
        self._of(client_id).unsubscribes = True

    def unsubscribed(self, client_id: str) -> None:
        """Check that a subscription is gone after its consumer was told so."""
        held = self._of(client_id).cursor is not None
        self._require(not held, "a subscription is still held after its unsubscribe")

    # ---- purges -------------------------------------------------------------------------------------------

    def purged(self, source: Source) -> None:
        """Note that a source's answering server has purged transactions that some clients have not read."""
        for client_id, consumption in self._consumptions.items():
            durable = consumption.durable
            if not durable or not source.active.forgotten <= durable[source.index].passed:
                self._stranded.add(client_id)

    def failed_over(self, source: Source) -> None:
        """Note that another server answers for a source."""
        self._loop.note(
            "invariants", "s{} has {} in the order {}", source.index, source.active.uuid, source.active.order
        )
        self.counts["failovers"] += 1
        if source.active.forgotten:
            self.purged(source)

    def stranded(self, client_id: str, why: str, start: GroupPosition | None = None) -> None:
        """Check that a client is told of a purge only if it concerns its cursor or its requested start."""
        asked = start is not None and self._is_purged(self._reaches(start, self._of(client_id)))
        self._require(asked or client_id in self._stranded, f"another client's purge: {why}")

    def _is_set_aside(self, consumption: Consumption) -> bool:
        """Return whether a source has purged what a client id needs."""
        return bool(consumption.durable) and self._is_purged(consumption.durable)

    def _is_purged(self, reaches: list[Reach]) -> bool:
        """Return whether a source has purged what follows a cursor."""
        return any(
            not source.active.forgotten <= reach.passed
            for source, reach in zip(self._sources, reaches, strict=True)
        )

    def written(self, subscription: Subscription, epoch: int) -> None:
        """Check a write that the cursor store accepted."""
        self._loop.note("cursors", "hold {} of epoch {}", subscription.client_id, epoch)
        self._require(subscription.client_id != LOOK, "something of a look is stored")
        self._require(epoch >= self._fence, "an older epoch writes a cursor")
        consumption, cursor = self._of(subscription.client_id), subscription.cursor
        assert cursor is not None
        self.writes += 1
        reaches = self._reaches(cursor, consumption)
        if consumption.cursor is not None and not consumption.keeps_position:
            self._require(cursor.sequence >= consumption.cursor.sequence, "a cursor's sequence decreases")
        self._note_losses(subscription, consumption)
        self._check_who_left(subscription, consumption, epoch)
        if consumption.resumes_now:
            self._skip_to(consumption, reaches)
        self.counts["dropped"] += subscription.dropped and not consumption.dropped
        consumption.dropped = subscription.dropped
        consumption.was_dropped |= subscription.dropped
        for shard, (old, new) in enumerate(
            zip(consumption.durable or [Reach()] * len(reaches), reaches, strict=True)
        ):
            source = self._sources[shard]
            forward = old.passed <= new.passed and (old.server != new.server or old.placed <= new.placed)
            self._require(forward or consumption.keeps_position, "a cursor moves backwards")
            # A client that has acknowledged nothing begins where the log does, also after a purge.
            # So does a shard that joins.
            joins = consumption.cursor is not None and f"s{shard}" not in consumption.cursor.shards
            begins = self._is_new(consumption) or joins
            passes = new.passed - old.passed
            if begins:
                passes = passes.difference(*(binlog.forgotten for binlog in source.binlogs))
            for index in passes if consumption.begun else ():
                done = (shard, index) in consumption.finished or (shard, index) in consumption.lost
                finished = done or not source.has_rows(index)
                self._require(finished, "a cursor passes rows that no consumer finished")
        consumption.durable, consumption.cursor = reaches, cursor
        self._note_newcomer(epoch)
        if self._is_purged(reaches):
            # The rows that it needs are in the rings only.
            self._stranded.add(subscription.client_id)

    def _note_losses(self, subscription: Subscription, consumption: Consumption) -> None:
        """Check that a loss is stored only if a source has purged what follows a cursor, or the shard leaves.

        One that has acknowledged nothing goes on where the others are: they may have passed more than that.
        """
        for loss in subscription.losses:
            source = self._sources[int(loss.shard[1:])]
            lost = source.reach(loss.until).passed - source.reach(loss.after).passed
            gone = frozenset().union(*(binlog.forgotten for binlog in source.binlogs))
            why = lost <= gone or (self._is_new(consumption) and lost & gone)
            known = consumption.lost.issuperset((source.index, index) for index in lost)
            leaves = loss.shard in (subscription.cursor.retired if subscription.cursor is not None else ())
            self._require(bool(why) or known or leaves, "a loss is stored of what a source still has")
            consumption.lost.update((source.index, index) for index in lost)

    @staticmethod
    def _is_new(consumption: Consumption) -> bool:
        """Return whether a client id never acknowledged anything."""
        return not consumption.finished

    def resumes(self, client_id: str, resume: Resume) -> None:
        """Note where a consumer continues that was told that it was dropped."""
        consumption = self._of(client_id)
        consumption.was_dropped = True
        # Its earlier request may have been executed, although no answer came.
        consumption.resumes_now |= resume is Resume.NOW

    def _skip_to(self, consumption: Consumption, reaches: list[Reach]) -> None:
        """Check how far a consumer jumps that skips the rows that it missed, and count those as finished.

        The others have consumed them; one that reads an archive may be behind, but not all are.
        """
        others = [
            one
            for one in self._consumptions.values()
            if one is not consumption and not one.dropped and not self._is_set_aside(one)
        ]
        for shard, (old, new) in enumerate(zip(consumption.durable, reaches, strict=True)):
            # It may have consumed them itself, and been told wrongly that it was dropped.
            passed = new.passed - old.passed
            missed = frozenset(index for index in passed if (shard, index) not in consumption.finished)
            lacks = list[frozenset[int]]()
            for other in others:
                # A consumer that is away has not heard of what was stored last.
                has = [other.durable, *([] if self._at_once or other.keeps_position else [other.known])]
                stored = [each[shard].passed for each in has if each]
                lacking = missed.difference(*stored) if stored else frozenset()
                if other.keeps_position:
                    # The server knows where it continues before the cursor is written.
                    lacking = frozenset(each for each in lacking if (shard, each) not in other.finished)
                lacks.append(lacking)
            combine = frozenset[int].intersection if self._replays else frozenset[int].union
            consumed = not lacks or not combine(*lacks)
            self._require(consumed, "a consumer misses rows that no other client has consumed")
            consumption.finished.update((shard, index) for index in missed)

    def subscribed(self, client_id: str, cursor: GroupPosition) -> None:
        """Note that a consumer is told where it begins."""
        consumption = self._of(client_id)
        begins = self._reaches(cursor, consumption)
        same = self._is_past_nothing(consumption.durable, begins)
        if not self._at_once and not same:
            # It was acknowledged, and is not written yet.
            same = self._is_past_nothing(consumption.known, begins)
        self._require(same or consumption.keeps_position, "a consumer begins at another cursor")
        self._know(consumption, cursor)
        consumption.first = consumption.first or begins
        consumption.begun, consumption.resumes_now = True, False

    def _is_past_nothing(self, before: list[Reach], after: list[Reach]) -> bool:
        """Return whether there is no row between two cursors: one passes that before it is written."""
        if len(before) != len(after):
            return before == after
        return all(
            old == new
            or (old.passed <= new.passed and not any(map(source.has_rows, self._between(source, old, new))))
            for source, old, new in zip(self._sources, before, after, strict=True)
        )

    @staticmethod
    def _between(source: Source, old: Reach, new: Reach) -> frozenset[int]:
        """Return the indexes that a shard's position moves over; one that joins begins at its start."""
        joins = not old.passed and not old.server
        gone = frozenset().union(*(binlog.forgotten for binlog in source.binlogs)) if joins else frozenset()
        return new.passed - old.passed - gone

    def accepted(self, client_id: str, batch_id: int) -> None:
        """Check an acknowledgement that a server answers."""
        self._require(batch_id >> 32 == self._epoch, "a server that is not active accepts an acknowledgement")
        consumption = self._of(client_id)
        delivery = consumption.delivered.get(batch_id)
        if delivery is None:
            return  # its subscription was given up meanwhile
        self._loop.note("group", "accepts {} of {}", batch_id & 0xFFFF, client_id)
        self._require(batch_id > consumption.accepted_id, "acknowledgements are accepted out of order")
        consumption.accepted_id = batch_id
        stored = consumption.missed <= consumption.lost or not self._at_once
        self._require(stored, "a consumer misses what its source had purged, and is not told")
        reaches = self._reaches(delivery.batch.ack, consumption)
        for shard, (durable, accepted) in enumerate(zip(consumption.durable, reaches, strict=True)):
            done = durable.passed >= accepted.passed or shard in self._left or not self._at_once
            self._require(done, "an acknowledgement is accepted before it is durable")
        flags = delivery.batch.headers["flags"].tolist()
        for flag, position in zip(flags, delivery.positions, strict=True):
            whole = flag & BEGIN and flag & END
            twice = self._at_once and whole and position in consumption.accepted - consumption.repeated
            self._require(not twice, "a transaction is accepted twice")
            consumption.accepted.add(position)
        self._know(consumption, delivery.batch.ack)
        self.counts["acks"] += 1

    def _know(self, consumption: Consumption, cursor: GroupPosition | None) -> None:
        if cursor is None:
            return
        known = consumption.known or consumption.first
        consumption.known = self._reaches(cursor, consumption)
        for shard, (source, consumed) in enumerate(zip(self._sources, consumption.known, strict=True)):
            most_us = max(map(source.key_most_us, consumed.passed), default=0)
            consumption.passed_most_us = max(consumption.passed_most_us, most_us)
            if known:
                # What was purged before it or the shard began says nothing about the order of what follows.
                gone = frozenset().union(*(binlog.forgotten for binlog in source.binlogs))
                unseen = {index for index in gone if (shard, index) not in consumption.seen}
                passed = consumed.passed - known[shard].passed - unseen
                least_us = max((source.key_min_us[index] for index in passed), default=0)
                consumption.passed_us = max(consumption.passed_us, least_us)
