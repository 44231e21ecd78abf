"""Dumps: chooses where the packets of a reader's streams come from.

    DumpServer      the window of a dump server, else as the next one
    Archives        the archive of the source, else as the next one
    OwnDumps        a dump of the source

Each stream comes from one of them, and ends where another one is to go on: between two transactions, at the
position that was handed over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from canal_group.binlog.archive.reading.archive_packets import ArchivePackets
from canal_group.binlog.server.dump.archived import STALLED_S, Archived, is_before
from canal_group.binlog.server.dump.own_dump import open_dump
from canal_group.binlog.server.dump.packet_source import PacketSource
from canal_group.binlog.server.dump_server.access import (
    DumpServerAccess,
    NeededBy,
    knock,
    not_told,
    report_damage,
)
from canal_group.binlog.server.dump_server.shared_dump import SharedDump
from canal_group.binlog.server.semi_sync.modes import SemiSync
from canal_group.binlog.server.semi_sync.replies import NO_REPLIES, NoReplies, Ring
from canal_group.binlog.server.source import SourceAddress
from canal_group.binlog.server.starts.identity import SourceLog
from canal_group.binlog.server.starts.server_log import ArchivedLog, ServerLog
from canal_group.binlog.server.starts.stream_start import FromOffset
from canal_group.merge.errors import (
    CanalGroupError,
    DataError,
    PositionPurged,
    PositionRefused,
    RetryableError,
    SourceUnavailable,
)
from canal_group.merge.values.position import Position, file_order

_log = logging.getLogger(__name__)

#: bytes that an archive has after a position, at least, so that a reader leaves a dump of its own for it:
#: so much a source sends before it is left
NEAR_BYTES: Final = 1 << 20
#: how often a reader of the source looks whether the archive has what follows, seconds
_LOOK_EVERY_S: Final = 1.0
#: how often it looks while it waits for the archive, seconds
_WAIT_S: Final = 0.05
#: how long a reader at an archive's end waits for more events, seconds: a busy dump server appends to the
#: archive within that time, and an idle server has the events in its window
_REST_S: Final = 0.2


class OwnDumps:
    """The packet sources of one reader; used by one thread, `shared` by any. Each is a dump of the source.

    Args:
        address: the source.
        semi_sync: what it is told.
        stopped: is set when the reader is to end.
    """

    #: whether a dump server sends what is read
    shared = False

    def __init__(self, address: SourceAddress, semi_sync: SemiSync, stopped: threading.Event) -> None:
        self._address, self._semi_sync, self._stopped = address, semi_sync, stopped

    @property
    def archive_state(self) -> Mapping[str, Any] | None:
        """What the archive has of the source, see `Reader`."""
        return None

    def open(self, start: FromOffset, log: ServerLog) -> tuple[PacketSource, FromOffset, NoReplies]:
        """Return a packet source, the start as it has it, and what the source is told.

        Args:
            start: where a stream begins.
            log: the server.

        Raises:
            SourceUnavailable, SourceUnfit: see `open_dump`.
        """
        dump = open_dump(self._address, start, log.facts.identity, self._semi_sync.wake())
        return dump, start, self._semi_sync.replies(dump, start.position)

    def better(self, start: FromOffset, log: ServerLog, *, caught_up: bool, prepared: int) -> bool:  # noqa: ARG002
        """Return whether a stream is to be ended, because another source of packets serves what follows.

        Args:
            start: where the next stream would begin.
            log: the server.
            caught_up: whether the stream has just caught up with its source.
            prepared: how many XA transactions are prepared there.
        """
        return False

    def lost(self, error: CanalGroupError) -> bool:  # noqa: ARG002 - others need it
        """Return whether an error says nothing of the source, so that the next stream reads another one."""
        return False

    def told(self, error: SourceUnavailable | DataError) -> SourceUnavailable | DataError:
        """Return an error of the source, with why no other one has what it lacks."""
        return error

    def log_of(self, log: ServerLog) -> SourceLog:
        """Return the binlog that a stream comes from, to look at what is before its start."""
        return log

    def reading(self, created: Mapping[str, int]) -> None:
        """Note the files of which chunks are handed over next, and when they were created."""

    def left(self) -> None:
        """Note that a stream has ended."""

    def close(self) -> None:
        """Close what no stream has taken."""


class Archives(OwnDumps):
    """The archive of the source sends a stream as far as it has it; else the stream has a dump of its own."""

    def __init__(self, address: SourceAddress, semi_sync: SemiSync, stopped: threading.Event) -> None:
        super().__init__(address, semi_sync, stopped)
        #: the packets of the archive that are read
        self._packets: ArchivePackets | None = None
        #: where the archive's last stream began; a stream that ended at once is not begun there again
        self._begun: Position | None = None
        #: why the archive did not have what was asked; empty: it had, or was not asked
        self._why = ""
        #: the file up to which the archive cannot be read
        self._unreadable = ""
        self._looked_s = 0.0

    def open(self, start: FromOffset, log: ServerLog) -> tuple[PacketSource, FromOffset, NoReplies]:
        """Return the stream of the archive, or a dump of the source."""
        if self._address.archive is not None:
            self._await(start, log)
            self._packets = self._archived(start, log)
            if self._packets is not None:
                self._begun = start.position
                _log.info(
                    "reads %s from its archive from %s",
                    self._address.location,
                    start.position,
                    extra={"shard": self._address.name},
                )
                return self._packets, start, NO_REPLIES
        return super().open(start, log)

    def better(self, start: FromOffset, log: ServerLog, *, caught_up: bool, prepared: int) -> bool:  # noqa: ARG002
        """Return whether the archive has much of what the source would send."""
        now_s = time.monotonic()
        if (
            self._address.archive is None
            or self._packets is not None
            or prepared
            or now_s < self._looked_s + _LOOK_EVERY_S
        ):
            return False
        self._looked_s = now_s
        position = start.position
        try:
            end = Archived(self._address, log.facts.identity).end()
        except CanalGroupError:
            return False  # it is said when a stream is opened
        here = position.file, position.offset
        if end is None or not is_before(here, end):
            return False
        return _bytes_between(log.sizes(), here, end) >= NEAR_BYTES and self._has(start, log)

    def lost(self, error: CanalGroupError) -> bool:
        """Return whether the archive has sent the stream: its end says nothing of the source."""
        packets, self._packets = self._packets, None
        if packets is None:
            return False
        if "xid" in error.details:
            self._begun = None  # the next stream looks back from there
            return False
        if isinstance(error, DataError):
            self._fails(error, packets.file)
            history = packets.history
            where = f"{history.name}/{packets.file}"
            report_damage(self._address, history.manifest.server, error, where)
        return True

    def told(self, error: SourceUnavailable | DataError) -> SourceUnavailable | DataError:
        """Return an error of the source, with why the archive does not help."""
        if not isinstance(error, PositionPurged) or not self._why:
            return error
        return PositionPurged(f"{error.message} {self._why}", hint=error.hint, **error.details)

    def log_of(self, log: ServerLog) -> SourceLog:
        """Return the binlog as the archive has it, if the stream comes from there."""
        return log if self._packets is None else ArchivedLog(self._packets.history, log)

    def left(self) -> None:
        """Note that a stream has ended."""
        self._packets = None

    def _archived(self, start: FromOffset, log: ServerLog) -> ArchivePackets | None:
        """Return the archive's events from a start on; None: it has none, or cannot be read."""
        position = start.position
        tried, self._begun = position == self._begun, None
        file = start.file_offset[0] or position.file
        if tried or (self._unreadable and not _is_later(file, self._unreadable)):
            return None
        archived = Archived(self._address, log.facts.identity)
        self._why = ""

        def follow(at_rest: bool, waited_s: float) -> bool:
            """Wait for what a dump server writes: for the rest of a transaction long."""
            wait_s = _REST_S if at_rest else STALLED_S
            return waited_s < wait_s and knock(self._address, log.facts.identity)

        try:
            packets = archived.packets(start, log.sizes, follow)
        except PositionRefused as error:
            self._why = error.message
            return None
        except SourceUnavailable:
            return None  # a file has just been begun, or the source does not answer, which a dump says
        except (DataError, RetryableError) as error:
            self._fails(error, position.file)
            report_damage(self._address, log.facts.identity, error)
            return None
        if packets.has_more:
            return packets
        packets.close()
        return None

    def _fails(self, error: CanalGroupError, file: str) -> None:
        """Note that the archive cannot be read in a file, and say so."""
        self._unreadable, self._why = file, error.message
        _log.warning(
            "%s is read instead of its archive: %s",
            self._address.location,
            error,
            extra={"shard": self._address.name},
        )

    def _has(self, start: FromOffset, log: ServerLog) -> bool:
        packets = self._archived(start, log)
        if packets is not None:
            packets.close()
        return packets is not None

    def _await(self, start: FromOffset, log: ServerLog) -> None:
        """Wait for a dump server that archives what a start needs, and the source has to send.

        It is waited for if the source would send more from the start to its end than the archive lacks up to
        the start. If not, all of that is sent twice: the archive holds none of it yet, and the reader would
        wait for more than that.
        """
        position, server = start.position, log.facts.identity
        if start.by_gtid or not position.is_of(server) or not knock(self._address, server):
            return
        sizes = log.sizes()
        archived, here = Archived(self._address, server), (position.file, position.offset)
        if position.file not in sizes:
            return
        behind = _bytes_between(sizes, here, list(sizes.items())[-1])
        before: tuple[str, int] | None = None
        grown_s = time.monotonic()
        while not self._stopped.is_set() and time.monotonic() < grown_s + STALLED_S:
            try:
                end = archived.end()
            except SourceUnavailable:
                end = before  # a file has just been begun
            except CanalGroupError:
                return  # it is said when it is opened
            lacks = _bytes_between(sizes, end or (position.file, 4), here)
            if (end is not None and is_before(here, end)) or lacks + NEAR_BYTES > behind:
                return
            if end != before:
                before, grown_s = end, time.monotonic()
            self._stopped.wait(_WAIT_S)


