"""The source of a shard: its servers or files, what is known of their tables, and questions about them."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from canal_group.actors.ports import Host
from canal_group.actors.shard.intake import Intake
from canal_group.actors.shard.order_ids import OrderIds
from canal_group.actors.shard.row_search import changes_of
from canal_group.actors.shard.rules import processing_of, view_of
from canal_group.actors.shard.shard_wiring import ShardWiring
from canal_group.actors.shard.wiring import limits_of
from canal_group.actors.sink.route import Route
from canal_group.actors.sink.sink import Sink
from canal_group.actors.snapshot.lane_snapshot import SnapshotParts
from canal_group.actors.snapshot.page_workers import PageSource
from canal_group.actors.snapshot.snapshot_wiring import remove_unused, snapshot_parts
from canal_group.binlog.files.files_reader import FilesReader, FilesSource, locate
from canal_group.binlog.grammar.decoding import Decoding
from canal_group.binlog.grammar.skips import Skips
from canal_group.binlog.schema.ancestry import Ancestry
from canal_group.binlog.schema.definition import SourceName, TableDefinition
from canal_group.binlog.server.definitions.source_definitions import SourceDefinitions
from canal_group.binlog.server.described import Described, described, shown_now
from canal_group.binlog.server.hosts import SourceHosts
from canal_group.binlog.server.listener import Reader
from canal_group.binlog.server.reader import SourceReader
from canal_group.binlog.server.source import SourceAddress, connect, server_facts
from canal_group.binlog.server.starts.beginning import beginning
from canal_group.binlog.server.starts.read_progress import StartChoice
from canal_group.binlog.snapshot.visibility import SettledLog
from canal_group.merge.errors import CanalGroupError, SourceUnfit, UsageError
from canal_group.merge.rows.row_key import RowKey
from canal_group.merge.values.chunk import Chunk, TableName
from canal_group.merge.values.history_text import HistoryText
from canal_group.merge.values.position import Position
from canal_group.merge.values.retention.kept_position import KeptPosition
from canal_group.merge.values.skips.skipped_event import SkippedEvent
from canal_group.merge.values.start import ShardStart, parse_shard_start

_log = logging.getLogger(__name__)


class ShardSource:
    """The source of one shard, as long as its process lives. Safe to use from several threads.

    Args:
        wiring: the shard's settings.
    """

    def __init__(self, wiring: ShardWiring) -> None:
        self._wiring = wiring
        self._name = wiring.source.name
        settings = wiring.filter
        self._sink = Sink(
            settings.white, settings.black, [Route(route.match, route.to) for route in settings.routes]
        )
        self._view = view_of(settings)
        self._processing = processing_of(settings)
        self._order_ids = OrderIds(self._name, wiring.merge.order_by) if wiring.merge.order_by else None
        #: whether the group has to know which tables the source has
        self._follows_tables = wiring.merge.ddl == "last"
        self._limits = limits_of(wiring.reader)
        #: latest columns of the tables that were read; as many as the source has tables
        self.columns: dict[TableName, pa.Schema] = {}
        #: the servers and their table definitions; None for files
        self._hosts: SourceHosts | None = None
        self._definitions: SourceDefinitions | None = None
        #: what operators have left out; replaced as a whole
        self._skipped: tuple[SkippedEvent, ...] = ()
        #: up to where client ids have read
        self.read_to: tuple[Position, ...] = ()
        #: from where on client ids read, as the group has said it: an archive keeps that
        self.needed: Sequence[KeptPosition] = ()
        if not isinstance(wiring.source, FilesSource):
            self._hosts = SourceHosts([wiring.source, *wiring.replicas], wiring.reader.detecting)
            self._definitions = SourceDefinitions(
                self._name,
                self._sink.select,
                confirm_s=wiring.reader.confirm_s,
                statement_chars_max=wiring.reader.statement_chars_max,
                # Rules follow a table through statements.
                always=self._follows_tables or bool(settings.tables),
                protects=self._processing.protects,
            )

    @property
    def location(self) -> str:
        """What is read now: host and port, or files."""
        return self._read.location

    def failover(self) -> dict[str, Any] | None:
        """Return the servers and the last switch as a JSON object; None if there is and was only one."""
        return None if self._hosts is None or not self._hosts.reports else self._hosts.describe()

    def reader(self, intake: Intake) -> Reader:
        """Return a new reader that reports to an intake."""
        wiring = self._wiring
        if isinstance(wiring.source, FilesSource):
            return FilesReader(
                wiring.source,
                self._sink.select,
                self._limits,
                intake,
                begin=wiring.start,
                skips=self._skips,
            )
        assert self._hosts is not None, "a shard without files has servers"
        assert self._definitions is not None, "a shard without files has a schema history"
        return SourceReader(
            self._hosts,
            Decoding(self._sink.select, self._limits),
            intake,
            choice=StartChoice(
                wiring.start, wiring.start_by, wiring.reader.fallback_us, lambda: self.read_to
            ),
            margin_us=wiring.merge.margin_us,
            definitions=self._definitions,
            ring=intake.ring,
            skips=self._skips,
            pace_s=wiring.merge.pace_s,
            needed=lambda: self.needed,
        )

    def skip(self, events: Iterable[SkippedEvent]) -> None:
        """Leave these events out, and no others, from the next stream on."""
        self._skipped = tuple(events)

    def _skips(self, server: str) -> Skips:
        return Skips.of_server(self._skipped, server)

    def process(self, chunk: Chunk) -> Chunk:
        """Return a chunk as it is stored: as consumers see it, with its ids, if they order the group.

        Raises:
            DataError: it is not known what consumers see, the ids cannot be read, or the rules cannot be
                applied.
        """
        chunk = self._view.apply(chunk)
        if self._order_ids is not None:
            # The rules may drop their column.
            self._order_ids.give(chunk)
        return self._processing.apply(chunk)

    def snapshot(self, position: Position, host: Host) -> SnapshotParts:
        """Return the parts of the snapshot of a lane, see `snapshot_parts`.

        Args:
            position: where the lane begins, with a cursor of a snapshot.
            host: of the shard.

        Raises:
            SourceUnfit: the shard reads files; and as there.
            UsageError, ConfigError: see there.
        """
        address = self._read
        if isinstance(address, FilesSource):
            raise SourceUnfit(
                f"Shard {self._name} reads files, which have no tables to take a snapshot of.",
                hint="Read its server instead, or subscribe without a snapshot.",
                shard=self._name,
            )
        settings = self._wiring.snapshot
        settled = None if settings.visible_after_s is None else SettledLog(settings.visible_after_s)
        # Both come whole: a page, and what a chunk has of a transaction.
        rows_max = self._wiring.reader.chunk_rows_max
        pages = PageSource(
            self._name, address, self._sink.select, self._ancestry, self._processing.hidden, settled, rows_max
        )
        return snapshot_parts(settings, self._wiring.filter, pages, position, host)

    def remove_unused_pages(self) -> None:
        """Remove pages of snapshots that nobody reads any more, see `remove_unused`."""
        if not isinstance(self._wiring.source, FilesSource):
            remove_unused(self._wiring.source)

    def _ancestry(self, name: TableName) -> Ancestry | None:
        return None if self._definitions is None else self._definitions.ancestry(SourceName(*name))

    # ---- the schema history ------------------------------------------------------------------------------

    def restore(self, history: str | None, *, anew: bool) -> None:
        """Take the schema history as it was stored; None: none was. See `SourceDefinitions.restore`."""
        if self._definitions is not None:
            self._definitions.restore(history, anew=anew)

    def news(self) -> HistoryText | None:
        """Return the schema history if it has to be stored, see `SourceDefinitions.news`."""
        return None if self._definitions is None else self._definitions.news()

    def definitions(self) -> dict[str, int] | None:
        """Return how many tables are known, see `SourceDefinitions.describe`; None: none are needed."""
        return None if self._definitions is None else self._definitions.describe()

    def tables(self) -> frozenset[str] | None:
        """Return consumers' names of the tables at the read position; None: not known, or not asked for."""
        if self._definitions is None or not self._follows_tables:
            return None
        return self._definitions.names()

    def schema(self) -> list[dict[str, Any]]:
        """Return the definitions of the source's tables at the read position, as JSON objects."""
        return [] if self._definitions is None else [table.to_json() for table in self._definitions.tables()]

    def rebuild_schema(self) -> None:
        """Forget what is known of the source's tables: a new history begins with what it shows.

        Raises:
            UsageError: the shard reads files.
        """
        if self._definitions is None:
            raise UsageError(f"Shard {self._name} reads files, and has no schema history.")
        self._definitions.rebuild()

    # ---- questions ---------------------------------------------------------------------------------------

    def describe(self, name: TableName) -> list[bytes]:
        """Return the definitions of the tables that consumers know by a name, as serialized Arrow schemas.

        They are those that the shard follows, where it reads; if it does not know them, those of now.

        Raises:
            SourceUnavailable, SourceUnfit: the source does not answer.
            UnsupportedEvent: a column's type is not known.
        """
        schemas = [
            self._processing.columns(
                each.source, self._view.columns(each.columns, each.special), each.lineage
            )
            for each in self._described(name)
        ]
        if not schemas and name in self.columns:
            # The account may be able to read the binlog and not to see the table.
            schemas = [pa.schema(list(self.columns[name].field("after").type))]
        return [each.serialize().to_pybytes() for each in dict.fromkeys(schemas)]

    def _described(self, name: TableName) -> list[Described]:
        followed = [] if self._definitions is None else self._definitions.known_as(name)
        schemas = [
            described(table, self._definitions.ancestry(table.name))
            for table in followed
            if self._definitions is not None and isinstance(table, TableDefinition)
        ]
        if schemas and len(schemas) == len(followed):
            return schemas
        source = self._read
        address = source.lookup if isinstance(source, FilesSource) else source
        if address is None:
            return []
        return list(shown_now(address, lambda *table: self._sink.select(*table) == name))

    def locate(self, start: ShardStart) -> Position:
        """Return where a start is in the source's binlog now, independent of what was read.

        Raises:
            SourceUnavailable, SourceUnfit: the source does not answer, or has no binlog; files have no such
                start.
            PositionPurged, DataError: see `canal_group.binlog.server.starts.beginning` and
                `canal_group.binlog.files.beginning`.
        """
        source = self._read
        if isinstance(source, FilesSource):
            return locate(source, start)
        with contextlib.closing(connect(source)) as connection:
            return beginning(start, source, connection, server_facts(source, connection))

    def beginning(self, *, latest: bool) -> tuple[bool, Position | None]:
        """Return where a client id without a cursor begins in the source's binlog now.

        Args:
            latest: whether it asks for the end, whatever the settings say.

        Returns:
            Whether that is the end, and the position; None: the end is not known, because the source does not
            answer, or because files are read.

        Raises:
            CanalGroupError: as `locate`, if the settings say another start.
        """
        start = "latest" if latest else parse_shard_start(self._wiring.start, time.time_ns() // 1000)
        if start != "latest":
            return False, self.locate(start)
        try:
            return True, None if self._hosts is None else self.locate(start)
        except CanalGroupError as error:
            _log.info("where its binlog ends is not known: %s", error, extra={"shard": self._name})
            return True, None

    def changes_of(self, key: RowKey, bytes_max: int) -> dict[str, Any]:
        """Return where the last changes of a row are in the last part of the binlog, see `row_search`."""
        # With rules of its own: they are not made for several threads.
        rules = processing_of(self._wiring.filter)
        return changes_of(self._read, self._sink.select, self._view, key, bytes_max, rules, self._ancestry)

    @property
    def _read(self) -> SourceAddress | FilesSource:
        return self._wiring.source if self._hosts is None else self._hosts.current
