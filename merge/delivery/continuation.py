"""Where one subscriber continues: its cursor, its phase, and what became of positions that it left.

Rules:

1. A subscriber that gave up the rows that it had missed never goes back before its cursor of that time.
2. A subscriber that sought a position which its source has purged returns to the position before.
3. A subscriber that moves over what was purged does so a few times at most until it acknowledges something
   that follows. Each time, the loss is in the same write as the cursor. So is the loss of a subscriber that
   had read nothing and starts where the next log starts.
4. The cursor passes what nothing is kept of without the consumer, unless a batch is outstanding. A consumer
   that keeps its own position may still begin where the cursor came from (`quiet_since`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from canal_group.merge.calls.batch import Batch
from canal_group.merge.calls.consumers import GetRange
from canal_group.merge.calls.resume import Resume
from canal_group.merge.delivery.cursor_writes import CursorWrites
from canal_group.merge.delivery.delivery import Delivery
from canal_group.merge.delivery.phase import KEPT, Phase, Step, after
from canal_group.merge.delivery.snapshot_steering import as_steered
from canal_group.merge.errors import CanalGroupError, DataError, RolledBack, UsageError
from canal_group.merge.events import ConsumerState
from canal_group.merge.instructions import Instruction
from canal_group.merge.order.shard_state import ShardState
from canal_group.merge.order.stream import Stream
from canal_group.merge.snapshot.cursor import SnapshotCursor
from canal_group.merge.values.loss import Loss, with_loss
from canal_group.merge.values.marks.snapshot_mark import FailedTables, SnapshotEnd
from canal_group.merge.values.offset_range import OffsetRange, reaches_back, same_positions
from canal_group.merge.values.position import GroupPosition, Position

#: times that a client id moves over what a source has purged without acknowledging anything in between
MOVES_MAX = 5


class Continuation:
    """The cursor of a client id and its position in the stream; see the module's rules.

    Args:
        client_id: the client id.
        writes: its writes to the cursor store; they are told when what is stored changes.
        delivery: its waiting calls and outstanding batches; moved and refused with the cursor.
    """

    def __init__(self, client_id: str, writes: CursorWrites, delivery: Delivery) -> None:
        self._client_id = client_id
        self._writes = writes
        self._delivery = delivery
        self.phase = Phase.WAITING
        #: durable position; None until the first position of the group is known
        self.cursor: GroupPosition | None = None
        #: changes that sources purged before the client id got them; stored with the cursor
        self.losses: tuple[Loss, ...] = ()
        #: tables that its snapshots could not read, by shard; stored with the cursor
        self.unread: Mapping[str, FailedTables] = {}
        #: the cursor before it passed transactions without kept rows; stored with the cursor. None: the
        #: cursor passed no such transactions
        self.quiet_since: GroupPosition | None = None
        #: whether it acknowledged once, or was asked to hold rows without; stored with the cursor
        self.lasting = False
        #: whether its consumer reads offset ranges: these move the cursor, also those without a row
        self.reads_ranges = False
        #: whether the client id started with this log and has acknowledged nothing of this log
        self.new = True
        #: why it is PURGED
        self.purged: DataError | None = None
        #: why what the cursor store has cannot be read, until its consumer says where to continue
        self.unreadable: CanalGroupError | None = None
        #: shard -> moves over purged changes since the client id last acknowledged something of the shard
        self._moves: dict[str, int] = {}
        #: the cursor at the moment when the client id gave up missed rows
        self._gave_up_at: GroupPosition | None = None
        #: the cursor that its consumer was told before a source purged what follows, and when that was found
        self._left: tuple[GroupPosition, int] | None = None
        #: the cursor before it sought another position, and why it was PURGED; until rows arrive from there
        self._came_from: tuple[GroupPosition | None, DataError | None] | None = None

    def restore(self, state: ConsumerState) -> None:
        """Take over what the cursor store has."""
        self.cursor, self.losses, self.quiet_since = state.cursor, state.losses, state.quiet_since
        self.phase = Phase.DROPPED if state.dropped else Phase.WAITING
        self.new = state.cursor is None
        self.lasting, self.unread = state.lasting, state.unread
        self.unreadable = state.unreadable

    def _go(self, step: Step) -> None:
        self.phase = after(self.phase, step)

    @property
    def kept(self) -> bool:
        """Whether the rings hold the rows that it has not acknowledged."""
        return self.phase in KEPT

    def drop(self) -> None:
        """Stop keeping rows for the client id; the cursor stays."""
        self._go(Step.DROP)
        self.purged = None
        self._writes.changed()

    def last(self) -> None:
        """Hold rows for it before it has acknowledged any, however long it is away."""
        if not self.lasting:
            self.lasting = True
            self._writes.changed()

    def leave(self) -> None:
        """Keep nothing for it any more: it was unsubscribed."""
        self._go(Step.LEAVE)
        self.purged = self._came_from = None

    def needs(self, shard: str, position: Position, stream: Stream) -> bool:
        """Return whether a shard was asked to open at `position` for this subscriber."""
        return self.kept and self.position_in(shard, stream) == position

    def has_passed(self, shard: str, state: ShardState, stream: Stream) -> bool | None:
        """Return whether the cursor is after the event that stopped a shard; None if that is not known."""
        at = self.position_in(shard, stream)
        if at is None or at == state.asked_at:
            return None if at is None else False
        return state.has_passed_event(at)

    def position_in(self, shard: str, stream: Stream) -> Position | None:
        """Return where the cursor is in a shard; None: that is not known."""
        return None if self.cursor is None else stream.membership.with_joined(self.cursor).shards.get(shard)

    def begin_anew(self, found_us: int) -> None:
        """Start where the next log will start; a rewind has to follow.

        What lies between is a loss if its consumer was told the cursor; `found_us`: as `Loss.found_us`.
        """
        assert self.new, "a subscriber that started earlier has a position of its own"
        if self.cursor is not None and self._writes.durable:
            self._left = self.cursor, found_us
        self.cursor = self.quiet_since = None

    # ---- purged sources --------------------------------------------------------------------------------

    def purge(self, error: DataError) -> list[Instruction]:
        """Note that a source has purged the binlog that follows its cursor.

        A subscriber that sought that position returns to its previous one; a rewind has to follow. For any
        other subscriber nothing is kept until its consumer says where to continue.
        """
        if self.seeks:
            self.come_back()
        else:
            self._go(Step.PURGE)
            self.purged = _told(self._client_id, error)
        return self._delivery.refuse_waiting(error)

    def may_move_over(self, shard: str) -> bool:
        """Return whether it may move over what was purged, and has not done so too often without a row."""
        return self._moves.get(shard, 0) < MOVES_MAX

    def move_over(self, shard: str, until: Position, found_us: int, stream: Stream) -> None:
        """Go on after what a source has purged, with the loss in the same write; a rewind has to follow.

        Keys do not fall below what was delivered.
        """
        assert self.cursor is not None, "a cursor was refused"
        assert not self._writes.writing, "no write that is under way may take the cursor back"
        after = stream.membership.with_joined(self.cursor).shards[shard]
        until = replace(
            until, key_us=after.key_us, commit_us=after.commit_us, rows_into_transaction=0, page_rows=0
        )
        self.cursor, self.quiet_since = self.cursor.with_shard(shard, until), None
        self.losses = with_loss(self.losses, shard, after, until, found_us)
        self._moves[shard] = self._moves.get(shard, 0) + 1
        self._writes.changed()

    def miss(self, shard: str, end: Position) -> None:
        """Note that a shard leaves with what lies between the cursor and `end`; `reconcile` has to follow."""
        at = None if self.cursor is None else self.cursor.shards.get(shard)
        if at is not None and not reaches_back({shard: end}, {shard: at}):
            self.losses = with_loss(self.losses, shard, at, end, 0)

    # ---- the cursor -------------------------------------------------------------------------------------

    def resume(self, where: Resume | None) -> None:
        """Continue after a drop or a purge; `stand_at` has to follow.

        A dropped subscriber continues at its cursor if `where` is None: it was not dropped yet when its
        consumer subscribed. A purged one continues only if `where` is given.
        """
        if self.kept or (where is None and self.phase is Phase.PURGED):
            return
        if self.phase is Phase.DROPPED:
            self._writes.changed()
        self._go(Step.RESUME)
        self.purged = self.unreadable = None
        if where is Resume.NOW:
            self.cursor, self._gave_up_at, self.quiet_since = None, self.cursor, None

    def begin_at(self, start: GroupPosition, stream: Stream) -> None:
        """Move the cursor to a chosen position; a rewind has to follow unless it is then READING.

        Everything before `start` counts as consumed, whatever the cursor was.
        """
        cursor = stream.reconciled(start)
        self._move(cursor)
        self.quiet_since = None
        self.forget_unread()
        if stream.holds(cursor):
            self.stand_at(cursor, stream)
        elif self.phase is Phase.READING:
            self._go(Step.SEEK)

    def snapshot_ended(self, shard: str, end: SnapshotEnd) -> None:
        """Note what a snapshot of a shard has come to, when the shard reports it."""
        self._set_unread({**self.unread, shard: end.after(self.unread.get(shard, FailedTables()))})

    def forget_unread(self) -> None:
        """Note that an operator gives up the tables that were not read, or has the client begin elsewhere."""
        self._set_unread({})

    def _set_unread(self, unread: Mapping[str, FailedTables]) -> None:
        left = {shard: tables for shard, tables in unread.items() if tables.count}
        if left != self.unread:
            self.unread = left
            self._writes.changed()

    def check_snapshots(self, position: GroupPosition | None) -> None:
        """Return if a position that a consumer kept asks no source for more than its cursor does.

        Raises:
            UsageError: a snapshot of it is another client's, whose pages would be removed; or it has
                conditions, and is not that of the cursor.
        """
        mine = {} if self.cursor is None else self.cursor.snapshots
        for shard, text in ({} if position is None else position.snapshots).items():
            asked = SnapshotCursor.from_json(text)
            own = SnapshotCursor.from_json(mine[shard]) if shard in mine else None
            same = own is not None and (own.id, own.where) == (asked.id, asked.where)
            if asked.client_id != self._client_id or (asked.where and not same):
                raise UsageError(
                    f"A position of client {self._client_id} is of a snapshot that it does not have.",
                    hint="Start again from its cursor.",
                )

    def begin_snapshot(self, cursor: GroupPosition) -> list[Instruction]:
        """Make a cursor with another snapshot the cursor; all shards have to be opened at it.

        Offset ranges that wait are refused: they begin with the snapshot of before.
        """
        self._move(cursor)
        self._go(Step.SEEK)
        return self._delivery.refuse_ranges()

    def _move(self, cursor: GroupPosition) -> None:
        """Make a position the cursor, and forget how it came to the one before."""
        if self._writes.durable:
            self._writes.changed()
        if not self.kept:
            self._go(Step.RESUME)
        self.purged = self.unreadable = self._came_from = self._gave_up_at = self._left = None
        self.new, self.cursor = False, cursor

    def stand_at(self, cursor: GroupPosition, stream: Stream) -> None:
        """Make `cursor` the cursor, read from the log's base, and skip what is at or before the cursor.

        Args:
            cursor: a shard that it does not name is positioned where the log starts.
            stream: one that merges and is positioned between two transactions.
        """
        self._go(Step.PLACE)
        if self._gave_up_at is not None:
            cursor, self._gave_up_at = cursor.further(self._gave_up_at), None
        reconciled = stream.reconciled(cursor)
        self._note_shards(reconciled)
        self.cursor = reconciled
        self._note_left(reconciled)
        self._delivery.read_position.stand_at(reconciled, stream)

    def _note_shards(self, reconciled: GroupPosition) -> None:
        """Have the cursor written if shards joined or left; a shard that left has no unread tables."""
        self._set_unread({shard: each for shard, each in self.unread.items() if shard in reconciled.shards})
        if self.cursor is not None and not self.cursor.knows_shards_of(reconciled):
            self._writes.changed()

    def _note_left(self, cursor: GroupPosition) -> None:
        """Record losses between the cursor that the consumer was told and the cursor at the start."""
        if self._left is None:
            return
        (left, found_us), self._left = self._left, None
        for shard, told in left.shards.items():
            until = cursor.shards.get(shard, told)
            if not reaches_back({shard: until}, {shard: told}):
                self.losses = with_loss(self.losses, shard, told, until, found_us)
        self._writes.changed()

    def reconcile(self, stream: Stream) -> None:
        """Note that shards joined or left; a shard that joined is positioned where it joined."""
        if self.cursor is None:
            return
        reconciled = stream.reconciled(self.cursor)
        self._note_shards(reconciled)
        self.cursor = reconciled

    def acked(self, batch: Batch, stream: Stream) -> None:
        """Move the cursor past a batch that the cursor store has as acknowledged."""
        self.new = False
        self._moves = {shard: times for shard, times in self._moves.items() if not self._passes(batch, shard)}
        cursor, self.quiet_since = self.cursor_after(batch, stream)
        if self._delivery.acked(batch, stream):
            self.cursor = cursor
            if self.quiet_since is not None and not self._delivery.ledger.outstanding:
                self._delivery.read_position.lift(cursor)
        elif batch.generation == stream.generation and batch.consumed is None and self.phase is Phase.READING:
            # The batch was rolled back during its acknowledgement, and its log still exists: read on after
            # the batch.
            self._delivery.read_position.go_past(batch)
            self.cursor = cursor
        elif self.kept and batch.generation != stream.generation and self._reads_pages(cursor):
            # Pages that were read again may have other rows at the same ordinals: read on after the cursor.
            self.cursor = cursor
            self._go(Step.SEEK)
        elif stream.merging and self.kept:
            self.stand_at(cursor, stream)
        else:
            self.cursor = cursor

    def _reads_pages(self, cursor: GroupPosition) -> bool:
        """Return whether its snapshot was not over at its cursor, or is not at the next one."""
        return bool(cursor.snapshots) or (self.cursor is not None and bool(self.cursor.snapshots))

    def cursor_after(self, batch: Batch, stream: Stream) -> tuple[GroupPosition, GroupPosition | None]:
        """Return the cursor after a batch is acknowledged, and its `quiet_since`.

        An offset range that is read again may end before what the cursor has passed without rows.
        """
        end = stream.reconciled(batch.ack)
        if self.quiet_since is None or self.cursor is None:
            return end, None
        cursor = end.further(self.cursor)
        return cursor, end if cursor != end else None

    def pass_quiet(self, stream: Stream) -> bool:
        """Move the cursor past transactions of which nothing is kept; return whether it moved."""
        if self.phase is not Phase.READING or self.reads_ranges or self.seeks or self._writes.writing:
            return False
        if self._delivery.ledger.outstanding:
            return False
        moved = self._delivery.read_position.pass_quiet(stream)
        if moved is None:
            return False
        self.quiet_since = self.quiet_since or self.cursor
        self.cursor = stream.reconciled(moved)
        self._writes.changed()
        return True

    def _passes(self, batch: Batch, shard: str) -> bool:
        """Return whether a batch brought something of a shard."""
        before = self.cursor.shards.get(shard) if self.cursor is not None else None
        after = batch.ack.shards.get(shard)
        if before is None or after is None:
            return False
        return (before.file, before.offset) != (after.file, after.offset)

    def rewind(self) -> list[Instruction]:
        """Forget outstanding batches: the log that they came from is gone. `stand_at` has to follow.

        The consumer is told before it gets anything again.
        """
        self._go(Step.REWIND)
        self.new = self.cursor is None
        return self._delivery.lose()

    # ---- other positions --------------------------------------------------------------------------------

    @property
    def seeks(self) -> bool:
        """Whether its consumer asked for the cursor's position, and nothing was delivered from there yet."""
        return self._came_from is not None

    def from_cursor(self, offset_range: OffsetRange) -> OffsetRange:
        """Return an offset range that begins at the cursor in each shard in which that is further.

        The cursor passed nothing there that is kept, and the range may begin after it in other shards.

        Raises:
            UsageError: see `as_steered`.
        """
        since, cursor = self.quiet_since, self.cursor
        start = offset_range.start if cursor is None else as_steered(cursor, offset_range.start)
        offset_range = replace(offset_range, start=start)
        if since is None or cursor is None or since.sequence > start.sequence:
            return offset_range
        if not reaches_back(since.shards, start.shards):
            return offset_range
        begin = start.further(cursor)
        noted = start if offset_range.until is not None else None
        return replace(offset_range, start=begin, noted=noted)

    def _quiet_before(self, sought: GroupPosition) -> GroupPosition | None:
        """Return `quiet_since` for a position that is at the cursor in some shards; None: it is in none."""
        if self.quiet_since is None or self.cursor is None:
            return None
        since, cursor = self.quiet_since.shards, self.cursor.shards
        kept = {name: since[name] for name in since if sought.shards.get(name) == cursor.get(name)}
        return replace(sought, shards={**sought.shards, **kept}) if kept else None

    def would_rewind(self, call: GetRange, stream: Stream) -> bool:
        """Return whether an offset range needs a rewind, which rolls back the other subscribers too."""
        start = call.offset_range.start
        if self._delivery.find_range(call.offset_range) is not None or self._stands_at(start, stream):
            return False
        sought = stream.reconciled(start)
        forward = self._is_forward(sought)
        if self._holds(sought, stream) or not (forward or call.may_rewind):
            return False
        return self._has_to_open(sought, stream, forward=forward)

    def seek(self, start: GroupPosition, stream: Stream, *, may_rewind: bool) -> list[Instruction]:
        """Move to `start`; everything before it counts as consumed, whatever the cursor says.

        Other offset ranges that wait are refused: they begin elsewhere.

        Raises:
            RolledBack: `start` is not at or after the cursor, and `may_rewind` is False; nothing was changed.
        """
        if self._stands_at(start, stream):
            return []
        sought = stream.reconciled(start)
        forward, held = self._is_forward(sought), self._holds(sought, stream)
        if not forward and not may_rewind:
            raise RolledBack(
                f"The offset range does not start at or after the cursor of client {self._client_id}, and the"
                " request does not allow a rewind.",
                hint="Its rows were acknowledged already, or an earlier run of the consumer asked for it."
                " Continue at the cursor.",
            )
        opens = self._has_to_open(sought, stream, forward=forward)
        refusals = self._delivery.refuse_ranges()
        self.new, self._left, self.quiet_since = False, None, self._quiet_before(sought)
        self._delivery.give_back()
        before, self.cursor = (self.cursor, self.purged), sought
        if held:
            self.stand_at(sought, stream)
        elif opens:
            self._go(Step.SEEK)
            self._came_from, self.purged = self._came_from or before, None
        return refusals

    def arrived(self) -> None:
        """Note a delivery from the position that `seek` chose, so that `come_back` does nothing."""
        self._came_from = None

    def come_back(self) -> None:
        """Return to the position before a `seek` from which nothing was delivered."""
        if self._came_from is not None:
            (self.cursor, self.purged), self._came_from = self._came_from, None
            self.quiet_since = None
            self._go(Step.SEEK if self.purged is None else Step.PURGE)

    def _stands_at(self, start: GroupPosition, stream: Stream) -> bool:
        positioned = self._positioned(stream)
        return (
            self.kept
            and positioned is not None
            and same_positions(positioned, start)
            and all(
                positioned.shards[shard].snapshot == at.snapshot
                for shard, at in start.shards.items()
                if shard in positioned.shards
            )
        )

    def _positioned(self, stream: Stream) -> GroupPosition | None:
        return self._delivery.read_position.position if self._reads(stream) else self.cursor

    def _is_forward(self, sought: GroupPosition) -> bool:
        return self.cursor is not None and reaches_back(self.cursor.shards, sought.shards)

    def _holds(self, sought: GroupPosition, stream: Stream) -> bool:
        """Return whether it reads the current log, which holds what follows a position."""
        return self._reads(stream) and stream.holds(sought) and not self._is_paged(sought, stream)

    def _has_to_open(self, sought: GroupPosition, stream: Stream, *, forward: bool) -> bool:
        """Return whether the shards have to be opened at a position that the log does not hold."""
        return stream.merging or not forward or not self.kept or self._is_paged(sought, stream)

    def _is_paged(self, sought: GroupPosition, stream: Stream) -> bool:
        """Return whether shards are read for a snapshot, or will be at a position.

        Its pages follow from where they were opened, whatever a later position says of the tables.
        """
        positioned = self._positioned(stream)
        return bool(sought.snapshots) or (positioned is not None and bool(positioned.snapshots))

    def _reads(self, stream: Stream) -> bool:
        return stream.merging and self.phase is Phase.READING


def _told(client_id: str, error: DataError) -> DataError:
    """Return the error for a consumer whose cursor was purged."""
    return type(error)(
        f"Client {client_id} cannot go on at its cursor: {error.message}",
        hint=f"{error.hint} Then subscribe with resume='cursor' to try again, or with resume='now' to"
        " continue where the others are and skip the rows in between.".strip(),
        **error.details,
    )
