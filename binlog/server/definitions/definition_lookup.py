"""Definition lookup: answers what one stream's table maps do not say, from the history of its server."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from canal_group.binlog.columns.table_lookup import ColumnFacts
from canal_group.binlog.columns.table_map import TableMap
from canal_group.binlog.formats.events import Query
from canal_group.binlog.history.facts import Change, LogPosition, Present
from canal_group.binlog.history.history import SchemaHistory
from canal_group.binlog.history.logged import facts_of, lineage_of
from canal_group.binlog.history.verified import require_agreement
from canal_group.binlog.schema.ancestry import ORIGINS_MAX
from canal_group.binlog.schema.definition import SourceName, TableDefinition, UnknownTable
from canal_group.binlog.server.definitions.base import Base
from canal_group.binlog.server.definitions.confirming import Confirming
from canal_group.binlog.server.definitions.learning import Learning, LearningPace
from canal_group.binlog.server.definitions.lost import lost
from canal_group.binlog.server.definitions.present import PresentReader
from canal_group.binlog.server.dump.packet_source import PacketSource
from canal_group.merge.errors import UnsupportedEvent
from canal_group.merge.values.chunk import Lineage, TableName
from canal_group.merge.values.position import Position


class Following(Protocol):
    """A stream with its read position."""

    @property
    def reading_at(self) -> tuple[str, int, int]:
        """File, beginning of the open transaction, and end of the event that is being read."""

    @property
    def created(self) -> Mapping[str, int]:
        """Creation times of the files that it went through, seconds since 1970, by name."""

    def ahead(self) -> PacketSource | None:
        """Return a source of what the stream will read, see `BinlogStream`."""


class Keeper(Protocol):
    """Keeps histories beyond one stream; `SourceDefinitions` implements it."""

    @property
    def always(self) -> bool:
        """Whether the tables are followed even if every table map says what is needed."""

    def protects(self, name: SourceName, origins: tuple[TableName, ...]) -> bool:
        """Return whether columns of a table, of which it is the name, must not be read through others."""

    @property
    def confirm_s(self) -> float:
        """How long the first rows after a statement wait for the source's own definition."""

    @property
    def pace(self) -> LearningPace:
        """How fast the tables are read that are not needed at once."""

    def begin(self, history: SchemaHistory) -> None:
        """Keep a history that has begun."""

    def keeps(self, history: SchemaHistory) -> bool:
        """Return whether a history is still the one of its server."""

    def apply(self, history: SchemaHistory, change: Change) -> frozenset[SourceName]:
        """Apply a statement to a history; return the tables that it touches."""

    def changed(self) -> None:
        """Say that a history has changed."""


