"""Stream start: where one stream begins, how that is requested, and where to go on if it is refused.

    FromOffset      at a file and offset of the server that sends
    LookingBack    likewise; the dump begins in an earlier file, to find rows of an XA transaction there
    Replaying      likewise; the dump begins at what a ring still holds, so that the source waits for that
    AfterGtids     after a set of GTIDs, wherever the server has what is not in it

A stream that continues by commit time begins `FromOffset`, once its offset was found, see `by_time`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pymysql

from canal_group.binlog.archive.history import History
from canal_group.binlog.archive.reading.lookup import after_gtids, at_position
from canal_group.binlog.formats.events import MAGIC, parse_header
from canal_group.binlog.server.dump.archived import with_older
from canal_group.binlog.server.dump.dump_request import OFFSET_MAX, DumpRequest, dump_after, dump_from
from canal_group.binlog.server.dump.packet_source import Reached
from canal_group.binlog.server.source import ServerFacts, SourceAddress
from canal_group.binlog.server.starts.available import archived_history
from canal_group.binlog.server.starts.identity import Identity
from canal_group.binlog.server.starts.remaining import with_remaining
from canal_group.binlog.server.starts.server_log import ServerLog
from canal_group.binlog.server.starts.start import (
    PURGED_HINT,
    explained_by_gtid,
    oldest_file,
    past_purged,
    require_contained,
    require_not_reset,
)
from canal_group.merge.errors import DataError, Detail, PositionPurged, PositionRefused, SourceUnavailable
from canal_group.merge.values.position import Position
from canal_group.merge.values.resets.reset import tells_reset

_WRAP = 1 << 32


class FromOffset:
    """At the file and offset of a position; the base of the other kinds.

    Args:
        position: what is handed over begins there: of the server that sends, or of one that is not known.
        begin: file and offset of the first event, at the position or before it; None: at the position.
        then: how the next stream of the reader begins; None: as this one, at its position.
    """

    #: whether the server decides where the position is; else it is an offset of its own
    by_gtid = False

    def __init__(
        self, position: Position, begin: tuple[str, int] | None = None, then: StartAt | None = None
    ) -> None:
        self.position = position
        #: the position as a decoder gets it; without a file: the first event says which it is
        self.decoded = position
        self.then: StartAt = FromOffset if then is None else then
        file, offset = begin or (position.file, position.offset)
        #: file and offset of the first event. An offset beyond 4 GiB cannot be requested: then it is the
        #: first one of the file
        self.file_offset = file, offset if offset <= OFFSET_MAX else len(MAGIC)

    @property
    def stays_by_gtid(self) -> bool:
        """Whether the reader's streams are requested by GTID, although this one may begin at an offset."""
        return self.then is AfterGtids

    def require_contained(
        self, address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts
    ) -> None:
        """Return if the server that answers has what was read before, as far as no file decides that.

        Raises:
            SourceUnavailable, SourceUnfit: see `canal_group.binlog.server.starts.start.require_contained`.
        """

    def request(self, server_id: int) -> DumpRequest:
        """Return the request for the dump."""
        return dump_from(*self.file_offset, server_id)

    def at_rest(self, reached: Reached, heartbeat: bytes) -> bool:  # noqa: ARG002 - others need it
        """Return whether a source that sends this heartbeat has sent all it had.

        Args:
            reached: how far the stream is read; it is moved over what the source left out.
            heartbeat: an event.
        """
        return True

    def knows(self, file_offset: tuple[str, int] | None) -> bool:  # noqa: ARG002 - others need it
        """Return whether what is before a stream's reading is known.

        Args:
            file_offset: what the stream has read up to; None: it is inside a transaction, or before
                the start.
        """
        return True

    def replayed(self, file_offset: tuple[str, int], purged: Callable[[], None]) -> FromOffset:
        """Return the start with a dump that begins earlier; itself if it cannot begin there.

        Args:
            file_offset: file and offset before it.
            purged: is called if the source has purged that.
        """
        return Replaying(self.position, file_offset, purged)

    def served(self) -> FromOffset | None:
        """Return the start that a dump server can serve; None: a dump server cannot begin there."""
        return self

    def archived(self, histories: Sequence[History]) -> tuple[History, Position]:
        """Return the history of the server's archive that has the start, and where its events begin there.

        Raises:
            PositionPurged, PositionRefused: the archive does not have it.
            CorruptEvent, SourceUnfit: it cannot be read.
        """
        return at_position(histories, self.position)

    def explained(self, address: SourceAddress, error: DataError) -> DataError:
        """Return a refusal with what was refused; if purged, also with the oldest file."""
        message = f"{error.message} The position is {self.position}."
        details = _offset_details(error, self.position)
        if not isinstance(error, PositionPurged):
            refused = PositionRefused if type(error) is DataError else type(error)
            return refused(message, hint=error.hint, **details)
        oldest = oldest_file(address)
        return PositionPurged(
            f"{message} The oldest file available is {oldest or 'unknown'}.",
            hint=PURGED_HINT,
            **{**details, "oldest_file": oldest},
        )

    def recovered(
        self, error: SourceUnavailable | DataError, at: Position, log: ServerLog, created: Mapping[str, int]
    ) -> FromOffset:
        """Return where to continue although a stream ended.

        Args:
            error: why it ended.
            at: the position that was reached.
            log: the server.
            created: creation times of the files that were read, seconds since 1970, by name.

        Raises:
            PositionPurged: transactions are missing; its details hold what the source still has.
            PositionRefused: the server has something else than what was read.
            SourceUnavailable, DataError: `error`: there is nowhere to continue, or not yet.
        """
        if isinstance(error, PositionPurged):
            return self._past(error, at, log, created)
        if isinstance(error, PositionRefused) or tells_reset(error):
            require_not_reset(log.address, log.connection, log.facts, at)
            Identity(log.address, log.facts, log, at).require_end()
        raise error

    def _past(
        self, error: PositionPurged, at: Position, log: ServerLog, created: Mapping[str, int]
    ) -> FromOffset:
        """Return where to go on after a purge: at earlier rows of XA transactions, or after empty files."""
        del created
        if "xid" in error.details:
            return LookingBack(at, at.file, self.then)
        try:
            return FromOffset(past_purged(log.address, log.connection, log.facts, at, error))
        except PositionPurged as purged:
            raise with_remaining(log.address, log.connection, log.facts, purged) from error


