"""The state of a shard in one generation of the stream; a rewind resets it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from canal_group.merge.errors import (
    CanalGroupError,
    DataError,
    Detail,
    PositionRefused,
    SourceUnfit,
    UsageError,
)
from canal_group.merge.events import ShardReported
from canal_group.merge.values.position import ANY_SERVER, Position, file_order


class ShardPhase(StrEnum):
    """Phase of a shard, as the group knows it."""

    #: asked to open, no answer yet
    OPENING = "opening"
    #: its headers come in
    OPEN = "open"
    #: stopped at data that cannot be processed
    FAILED = "failed"


@dataclass(slots=True)
class ShardState:
    """State of a shard in this generation. Times are microseconds of the shell's clock."""

    phase: ShardPhase = ShardPhase.OPENING
    #: when the phase was entered
    since_us: int = 0
    #: when it last brought a header or a greater low watermark
    moved_us: int = 0
    #: time of the last report of a full ring
    full_us: int = 0
    #: whether its last report said so
    full: bool = False
    #: since when the ring is reported full without any release; None: not full
    full_since_us: int | None = None
    #: the position where it was opened; None until then
    opened_at: Position | None = None
    #: when its source's clock was last read, by the shell's clock, at the earliest; None: it was not
    clock_at_us: int | None = None
    #: how far the source's clock was ahead of the shell's, at most, since all that it had committed was known
    clock_ahead_us: int = 0
    #: the same by the last reading alone
    _last_ahead_us: int = 0
    #: identity of the server that its headers are of; empty: not known
    server: str = ""
    #: when the binlog files that its headers name were created, seconds since 1970, by file name
    created: dict[str, int] = field(default_factory=dict)
    #: see `HeaderRun.snapshots`, of headers that are not freed, and the last one before
    snapshots: dict[int, str] = field(default_factory=dict)
    #: position of the last open; None: as the settings say
    asked_at: Position | None = None
    #: up to where client ids have read, which was compared as well
    read_to: tuple[Position, ...] = ()
    #: reports that came before merging began; bounded by its ring
    early: list[ShardReported] = field(default_factory=list)
    #: why it is not open
    error: CanalGroupError | None = None
    #: when its source first refused `refused_at`, as purged or unknown; None if it has not
    purged_us: int | None = None
    reason: str = ""
    #: sequence of the last header that was taken, and of the last that was freed; -1 if none was
    taken: int = -1
    freed: int = -1

    @property
    def refused_at(self) -> Position | None:
        """The position that the error is about: its detail `refused`, else where it was asked to open."""
        return next((each for each in self.read_to if each.to_json() == self._refused), self.asked_at)

    @property
    def _refused(self) -> Detail:
        """The position that the error names as refused, as JSON text; None: no position was refused."""
        return None if self.error is None else self.error.details.get("refused")

    @property
    def event(self) -> Position | None:
        """The position of the event that stopped the shard; None if the error is not about an event."""
        details = {} if self.error is None else self.error.details
        file, offset = details.get("file"), details.get("offset")
        of_data = isinstance(self.error, DataError) and not isinstance(self.error, SourceUnfit)
        at_position = self.purged_us is not None or self._refused is not None
        stopped = self.phase is ShardPhase.FAILED and of_data and not at_position
        if not stopped or not isinstance(file, str) or not isinstance(offset, int):
            return None
        return Position(file, offset, server=str(details.get("server") or self.server))

    @property
    def begins_before_event(self) -> bool:
        """Whether the shard was opened before the event that stopped it, or at the event."""
        begun, event = self.opened_at or self.asked_at, self.event
        return begun is not None and event is not None and begun.within(event)

    def has_passed_event(self, cursor: Position) -> bool | None:
        """Return whether a cursor is after the event that stopped the shard.

        Returns:
            None if nothing tells that: the error is not about an event, or the cursor is another server's.
        """
        event = self.event
        if event is None:
            return None
        try:
            return event < replace(cursor, rows_into_transaction=0, page_rows=0)
        except UsageError:
            return None

    def concerns(self, cursor: Position | None) -> bool:
        """Return whether the error is one for a client at a cursor; None: its cursor is not known."""
        if cursor is None:
            return True
        if self.purged_us is not None or self._refused is not None:
            return cursor == self.refused_at
        return not self.has_passed_event(cursor)

    def forget_snapshots(self, sequence: int) -> None:
        """Forget the texts that other ones follow up to a header.

        The last one stays: its transaction may not have ended there.
        """
        for passed in sorted(each for each in self.snapshots if each <= sequence)[:-1]:
            del self.snapshots[passed]

    def read_clock(self, source_us: int, at_us: int) -> None:
        """Take a reading of the source's clock, made at `at_us` by the shell's clock or later."""
        ahead_us = source_us - at_us
        known = self.clock_at_us is not None
        self.clock_ahead_us = max(self.clock_ahead_us, ahead_us) if known else ahead_us
        self.clock_at_us = at_us
        self._last_ahead_us = ahead_us

    def caught_up(self) -> None:
        """Note that all that its source had committed is known: older readings say nothing of what comes."""
        self.clock_ahead_us = self._last_ahead_us

    def opened(self, position: Position, at_us: int) -> None:
        """Note that the shard reads from a position on."""
        self.phase, self.since_us, self.moved_us = ShardPhase.OPEN, at_us, at_us
        self.opened_at, self.error, self.reason, self.purged_us = position, None, "", None

    def not_opened(self, error: CanalGroupError) -> None:
        """Note why it is not open yet."""
        if self.phase is ShardPhase.FAILED:
            self.phase, self.purged_us = ShardPhase.OPENING, None
        self.error = error

    def failed(self, error: CanalGroupError, at_us: int) -> None:
        """Note the shard as stopped at its data."""
        if self.phase is not ShardPhase.FAILED:
            self.phase, self.since_us = ShardPhase.FAILED, at_us
        self.error = error
        # A client that is ahead may be refused while the shard reads what others need.
        brought = self.taken >= 0 and self.refused_at not in self.read_to
        if brought or self.asked_at is None:
            return
        if not isinstance(error, PositionRefused) and self._refused is None:
            self.purged_us = None
        elif self.purged_us is None:
            self.purged_us = at_us

    def ring_is(self, full: bool, stopped: bool, at_us: int) -> None:
        """Note whether its ring is full, and whether it has stopped at its data."""
        self.full = full
        if not full:
            self.full_since_us = None
            return
        if self.full_since_us is None:
            self.full_since_us = at_us
        self.full_us = at_us
        if not stopped:
            # It has read more than the ring takes: what is in the way now is that nobody acknowledges.
            self.got_past(at_us)

    def goes_on(self, at_us: int) -> None:
        """Note that it brought something."""
        self.moved_us = max(self.moved_us, at_us)
        self.got_past(at_us)

    def got_past(self, at_us: int) -> None:
        """Note that the shard reads again after an event that had stopped the shard."""
        if self.phase is ShardPhase.FAILED:
            self.phase, self.since_us, self.error = ShardPhase.OPEN, at_us, None
            self.purged_us = None


def refuses_too(error: CanalGroupError, refused: Position, position: Position) -> bool:
    """Return whether the error that refuses a position is known to be one for another position, too.

    Args:
        error: its detail `answering` is the server that cannot find positions of the refused one's server;
            its detail `newest_file` is the newest file of the server, which is older than the refused one.
        refused: the position that the error is about; `ANY_SERVER`: of any server that does not answer.
        position: the position of a client.
    """
    if isinstance(answering := error.details.get("answering"), str):
        return not position.is_of(answering) and refused.server in (ANY_SERVER, position.server)
    if isinstance(newest := error.details.get("newest_file"), str):
        (base, number), (newest_base, newest_number) = file_order(position.file), file_order(newest)
        return base == newest_base and number > newest_number
    return False
