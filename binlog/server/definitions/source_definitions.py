"""Source definitions: what is known of the tables of one shard's source, whichever server answers.

A stream that begins at a position needs the definitions there. They come from, in this order:

1. the history of the server that answers, if it covers the position. Statements that it lacks, because the
   position was moved over them or lies before its beginning, are read from the binlog first;
2. the history of the server that the position is of, if another one answers: what was right at the position
   is right on this one too;
3. the server's present, see `canal_group.binlog.history.history`. It is read with the first statement or
table map
   that needs it.

Facts are handed to whoever stores them before the rows that follow them; see `news`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from canal_group.binlog.grammar.skips import SkipsOf, no_skips
from canal_group.binlog.grammar.tables import Select
from canal_group.binlog.history.facts import Change, LogPosition
from canal_group.binlog.history.histories import Histories
from canal_group.binlog.history.history import SchemaHistory
from canal_group.binlog.schema.ancestry import Ancestry
from canal_group.binlog.schema.definition import SourceName, TableDefinition, UnknownTable
from canal_group.binlog.server.definitions.base import Base
from canal_group.binlog.server.definitions.definition_lookup import DefinitionLookup
from canal_group.binlog.server.definitions.learning import LearningPace
from canal_group.binlog.server.definitions.present import PresentReader
from canal_group.binlog.server.definitions.scope import Scope
from canal_group.binlog.server.source import ServerFacts, SourceAddress
from canal_group.merge.errors import PositionPurged, PositionRefused
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.history_text import HistoryText
from canal_group.merge.values.position import Position, file_order
from canal_group.merge.values.resets.reset import begun_anew

_log = logging.getLogger(__name__)

#: bytes of a binlog after which it is stored again up to where it was read: what a restart may read twice
READ_TO_EVERY_BYTES = 256 << 20


class SourceDefinitions:
    """The definitions of one shard's tables. One stream uses it at a time, while other threads store it.

    Args:
        shard: its name, for the log.
        select: which tables are wanted.
        always: whether they are followed even if every table map says what is needed.
        confirm_s: how long the first rows after a statement wait for the source's own definition; 0: not at
            all, it is compared later.
        statement_chars_max: characters of the longest statement that is read.
        protects: see `Keeper`; None: no table is.
        pace: how fast the tables are read that are not needed at once; None: as fast as a shard reads them.
    """

    def __init__(
        self,
        shard: str,
        select: Select,
        *,
        confirm_s: float,
        statement_chars_max: int,
        always: bool = False,
        protects: Callable[[TableName, tuple[TableName, ...]], bool] | None = None,
        pace: LearningPace | None = None,
    ) -> None:
        self.always = always
        self.pace = pace or LearningPace()
        self._protects = protects
        self.confirm_s = confirm_s
        self._shard = shard
        self._select = select
        self._scope = Scope(select, statement_chars_max)
        self._lock = threading.RLock()
        self._histories = Histories()
        #: what was stored, and has not been looked at yet
        self._stored = ""
        self._changed = False
        #: up to where reading was known when `news` was asked last
        self._told: Position | None = None

    # ---- for whoever stores it

    def restore(self, stored: str | HistoryText | None, *, anew: bool = False) -> None:
        """Take what was stored, as a whole.

        Args:
            stored: the text; None: nothing was stored.
            anew: whether others may have read and stored since: then what is known is older than the text.
                Else it is newer, and is stored again.
        """
        text = stored.text if isinstance(stored, HistoryText) else stored or ""
        with self._lock:
            if anew and text:
                self._histories.clear()
                self._changed, self._told = False, None
            if len(self._histories):
                self._changed = True
                self._histories.rewrite()
            elif not self._changed:
                self._stored = text

    def news(self) -> HistoryText | None:
        """Return the text to store now; None if nothing has changed.

        Ask after rows were taken, and store it before they are handed on: it has every statement before them.

        Raises:
            DataError: it is too long.
        """
        with self._lock:
            if not self._changed:
                return None
            self._changed = False
            return self._histories.take_text()

    def rebuild(self) -> None:
        """Forget everything: the present of the server is taken, where reading is now."""
        with self._lock:
            self._histories.clear()
            self._stored, self._changed = "", True

    def tables(self) -> list[TableDefinition | UnknownTable]:
        """Return the wanted tables as they are where reading is; none if nothing was needed yet."""
        return self._found(lambda name: name is not None)

    def describe(self) -> dict[str, int] | None:
        """Return how many tables there are, not read yet, and not confirmed yet; None: none are followed."""
        with self._lock:
            latest = list(self._histories)
            if not latest:
                return None
            with latest[-1].lock:
                return {
                    "tables": latest[-1].count(),
                    "unread": len(latest[-1].unread),
                    "followed": len(latest[-1].followed()),
                }

    def known_as(self, name: TableName) -> list[TableDefinition | UnknownTable]:
        """Return the tables that consumers know by a name, as they are where reading is."""
        return self._found(lambda each: each == name)

    def _found(self, wanted: Callable[[TableName | None], bool]) -> list[TableDefinition | UnknownTable]:
        """Return the tables of the latest history that consumers know by a wanted name."""
        with self._lock:
            latest = list(self._histories)
            if not latest:
                return []
            with latest[-1].lock:
                names = [name for name in latest[-1].names() if wanted(self._select(*name))]
                found = [latest[-1].table(*name) for name in names]
        return [table for table in found if table is not None]

    def names(self) -> frozenset[str] | None:
        """Return the consumers' names of the tables where reading is; None: not known."""
        with self._lock:
            latest = list(self._histories)
            if not latest:
                return None
            found = (self._select(*name) for name in latest[-1].names())
            return frozenset(str(name) for name in found if name is not None)

    def ancestry(self, name: SourceName) -> Ancestry | None:
        """Return where the values of a table have come from, where reading is; None: nothing is known."""
        with self._lock:
            latest = list(self._histories)
            if not latest:
                return None
            with latest[-1].lock:
                return latest[-1].ancestry(name)

    # ---- for the reader

    def protects(self, name: SourceName, origins: tuple[TableName, ...]) -> bool:
        """Return whether columns of a table must not be read through others."""
        return self._protects is not None and self._protects(TableName(*name), origins)

    def lookup(
        self, address: SourceAddress, facts: ServerFacts, start: Position, skips: SkipsOf = no_skips
    ) -> DefinitionLookup:
        """Return the lookup of a stream that begins at a position, on the server that answers.

        Args:
            address: the server.
            facts: what it reports about itself.
            start: the position.
            skips: what is left out of its binlog.

        Raises:
            DataError: what was stored cannot be read.
            SourceUnavailable, SourceUnfit: the server does not answer, or refuses.
        """
        reader = PresentReader(address, facts, skips, self._scope)
        with self._lock:
            self._load(reader)
            for each in self._histories:
                self._scope.see(*each.names(), *each.first.names())
        history, base = None, None
        if start.is_of(facts.identity):
            history = self._at(LogPosition(facts.identity, start.file, start.offset), start, reader)
        else:
            base = self._elsewhere(start)
        return DefinitionLookup(reader, self, history, base)

    def read_to(self, position: Position) -> None:
        """Note up to where the binlog was read."""
        with self._lock:
            history = self._histories.of(position.server)
            if history is None or (
                history.read_to is not None
                and _log_position(history.read_to).reaches(_log_position(position))
            ):
                return
            history.read_to = position
            told = self._told
            if (
                told is None
                or (told.server, told.file) != (position.server, position.file)
                or position.offset - told.offset >= READ_TO_EVERY_BYTES
            ):
                self._told, self._changed = position, True

    def apply(self, history: SchemaHistory, change: Change) -> frozenset[SourceName]:
        """Apply a statement to a history; return the tables that it touches.

        Raises:
            DefinitionContradicted: the source shows a table otherwise than statements have left it.
        """
        touching = history.touching(change)
        with self._lock, history.lock:
            self._changed |= history.apply(touching)
        touches = touching.touches
        if touches is None:
            return frozenset()
        if touches.passed_over:
            _log.info(
                "%s is not understood in the statement on %s at %s: it was passed over, "
                "because it can have no meaning for rows",
                ", ".join(touches.passed_over),
                ", ".join(map(str, sorted(touches.names))) or "a table",
                change.end,
                extra={"shard": self._shard},
            )
        return touches.names

    def changed(self) -> None:
        """Say that a history has changed: it has to be stored."""
        with self._lock:
            self._changed = True

    def begin(self, history: SchemaHistory) -> None:
        """Keep a history that has begun."""
        with self._lock:
            self._histories.keep(history)
            self._changed = True

    def keeps(self, history: SchemaHistory) -> bool:
        """Return whether a history is still the one of its server."""
        return any(each is history for each in self._histories)

    def _load(self, reader: PresentReader) -> None:
        stored, self._stored = self._stored, ""
        if stored:
            try:
                self._histories.load(stored, reader.maker())
            except BaseException:
                self._stored = stored
                raise

    def _at(self, position: LogPosition, start: Position, reader: PresentReader) -> SchemaHistory | None:
        """Return the server's history at a position; None: the definitions of that position are not known."""
        history = self._histories.of(position.server)
        if history is None:
            return None
        try:
            known = self._reached(history, position, start, reader)
        except (PositionPurged, PositionRefused):
            known = False
        with self._lock:
            if not known:
                _log.warning(
                    "its schema history does not lead to %s: it begins anew",
                    position,
                    extra={"shard": self._shard},
                )
                self._histories.drop(position.server)
                return None
            history.go_to(position)
        return history

    def _reached(
        self, history: SchemaHistory, position: LogPosition, start: Position, reader: PresentReader
    ) -> bool:
        """Read the statements that a history lacks to cover a position; return whether it covers it now.

        Raises:
            PositionPurged: they are gone.
        """
        read_to = history.read_to
        if file_order(history.beginning.file)[0] != file_order(position.file)[0] or (
            read_to is not None
            and begun_anew((read_to.file, read_to.created_s), (start.file, start.created_s))
        ):
            return False
        if read_to is not None and not _log_position(read_to).reaches(position):
            changes = _between(read_to, position, start, reader)
            if changes is None:
                return False
            with self._lock:
                history.go_to(_log_position(read_to))
                for change in changes:
                    history.apply(change)
                self._changed = True
        if not history.covers(position):
            earlier = reader.changes(start, history.beginning, after=position)
            if earlier is None:
                return False
            with self._lock:
                history.extend(position, earlier)
                self._changed = True
        return True

    def _elsewhere(self, start: Position) -> Base | None:
        """Return the definitions at a position of a server that is not the one that answers."""
        position = LogPosition(start.server, start.file, start.offset)
        with self._lock:
            history = self._histories.covering(position) if start.file else None
            if history is None:
                return None
            read_to = history.read_to
            if read_to is None or _log_position(read_to).reaches(position):
                return Base(history.catalog_at(position), start, gap=False)
            return Base(history.catalog_at(_log_position(read_to)), read_to, gap=True)


def _between(
    read_to: Position, position: LogPosition, start: Position, reader: PresentReader
) -> list[Change] | None:
    """Return the statements between where a binlog was read to and the position of `start`; None: not known.

    A source may have purged the file that was read last, so that a stream begins at its oldest file. Then
    GTIDs tell whether all before that was read.

    Raises:
        PositionPurged: some of them are gone.
    """
    proved = bool(read_to.gtid_set and start.gtid_set) and read_to.gtid_set.contains(start.gtid_set)
    try:
        changes = reader.changes(read_to, position)
    except PositionPurged:
        if not proved:
            raise
        changes = None
    return [] if changes is None and proved else changes


def _log_position(position: Position) -> LogPosition:
    return LogPosition(position.server, position.file, position.offset)