StartAt: TypeAlias = Callable[[Position], FromOffset]


class LookingBack(FromOffset):
    """At a position, after rows of XA transactions that were prepared from an earlier file on."""

    def __init__(self, position: Position, file: str, then: StartAt) -> None:
        super().__init__(position, (file, len(MAGIC)), then)

    def replayed(self, file_offset: tuple[str, int], purged: Callable[[], None]) -> FromOffset:  # noqa: ARG002
        """Return itself: it begins earlier."""
        return self

    def served(self) -> FromOffset | None:
        """Return None."""
        return None

    def archived(self, histories: Sequence[History]) -> tuple[History, Position]:
        """Return the history that has the start, and the beginning of the earlier file."""
        history, _ = super().archived(histories)
        return at_position([history], Position(*self.file_offset, server=self.position.server))

    def _past(
        self, error: PositionPurged, at: Position, log: ServerLog, created: Mapping[str, int]
    ) -> FromOffset:
        """Return the start that looks back one more file, or raise `error` at the oldest file."""
        del created
        history = archived_history(log.address, log.connection, log.facts)
        files = with_older(history, list(log.sizes()))
        file = self.file_offset[0]
        index = files.index(file) if file in files else 0
        if "xid" not in error.details or not index:
            raise error
        return LookingBack(at, files[index - 1], self.then)


