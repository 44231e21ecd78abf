"""Writer: appends the events that a source sends to its archive, each checked before it is kept.

    with archive.lock(server):
        writer = ArchiveWriter(archive, server, sync_s=1.0, say=log.warning)
        begin a dump at writer.position, or at the beginning of a file if there is none
        for events in the dump:
            writer.append(events, time.monotonic())
            writer.upkeep.pack(1) compresses closed files meanwhile

What is refused raises, and nothing of it is kept; a stream that does not follow what there is needs a new
history: a writer that begins one `anew`. After an OSError the writer takes no more: a new one recovers.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.history import History
from canal_group.binlog.archive.open_binlog import OpenBinlog
from canal_group.binlog.archive.recovery import Recovery, Say
from canal_group.binlog.archive.upkeep import Upkeep
from canal_group.binlog.formats.event_types import EventType, type_name
from canal_group.binlog.formats.events import (
    CHECKSUM_SIZE,
    HEADER_SIZE,
    MAGIC,
    header_of,
    parse_rotate,
)
from canal_group.merge.errors import CorruptEvent, RetryableError, UsageError
from canal_group.merge.values.gtids.gtid import NO_GTIDS, parse_gtid_set
from canal_group.merge.values.position import Position, file_order
from canal_group.merge.values.resets.reset import created_again, refused_again

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: bytes after which the manifest says anew how much of the open file is durable
MARK_BYTES: Final = 64 << 20
_HEARTBEATS: Final = (EventType.HEARTBEAT, EventType.HEARTBEAT_V2)


class ArchiveWriter:
    """Writes the binlog of one server; the caller holds the lock of that server. Used by one thread.

    Args:
        archive: where to.
        server: identity of the server.
        sync_s: the longest time between two syncs while events arrive, seconds; 0: each `append` syncs.
        say: takes a sentence on what a crash has left.
        anew: whether to begin a history, and leave the newest one as it is.

    Raises:
        CorruptEvent, UnsupportedEvent: the manifest of the newest history cannot be read.
        SourceUnfit: the open file is encrypted with another key.
        RetryableError: the disk cannot be used.
    """

    def __init__(self, archive: Archive, server: str, *, sync_s: float, say: Say, anew: bool = False) -> None:
        self._archive, self._server, self._sync_s = archive, server, sync_s
        #: name of the file whose format description comes next; empty: none is announced
        self._next = ""
        self._synced_s = 0.0
        self._unsynced = False
        self._ended = ""
        #: the history that is written; None: the first file will begin a history
        self.history: History | None = None
        self._open: OpenBinlog | None = None
        self._upkeep: Upkeep | None = None
        try:
            self.history = None if anew else archive.newest(server) or self._moved(say)
            if self.history is not None:
                self._open = Recovery(archive.disk, self.history, archive.keys, say).run()
                if left := Upkeep(archive, self.history).finish_pruning():
                    say(left)
        except OSError as error:
            raise self._failure(error) from error
        self._durable = self._after(whole=True)

    def _moved(self, say: Say) -> History | None:
        """Return a history of the files that another machine has moved to the store; None: no files."""
        found = self._archive.begin_moved(self._server)
        if found is not None:
            files = found.manifest.files
            say(
                f"{self._archive.folder} has nothing of server {self._server}. Its store has {found.name}: "
                f"the archive goes on after its files {files[0].name} to {files[-1].name}."
            )
        return found

    @property
    def position(self) -> Position | None:
        """Where a dump has to go on: after every event that was taken; None: at the beginning of any file."""
        return self._after(whole=False)

    @property
    def durable(self) -> Position | None:
        """End of the last whole transaction that outlasts a crash of the machine; None: no such end yet."""
        return self._durable

    @property
    def upkeep(self) -> Upkeep | None:
        """Compresses, moves and removes closed files of the history; None before the history has begun."""
        history = self.history
        if history is not None and (self._upkeep is None or self._upkeep.history is not history):
            self._upkeep = Upkeep(self._archive, history)
        return self._upkeep if history is not None else None

    @property
    def ended(self) -> bool:
        """Whether the last file is closed: all of it is here."""
        return self._open is None and not self._next

    def append(self, events: Buffer, now_s: float) -> None:
        """Take events, and sync if that is due; see `take` and `sync_if_due`."""
        self.take(events)
        self.sync_if_due(now_s)

    def take(self, events: Buffer) -> None:
        """Take events, whole ones, in the order and as the source sends them; call `sync_if_due` then.

        Heartbeats and other events that are made for a stream are read and not written.

        Args:
            events: one after the other, without packets' heads.

        Raises:
            CorruptEvent, UnsupportedEvent: an event is damaged, incomplete, or does not follow. Those
                before it are kept.
            DataError: the source has created the file again, see `refused_again`.
            RetryableError: the disk takes no more.
        """
        self._require_usable()
        with memoryview(events) as view:
            at = 0
            while at < len(view):
                if self._open is not None:
                    at += self._take(self._open, view[at:])
                    if at == len(view):
                        break
                at += self._take_sent(view[at:])

    def sync_if_due(self, now_s: float) -> None:
        """Make durable what was taken, if the last sync is so long ago; call it also while nothing arrives.

        Args:
            now_s: the time of any clock that never steps back, seconds.

        Raises:
            RetryableError: see `sync`.
        """
        if self._unsynced and now_s - self._synced_s >= self._sync_s:
            self._synced_s = now_s
            self.sync()

    def may_follow(self, file: str) -> bool:
        """Return whether a file is the next one, or the first."""
        last = self._next or (here.file if (here := self.position) is not None else "")
        return not last or _follows(last, file)

    def expect(self, file: str) -> None:
        """Close the open file, and take the events of another one from its beginning on.

        Raises:
            CorruptEvent: it is not the next file.
            UsageError: it cannot be the name of a binlog file.
            RetryableError: the disk takes no more.
        """
        file_order(file)
        if not self.may_follow(file):
            raise self._refused(f"The source goes on with {file}: files are missing before it.")
        self._end_file()
        self._next = file

    def sync(self) -> None:
        """Make everything durable that was taken.

        Raises:
            RetryableError: the disk has failed; what was not durable before is cut.
        """
        self._require_usable()
        opened = self._open
        if opened is not None and self._unsynced:
            try:
                opened.sync()
                self._unsynced = False
                self._durable = self._after(whole=True)
                if opened.scan.whole_end - opened.entry.size >= MARK_BYTES:
                    opened.mark(self._archive.disk)
            except OSError as error:
                raise self._failure(error) from error

    def close(self) -> None:
        """Make everything durable, and end; the last file stays open in the manifest.

        Raises:
            RetryableError: the disk has failed.
        """
        if not self._ended:
            self.sync()
            if self._open is not None:
                try:
                    self._open.mark(self._archive.disk)
                except OSError as error:
                    raise self._failure(error) from error
                self._open.close()
            self._open, self._ended = None, "it was closed"

    def _take(self, opened: OpenBinlog, view: memoryview) -> int:
        """Write the next events that are in the open file; return their bytes."""
        self._unsynced = True
        try:
            return opened.take(view)
        except OSError as error:
            raise self._failure(error) from error

    def _take_sent(self, view: memoryview) -> int:
        """Take an event that is not in the open file, or begins the next one; return its bytes."""
        header = header_of(bytes(view[:HEADER_SIZE])) if len(view) >= HEADER_SIZE else None
        if header is None or not HEADER_SIZE <= header.size <= len(view):
            size = f"{header.size:,}" if header else "?"
            raise self._refused(f"An event is not whole: {len(view):,} of its {size} bytes were sent.")
        if header.event_type == EventType.ROTATE:
            self._rotate(bytes(view[: header.size]))
        elif header.event_type == EventType.FORMAT_DESCRIPTION and not self._describe(
            bytes(view[: header.size])
        ):
            return 0  # it is the first event of the file that was begun for it
        elif header.log_pos and self._open is None and header.event_type not in _HEARTBEATS:
            raise self._refused(f"A {type_name(header.event_type)} event came before its file was named.")
        return header.size

    def _rotate(self, event: bytes) -> None:
        try:
            rotate = parse_rotate(_without_checksum(event)[HEADER_SIZE:])
        except CorruptEvent as error:
            raise self._refused(error.message) from error
        here = self.position
        if here is not None and rotate.file == here.file and not self._next:
            if rotate.offset != here.offset:
                raise self._refused(f"The source goes on at {rotate.file}:{rotate.offset}.")
        elif rotate.offset != len(MAGIC):
            raise self._refused(f"The source begins at {rotate.file}:{rotate.offset}, inside a file.")
        elif rotate.file != self._next:
            self.expect(rotate.file)

    def _describe(self, event: bytes) -> bool:
        """Take a format description; return False if the file was begun for it, which then takes it."""
        header = header_of(event)
        here = self.position
        if self._next:
            if not header.log_pos:
                raise self._refused(f"The description of {self._next} is that of a later offset.")
            self._begin_file(self._next, event)
            self._next = ""
            return False
        if here is None:
            raise self._refused("A format description came before its file was named.")
        if created_again(here.created_s, header.timestamp):
            raise refused_again(here.file, here.created_s, header.timestamp)
        return True

    def _begin_file(self, file: str, description: bytes) -> None:
        disk, key = self._archive.disk, self._archive.keys.first
        try:
            if self.history is None:
                self.history = self._archive.begin(self._server, header_of(description).timestamp)
            last = self.history.manifest.last
            gtids = NO_GTIDS if last is None else parse_gtid_set(last.gtids)
            self._open = OpenBinlog.begun(disk, self.history, file, description, gtids, key)
        except OSError as error:
            raise self._failure(error) from error
        self._unsynced = True

    def _end_file(self) -> None:
        self.sync()
        if self._open is not None:
            try:
                self._open.end(self._archive.disk)
            except OSError as error:
                raise self._failure(error) from error
            self._open = None
            self._durable = self._after(whole=True)

    def _after(self, *, whole: bool) -> Position | None:
        """Return the position after what was taken; `whole`: after its last whole transaction."""
        last = self.history.manifest.last if self.history is not None else None
        if last is None:
            return None
        offset, gtids, commit_us = last.size, parse_gtid_set(last.gtids), last.latest_us
        if self._open is not None:
            scan = self._open.scan
            offset = scan.whole_end if whole else scan.offset
            gtids, commit_us = scan.gtids(), scan.times_us[1]
        return Position(last.name, offset, gtids, commit_us, server=self._server, created_s=last.created_s)

    def _failure(self, error: OSError) -> RetryableError:
        """Return the error of a disk that fails; what was not durable is cut, as far as possible."""
        self._ended = error.strerror or str(error)
        opened, self._open = self._open, None
        if opened is not None:
            durable = self._durable
            same = durable is not None and durable.file == opened.scan.file
            opened.cut(durable.offset if durable is not None and same else 0)
        return RetryableError(
            f"The archive {self._archive.folder} takes no more: {self._ended}.",
            hint="Free space on its disk, or mend it; what was not durable is sent again.",
            retry_after_s=5.0,
        )

    def _require_usable(self) -> None:
        if self._ended:
            raise UsageError(f"This writer has ended: {self._ended}.", hint="Open the archive again.")

    def _refused(self, what: str) -> CorruptEvent:
        here = self.position
        where = f"{here.file}:{here.offset}" if here else "its beginning"
        return CorruptEvent(
            f"{what} (server {self._server}, archive at {where})",
            hint="The dump does not follow what the archive holds: begin it there, or begin a new history.",
            server=self._server,
            file=here.file if here else "",
            offset=here.offset if here else 0,
        )


def _follows(file: str, later: str) -> bool:
    (base, number), (later_base, later_number) = file_order(file), file_order(later)
    return base == later_base and later_number == number + 1


def _without_checksum(event: bytes) -> bytes:
    """Return an event without its checksum, if it has one.

    Whether a stream has checksums is not known before its first format description.
    """
    end = len(event) - CHECKSUM_SIZE
    crc32 = int.from_bytes(event[end:], "little")
    return event[:end] if end >= HEADER_SIZE and zlib.crc32(event[:end]) == crc32 else event