class DumpServer(Archives):
    """A dump server sends a stream if it covers its start; else the archive or the source does.

    It knows offsets in one server's binlog only, and replies to no source.

    Args:
        address: the source.
        semi_sync: what it is told.
        stopped: is set when the reader is to end.
        ring: where what is read is stored: an archive keeps what it has not freed; None: nowhere.
        needed: see `DumpServerAccess`.
    """

    def __init__(
        self,
        address: SourceAddress,
        semi_sync: SemiSync,
        stopped: threading.Event,
        ring: Ring | None,
        needed: NeededBy = not_told,
    ) -> None:
        super().__init__(address, semi_sync, stopped)
        self._access = DumpServerAccess(address, ring, needed)
        #: whether a stream by GTID has reached the end that the server's binlog had when it began: from there
        #: on, nothing in the binlog is in the position's GTID set
        self._met_end = False

    @property
    def shared(self) -> bool:  # type: ignore[override]
        """Whether a dump server sends what is read."""
        return self._access.attached

    @property
    def archive_state(self) -> Mapping[str, Any] | None:
        """What the archive has of the source, see `Reader`."""
        return self._access.archive_state

    def open(self, start: FromOffset, log: ServerLog) -> tuple[PacketSource, FromOffset, NoReplies]:
        """Return the stream of the dump server, or another one."""
        served, server = start.served(), log.facts.identity
        attachment = None
        if served is not None and self._may_serve(start, server):
            attachment = self._access.begin(start.position, server)
        # Only now: what keeps the dump server must not race with what starts it.
        self._access.keep(start.position, server)
        if served is None or attachment is None:
            return super().open(start, log)
        another = partial(self._access.another, attachment.position, server)
        return SharedDump(self._address.name, attachment, another), served, NO_REPLIES

    def better(self, start: FromOffset, log: ServerLog, *, caught_up: bool, prepared: int) -> bool:
        """Return whether the dump server covers the start, and does not send the stream already."""
        self._met_end |= caught_up
        if self._access.attached:
            return False
        server = log.facts.identity
        if not prepared and self._may_serve(start, server) and self._access.move(start.position, server):
            return True
        return super().better(start, log, caught_up=caught_up, prepared=prepared)

    def lost(self, error: CanalGroupError) -> bool:
        """Return whether the dump server, or the archive, has sent the stream."""
        if not self._access.attached:
            archived = super().lost(error)
            if archived:
                self._access.hurry()
            return archived
        # The next stream is not the dump server's: it says what is wrong with the source, if anything.
        self._access.lost(error.message)
        return True

    def reading(self, created: Mapping[str, int]) -> None:
        """Note the files of which chunks are handed over next, and when they were created."""
        self._access.reading(created)

    def left(self) -> None:
        """Note that a stream has ended."""
        super().left()
        self._access.left()

    def close(self) -> None:
        """Close an attachment that no stream has taken."""
        self._access.close()

    def _may_serve(self, start: FromOffset, server: str) -> bool:
        position = start.position
        return (
            position.server == server
            and not position.rows_into_transaction
            and (self._met_end or not start.by_gtid)
        )


def dumps_of(
    address: SourceAddress,
    semi_sync: SemiSync,
    stopped: threading.Event,
    ring: Ring | None,
    needed: NeededBy = not_told,
) -> OwnDumps:
    """Return where the packets of a reader of a source come from.

    Args:
        address: the source.
        semi_sync: what it is told.
        stopped: is set when the reader is to end.
        ring: see `DumpServer`.
        needed: see `DumpServer`.
    """
    if address.replies:
        return OwnDumps(address, semi_sync, stopped)
    if address.dump_window_bytes_max:
        return DumpServer(address, semi_sync, stopped, ring, needed)
    return Archives(address, semi_sync, stopped)


def _bytes_between(sizes: Mapping[str, int], begin: tuple[str, int], end: tuple[str, int]) -> int:
    """Return how many bytes a source has from one offset to another, by the sizes of its files."""
    if not is_before(begin, end):
        return 0
    first, last = file_order(begin[0]), file_order(end[0])
    files = [file for file in sizes if first <= file_order(file) < last]
    return sum(sizes[file] for file in files) - begin[1] + end[1]


def _is_later(file: str, than: str) -> bool:
    return file_order(file) > file_order(than)