class DefinitionLookup:
    """The lookup of one stream; `follow` has to be called before the stream is iterated.

    Args:
        reader: asks the server that the stream comes from.
        keeper: keeps the history.
        history: what is known already; None: nothing.
        base: what another server's tables were where the stream begins; None: not known.
    """

    def __init__(
        self, reader: PresentReader, keeper: Keeper, history: SchemaHistory | None, base: Base | None
    ) -> None:
        self._reader = reader
        self._keeper = keeper
        self._history = history
        self._base = base
        self._stream: Following | None = None
        self._version = reader.version
        self._learning = Learning(reader, keeper.pace)
        self._confirming = Confirming(reader, self._learning)
        #: tables that were asked for in vain, and not touched by a statement since
        self._missed: set[SourceName] = set()

    def follow(self, stream: Following) -> None:
        """Set the stream whose table maps ask this lookup."""
        self._stream = stream

    def begin(self, start: Position) -> None:
        """Begin a history where the stream is, unless there is one, or table maps say everything.

        Definitions must be known before they are needed: until then the tables may be altered while nobody
        reads.

        Args:
            start: a position of the server that the stream comes from, up to which it was read.
        """
        if self._base is None:
            self._needed(start)

    def redefine(self, query: Query, file: str, end: int) -> None:
        """Apply a statement.

        Raises:
            DefinitionContradicted: the source shows a table otherwise than statements have left it.
            UnsupportedEvent: columns of its table are masked or dropped, and it is too long, or the table has
                had too many names.
        """
        # It is still to be applied.
        history = self._needed(self._reading_at()[0])
        if history is not None:
            protected: list[SourceName] = []

            def protects(name: SourceName) -> bool:
                found = self._protects(name)
                protected.extend([name] if found else [])
                return found

            change = self._reader.scope.change(
                LogPosition(self._reader.facts.identity, file, end),
                query,
                self._version,
                protects,
            )
            touched = self._keeper.apply(history, change)
            self._missed -= touched
            for name in touched if protected else ():
                self._require_protected(name, protected[0])

    def _protects(self, name: SourceName) -> bool:
        return self._keeper.protects(name, self.origins(*name))

    def _require_protected(self, name: SourceName, before: SourceName) -> None:
        """Return unless a table has so many former names that the one of its rule is forgotten."""
        if len(self.origins(*name)) >= ORIGINS_MAX and not self._protects(name):
            raise UnsupportedEvent(
                f"{name} has had more than {ORIGINS_MAX} names. The filter masks or drops columns of"
                f" {before}, by a name that is forgotten with this statement.",
                hint="Give its new name an entry in filter.tables, or leave it out by filter.black.",
                table=str(name),
            )

    def lose(self, query: Query | None, file: str, end: int) -> None:
        """Note a statement that is left out, see `TableLookup.lose`: what it defines has to be asked."""
        history, statement = self._needed(self._reading_at()[0]), lost(query, self._version)
        if history is not None and statement is not None:
            change = Change(LogPosition(self._reader.facts.identity, file, end), statement)
            self._keeper.apply(history, change)
            self._missed.clear()

    def between(self, *, idle: bool) -> None:
        """Read what tables are that have not been read, and compare what was followed with the source.

        Call it between two items of the stream.

        Args:
            idle: whether the stream has nothing to read.

        Raises:
            DefinitionContradicted: the source shows a table otherwise than statements have left it.
        """
        history = self._known()
        if history is not None:
            begin, position = self._reading_at()
            with history.lock:
                history.pass_to(position)
            changed = self._learning.read_some(history, begin, position, idle=idle)
            changed |= self._confirming.confirm_all(history, position)
            if changed:
                self._keeper.changed()

    def tables(self) -> Collection[tuple[str, str]] | None:
        """Return the tables here, if they are always followed; None: not known."""
        history = self._known()
        return None if history is None or not self._keeper.always else history.names()

    def origins(self, schema: str, table: str) -> tuple[TableName, ...]:
        """Return the former names of a table, and the names of tables that LIKE copied for the table."""
        history = self._known()
        if history is None:
            return ()
        return tuple(TableName(*name) for name in history.ancestry(SourceName(schema, table)).names)

    def lineage(self, schema: str, table: str) -> Lineage:
        """Return where the values of a table come from, see `TableLookup`.

        Raises:
            UnsupportedEvent: some of its columns are masked or dropped, and its definition is not known here.
            DefinitionContradicted, SourceUnavailable, SourceUnfit, PositionPurged: as `columns`.
        """
        name, origins = SourceName(schema, table), self.origins(schema, table)
        if not self._keeper.protects(name, origins):
            return Lineage(origins)
        history = self._known() or self._begin(*self._reading_at())
        found = self._definition(history, name)
        if isinstance(found, TableDefinition):
            return lineage_of(found, history.ancestry(name))
        raise UnsupportedEvent(
            f"The filter masks or drops columns of {name}, and the table's definition here is not known: a "
            "generated column may show them.",
            hint="GRANT REFERENCES on it lets the account see the definition. If it was altered since, start "
            "after the last ALTER TABLE and load earlier rows otherwise, or leave it out.",
            table=str(name),
        )

    def columns(self, table: TableMap) -> Sequence[ColumnFacts] | None:
        """Return a table's columns as they were when its rows were written, see `TableLookup`.

        Raises:
            UnsupportedEvent: the rows lack names, and the definition is not known here.
            CorruptEvent: the definition contradicts the table map.
            DefinitionContradicted: the definition contradicts what the source shows.
            SourceUnavailable, SourceUnfit, PositionPurged: see `PresentReader`.
        """
        history = self._known() or self._begin(*self._reading_at())
        name = SourceName(table.schema, table.table)
        self._reader.scope.see(name)
        found = self._definition(history, name)
        if not isinstance(found, TableDefinition):
            if table.named:
                return None
            raise self._not_known(history, table, found)
        require_agreement(table, found)
        return facts_of(found)

    def _known(self) -> SchemaHistory | None:
        """Return the history, unless it was dropped meanwhile."""
        if self._history is not None and not self._keeper.keeps(self._history):
            self._history = self._base = None
        return self._history

    def _needed(self, start: Position) -> SchemaHistory | None:
        """Return the history; if it is needed and there is none, begin it at the start of a transaction."""
        history = self._known()
        if history is None and (self._reader.needed or self._keeper.always):
            history = self._begin(start, LogPosition(self._reader.facts.identity, start.file, start.offset))
        return history

    def _definition(self, history: SchemaHistory, name: SourceName) -> TableDefinition | UnknownTable | None:
        """Return a table's definition here: what is not known, or not confirmed, is asked."""
        begin, position = self._reading_at()
        with history.lock:
            history.pass_to(position)
        found = history.table(*name)
        if not isinstance(found, TableDefinition) and name not in self._missed:
            if self._learning.learn(history, name, begin, position):
                self._keeper.changed()
                found = history.table(*name)
            if not isinstance(found, TableDefinition):
                self._missed.add(name)
        if history.is_followed(name):
            if self._keeper.confirm_s and self._confirming.confirm(
                history, name, begin, position, self._keeper.confirm_s
            ):
                self._keeper.changed()
                found = history.table(*name)
            history.read_rows(name, position)
        return found

    def _begin(self, begin: Position, position: LogPosition) -> SchemaHistory:
        make = self._reader.maker()
        history = self._history = SchemaHistory(make)
        base, self._base = self._base, None
        if base is not None:
            changes = self._reader.changes(base.position, position, by_gtid=True) if base.gap else []
            if changes is not None:
                for change in changes:
                    change.apply(base.catalog)
                history.begin_with(position, base.catalog)
                self._keeper.begin(history)
                return history
        with self._reader.asking() as asked:
            end, listed = asked.end(), asked.listed()
        self._reader.scope.see(*listed.tables)
        assert self._stream is not None, "the stream is known before it reads"
        if not begin.created_s:
            begin = replace(begin, created_s=self._stream.created.get(begin.file, 0))
        changes = self._learning.statements(begin, position, end, self._stream.ahead)
        history.begin(position, Present(listed.tables, listed.views, listed.schemas, changes))
        self._learning.read_first(history, begin, position)
        self._keeper.begin(history)
        return history

    def _reading_at(self) -> tuple[Position, LogPosition]:
        """Return where the open transaction begins, and where the stream reads."""
        assert self._stream is not None, "the stream is known before it reads"
        file, begun_at, offset = self._stream.reading_at
        begin = Position(file, begun_at, created_s=self._stream.created.get(file, 0))
        return begin, LogPosition(self._reader.facts.identity, file, offset)

    def _not_known(
        self, history: SchemaHistory, table: TableMap, found: UnknownTable | None
    ) -> UnsupportedEvent:
        name = f"{table.schema}.{table.table}"
        complete = "With binlog_row_metadata = FULL the source logs what is needed."
        known = history.known_after(table.schema, table.table)
        if known is not None:
            return UnsupportedEvent(
                f"The rows of {name} come without column names, and the table was altered since: its "
                f"definition is known after {known} only.",
                hint=f"Start at {known} and load earlier rows of the table otherwise, or "
                f"leave the table out. {complete}",
                table=name,
            )
        if found is not None and found.reason:
            return UnsupportedEvent(
                f"The rows of {name} come without column names, and its definition is not known. "
                f"{found.reason}",
                hint=f"Start after the next statement that creates the table, or leave it out. {complete}",
                table=name,
            )
        return UnsupportedEvent(
            f"The rows of {name} come without column names, and its definition is not known. "
            "The source does not show such a table to this account now.",
            hint=f"GRANT SELECT, or REFERENCES, ON {name} lets the account see the definition. If the table "
            "was dropped or renamed since, start before the statement that created it. "
            f"{complete}",
            table=name,
        )