class Replaying(FromOffset):
    """At a position, after what a ring still holds; see `FromOffset.replayed`."""

    def __init__(self, position: Position, begin: tuple[str, int], purged: Callable[[], None]) -> None:
        super().__init__(position, begin)
        self._purged = purged

    def _past(
        self, error: PositionPurged, at: Position, log: ServerLog, created: Mapping[str, int]
    ) -> FromOffset:
        del error, log, created
        self._purged()
        return FromOffset(at)


class AfterGtids(FromOffset):
    """After the GTID set of a position, which may be of any server.

    The source then says which file it begins with. Streams stay so, because the order of transactions may
    differ between servers. There is one exception: if the rows of an XA transaction lie before the position,
    they are looked for by file on the server that has its COMMIT.
    """

    by_gtid = True

    def __init__(self, position: Position) -> None:
        super().__init__(position, ("", len(MAGIC)), AfterGtids)
        self.decoded = Position("", len(MAGIC), rows_into_transaction=position.rows_into_transaction)

    def require_contained(
        self, address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts
    ) -> None:
        """Return if the server has all of the set."""
        require_contained(address, connection, facts, self.position)

    def request(self, server_id: int) -> DumpRequest:
        """Return the request for what is not in the set."""
        return dump_after(self.position.gtid_set, server_id)

    def at_rest(self, reached: Reached, heartbeat: bytes) -> bool:
        """Return whether the source has sent all it had; if it left something out, move to its offset."""
        if reached.in_transaction:
            return True
        passed_over = (parse_header(heartbeat).log_pos - reached.offset) % _WRAP
        reached.offset += passed_over
        return not passed_over

    def knows(self, file_offset: tuple[str, int] | None) -> bool:
        """Return whether the file and offset are known."""
        return file_offset is not None

    def replayed(self, file_offset: tuple[str, int], purged: Callable[[], None]) -> FromOffset:  # noqa: ARG002
        """Return itself: a dump by GTID has no offset."""
        return self

    def served(self) -> FromOffset | None:
        """Return the start at the offset of the position, for a reader that has read everything before it."""
        return FromOffset(self.position, then=AfterGtids)

    def archived(self, histories: Sequence[History]) -> tuple[History, Position]:
        """Return where what is not in the set begins in the server's archive."""
        return after_gtids(histories, self.position.gtid_set)

    def explained(self, address: SourceAddress, error: DataError) -> DataError:
        """Return a refusal with the set that was refused and the GTIDs that were purged."""
        return explained_by_gtid(address, error, self.position, _offset_details(error, self.position))

    def recovered(
        self, error: SourceUnavailable | DataError, at: Position, log: ServerLog, created: Mapping[str, int]
    ) -> FromOffset:
        """Return where to continue, see `FromOffset`; only a purge can be got past."""
        if not isinstance(error, PositionPurged):
            raise error
        # MySQL also says so of what it has executed, and has lost from the end of its log.
        Identity(log.address, log.facts, log, at).require(by_gtid=True)
        return self._past(error, at, log, created)

    def _past(
        self, error: PositionPurged, at: Position, log: ServerLog, created: Mapping[str, int]
    ) -> FromOffset:
        """Return where rows of an XA transaction may be."""
        if "xid" not in error.details:
            raise with_remaining(log.address, log.connection, log.facts, error) from error
        if at.is_of(log.facts.identity):
            return LookingBack(at, at.file, AfterGtids)
        # Files of another server mean nothing on this one. Everything before the COMMIT was delivered, or
        # comes with it: streams go on by file from there.
        file, offset = error.details["file"], error.details["begin_offset"]
        assert isinstance(file, str), "an event has a file"
        assert isinstance(offset, int), "a transaction begins somewhere"
        here = replace(
            at, file=file, offset=offset, server=log.facts.identity, created_s=created.get(file, 0)
        )
        return LookingBack(here, file, FromOffset)


def _offset_details(error: DataError, position: Position) -> dict[str, Detail]:
    return {**error.details, "file": position.file, "offset": position.offset}
