"""Source definitions: answers what table maps do not say, by the history of a source's tables.

The history begins with the first statement that defines something, or with the first table map that lacks
something, at its place in the binlog. It lives as long as the shard: through lost connections and rewinds, to
where it began. If it does not reach back far enough, or another server answers, it begins again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from actors.parse.columns.table_lookup import ColumnFacts
from actors.parse.columns.table_map import TableMap
from actors.parse.formats.events import Query
from actors.parse.grammar.tables import Select
from actors.parse.history.history import Change, Place, SchemaHistory
from actors.parse.history.verified import require_agreement
from actors.parse.schema.definition import TableDefinition, UnknownTable
from actors.parse.server.definitions.present import PresentReader, statement_of
from actors.parse.server.source import ServerFacts, SourceAddress
from merge.errors import CorruptEvent, UnsupportedEvent
from merge.values.position import Position

_FLOAT_SIZE = 4


class Following(Protocol):
    """A stream that says where it reads."""

    @property
    def reading_at(self) -> tuple[str, int, int]:
        """File, beginning of the open transaction, and end of the event that is being read."""


class SourceDefinitions:
    """The definitions of one shard's tables. One stream uses it at a time.

    Args:
        address: the source.
        select: which tables are wanted.
    """

    def __init__(self, address: SourceAddress, select: Select) -> None:
        self._address = address
        self._select = select
        self._history: SchemaHistory | None = None

    def lookup(self, facts: ServerFacts, start: Position) -> DefinitionLookup:
        """Return the lookup of a stream that begins at a position, on the server that answers."""
        history = self._history
        if history is not None and start.is_of(facts.identity):
            place = Place(facts.identity, start.file, start.offset)
            if history.covers(place):
                history.go_to(place)
                return DefinitionLookup(
                    PresentReader(self._address, facts, self._select), self._keep, history
                )
        self._history = None
        return DefinitionLookup(PresentReader(self._address, facts, self._select), self._keep, None)

    def _keep(self, history: SchemaHistory) -> None:
        self._history = history


class DefinitionLookup:
    """The lookup of one stream; `follow` has to be called before the stream is iterated.

    Args:
        reader: asks the server that the stream comes from.
        keep: receives the history when it begins.
        history: what is known already; None: nothing.
    """

    def __init__(
        self, reader: PresentReader, keep: Callable[[SchemaHistory], None], history: SchemaHistory | None
    ) -> None:
        self._reader = reader
        self._keep = keep
        self._history = history
        self._stream: Following | None = None
        self._version = reader.version
        #: tables that were asked for in vain since the last statement
        self._missed: set[tuple[str, str]] = set()

    def follow(self, stream: Following) -> None:
        """Say which stream it is that asks."""
        self._stream = stream

    def redefine(self, query: Query, file: str, end: int) -> None:
        """Apply a statement."""
        self._missed.clear()
        if self._history is None and self._reader.needed:
            begin, _ = self._place()
            self._begin(begin, self._at(begin))
        if self._history is not None:
            place = Place(self._reader.facts.identity, file, end)
            self._history.apply(Change(place, statement_of(query, self._version)))

    def columns(self, table: TableMap) -> Sequence[ColumnFacts] | None:
        """Return what a table's columns were when its rows were written, see `TableLookup`.

        Raises:
            UnsupportedEvent: the rows lack names, and the definition is not known here.
            CorruptEvent: the definition contradicts the table map.
            SourceUnavailable, SourceUnfit, PositionPurged: see `PresentReader.read`.
        """
        found = self._definition(table.schema, table.table)
        if not isinstance(found, TableDefinition):
            if table.named:
                return None
            raise self._not_known(table, found)
        try:
            require_agreement(table, found)
        except CorruptEvent:
            if table.named:
                return None
            raise
        key = {name: place for place, name in enumerate(found.row_key, start=1)}
        return [
            ColumnFacts(
                name=column.name,
                unsigned=column.unsigned,
                collation=column.collation,
                values=column.values,
                key_place=key.get(column.name, 0),
                type=column.type,
                decimals=column.decimals,
                size=column.length * _FLOAT_SIZE if column.type == "vector" else 0,
            )
            for column in found.logged
        ]

    def _definition(self, schema: str, table: str) -> TableDefinition | UnknownTable | None:
        history = self._history
        if history is None:
            history = self._begin(*self._place())
        found = history.table(schema, table)
        if isinstance(found, TableDefinition) or (schema, table) in self._missed:
            return found
        begin, place = self._place()
        history.learn(place, schema, table, self._reader.read(history.make, begin, place))
        found = history.table(schema, table)
        if not isinstance(found, TableDefinition):
            self._missed.add((schema, table))
        return found

    def _begin(self, begin: Position, place: Place) -> SchemaHistory:
        make = self._reader.maker()
        history = self._history = SchemaHistory(make)
        history.begin(place, self._reader.read(make, begin, place))
        self._keep(history)
        return history

    def _at(self, position: Position) -> Place:
        return Place(self._reader.facts.identity, position.file, position.offset)

    def _place(self) -> tuple[Position, Place]:
        """Return where the open transaction begins, and where the stream reads."""
        assert self._stream is not None, "the stream is known before it reads"
        file, begun_at, offset = self._stream.reading_at
        return Position(file, begun_at), Place(self._reader.facts.identity, file, offset)

    def _not_known(self, table: TableMap, found: UnknownTable | None) -> UnsupportedEvent:
        assert self._history is not None, "it was asked"
        name = f"{table.schema}.{table.table}"
        complete = "With binlog_row_metadata = FULL the source logs what is needed."
        known = self._history.known_after(table.schema, table.table)
        if known is not None:
            return UnsupportedEvent(
                f"The rows of {name} come without column names, and the table was altered since: its "
                f"definition is known after {known.file}:{known.offset} only.",
                hint=f"Start at {known.file}:{known.offset} and load earlier rows of the table otherwise, or "
                f"leave the table out. {complete}",
                table=name,
            )
        why = found.reason if found is not None else "The account does not see such a table."
        return UnsupportedEvent(
            f"The rows of {name} come without column names, and its definition is not known. {why}",
            hint=f"GRANT SELECT, or REFERENCES, ON {name} lets the account see the definition. {complete}",
            table=name,
        )
