"""Present: a server's dictionary, and the statements between a position and now."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from canal_group.binlog.columns.table_lookup import NoLookup
from canal_group.binlog.formats.events import Query
from canal_group.binlog.grammar.chunk_builder import SEARCH_LIMITS
from canal_group.binlog.grammar.decoding import Decoding
from canal_group.binlog.grammar.skips import SkipsOf, no_skips
from canal_group.binlog.history.facts import Change, LogPosition
from canal_group.binlog.schema.catalog import Catalog
from canal_group.binlog.schema.statement import ServerVersion
from canal_group.binlog.server.binlog_stream import BinlogStream, stream_of
from canal_group.binlog.server.clock import SourceClock, clock_of
from canal_group.binlog.server.definitions.dictionary import ANSWER_S, Dictionary
from canal_group.binlog.server.definitions.lost import lost
from canal_group.binlog.server.definitions.scope import Scope
from canal_group.binlog.server.dump.packet_source import PacketSource
from canal_group.binlog.server.dump.spool import AheadEndsError
from canal_group.binlog.server.low_watermarks import CaughtUp, LowWatermarks
from canal_group.binlog.server.source import (
    ServerFacts,
    SourceAddress,
    connect,
)
from canal_group.binlog.server.starts.stream_start import AfterGtids, FromOffset
from canal_group.merge.errors import UnsupportedEvent
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.position import Position, file_order

_log = logging.getLogger(__name__)

#: statements between a position and now that are held, and characters of them
CHANGES_MAX = 100_000
CHANGES_CHARS_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class PresentReader:
    """Asks one server.

    Args:
        address: the server.
        facts: what it reports about itself.
        skips: what is left out of its binlog.
        scope: which of its statements are read.
    """

    address: SourceAddress
    facts: ServerFacts
    skips: SkipsOf = no_skips
    scope: Scope = field(default_factory=lambda: Scope(TableName, SEARCH_LIMITS.statement_chars_max))

    @property
    def version(self) -> ServerVersion:
        """The server's version."""
        return ServerVersion.parse(self.facts.version)

    @property
    def needed(self) -> bool:
        """Whether the server's table maps lack something: names, or what MariaDB's never say."""
        full = self.facts.variables.get("binlog_row_metadata", "").upper() == "FULL"
        return self.facts.mariadb or not full

    @contextlib.contextmanager
    def asking(self, answer_s: float = ANSWER_S) -> Iterator[Dictionary]:
        """Return the server's dictionary, on a connection of its own.

        Args:
            answer_s: how long an answer may wait for a statement that changes the table.

        Raises:
            SourceUnavailable, SourceUnfit: the server does not answer or refuses.
        """
        with contextlib.closing(connect(self.address)) as connection:
            yield Dictionary(self.address, connection, self.facts, answer_s)

    def maker(self) -> Callable[[], Catalog]:
        """Return a function that makes empty catalogs for this server's statements."""
        with self.asking() as dictionary:
            return dictionary.catalogs()

    def changes(
        self,
        begin: Position,
        until: LogPosition,
        *,
        after: LogPosition | None = None,
        by_gtid: bool = False,
        ahead: PacketSource | None = None,
    ) -> list[Change] | None:
        """Return the statements from one position to another; None if the binlog ends before the second.

        Args:
            begin: where a transaction begins; by GTID, of any server.
            until: where it ends.
            after: statements that end there or before do not count; None: all count.
            by_gtid: whether what the GTID set of `begin` lacks is read, wherever this server has it.
            ahead: sends the binlog from `begin` on, as far as it keeps that; None: a dump of its own does.

        Raises:
            SourceUnavailable, SourceUnfit: the server does not answer or refuses.
            PositionPurged: it has purged the beginning.
        """
        recorder = _Recorder(self, after, until)
        decoding = Decoding(
            lambda _schema, _table: None,
            SEARCH_LIMITS,
            lookup=recorder,
            verbatim=True,
            skips=self.skips(self.facts.identity),
        )
        with contextlib.closing(connect(self.address)) as connection:

            def measure() -> SourceClock:
                return clock_of(self.address, connection)

            if ahead is not None:
                stream = BinlogStream(self.address.name, ahead, decoding, LowWatermarks(measure, margin_us=0))
                with contextlib.closing(stream):
                    try:
                        return recorder.changes if _reaches(stream, until) else None
                    except AheadEndsError as ends:
                        file, begun_at, offset = stream.reading_at
                        self._note_end(ends, file, offset)
                        begin = Position(file, begun_at, created_s=stream.created.get(file, 0))
                        recorder.go_on_after(LogPosition(self.facts.identity, file, offset))
            stream = stream_of(
                self.address.scanner("definitions"),
                AfterGtids(begin) if by_gtid else FromOffset(begin),
                decoding,
                measure,
                server=self.facts.identity,
                until=(until.file, until.offset),
            )
            with contextlib.closing(stream):
                return recorder.changes if _reaches(stream, until) else None

    def _note_end(self, ends: AheadEndsError, file: str, offset: int) -> None:
        shard = {"shard": self.address.name}
        if self.address.archive is not None:
            _log.info(
                "the archive is searched for statements from %s:%d on, because %s",
                file,
                offset,
                ends,
                extra=shard,
            )
            return
        _log.warning(
            "what is searched for statements before the first row is not kept beyond %s:%d, because %s: the "
            "source sends what follows twice",
            file,
            offset,
            ends,
            extra=shard,
        )


def _reaches(stream: BinlogStream, until: LogPosition) -> bool:
    """Read a stream up to a position; return whether the binlog reaches it."""
    for item in stream:
        if isinstance(item, CaughtUp):
            file, offset, _ = stream.reading_at
        else:
            last = item.headers[-1]
            file, offset = item.names[last["file"]], int(last["end_offset"])
        reached = (file_order(file), offset) >= (file_order(until.file), until.offset)
        if reached or isinstance(item, CaughtUp):
            return reached
    return False


class _Recorder(NoLookup):
    """Records the statements that a stream passes on its way."""

    def __init__(self, reader: PresentReader, after: LogPosition | None, until: LogPosition) -> None:
        self._server = reader.facts.identity
        self._version = reader.version
        self._scope = reader.scope
        self._after = after
        self._until = until
        self._chars = 0
        self.changes: list[Change] = []

    def go_on_after(self, position: LogPosition) -> None:
        """Record only statements after a position: statements up to there are recorded already."""
        if self._after is None or position.reaches(self._after):
            self._after = position

    def redefine(self, found: Query, file: str, end: int) -> None:
        """Record a statement.

        Raises:
            UnsupportedEvent: there are too many.
        """
        self._record(self._scope.change(LogPosition(self._server, file, end), found, self._version))

    def lose(self, found: Query | None, file: str, end: int) -> None:
        """Record that a statement is left out."""
        statement = lost(found, self._version)
        if statement is not None:
            self._record(Change(LogPosition(self._server, file, end), statement))

    def _record(self, change: Change) -> None:
        if (self._after is not None and self._after.reaches(change.end)) or not self._until.reaches(
            change.end
        ):
            return
        self._chars += len(change.statement.sql)
        if len(self.changes) == CHANGES_MAX or self._chars > CHANGES_CHARS_MAX:
            raise UnsupportedEvent(
                f"More than {CHANGES_MAX:,} statements that define something, or {CHANGES_CHARS_MAX:,} "
                f"characters of them, come before {self._until.file}:{self._until.offset}.",
                hint="Start at a later position, or SET GLOBAL binlog_row_metadata = FULL; on the source.",
            )
        self.changes.append(change)
