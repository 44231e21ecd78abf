"""History: the definitions of a source's tables at each position of one server's binlog.

It begins with the tables, views and schemas that the server lists at one moment, and with the statements
between the position where reading begins and that moment. From them follow the definitions at the beginning:

- a name that no statement touches has its present definition;
- a table that a statement creates is known from there on;
- a table that is altered, and not created before, is known after the last statement that touches it only;
- a name that is not listed, and that no statement touches, is free.

The definition of a table of the list is read later, and holds from the last statement before that touches it.

Statements, and learned definitions of tables, are facts. They are kept in the order of the binlog, also those
that were read and those that are still to be read, so that reading can go back: to where a lost connection,
or a rewind, begins again. Beyond `FACTS_MAX` or `FACTS_CHARS_MAX`, the older half of the read facts is
folded into the beginning, and reading cannot go back before it any more.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Iterable, Sequence

from canal_group.binlog.history.facts import Change, Fact, Learned, LogPosition, Order, Present, through
from canal_group.binlog.history.followed import Followed, contradiction, shows_all
from canal_group.binlog.history.last_touches import LastTouches
from canal_group.binlog.history.touches import touches_of
from canal_group.binlog.schema.ancestry import Ancestry
from canal_group.binlog.schema.catalog import Catalog
from canal_group.binlog.schema.catalog_entry import CatalogEntry, Schema, ShownTable
from canal_group.binlog.schema.definition import SourceName, TableDefinition, UnknownTable
from canal_group.merge.errors import DefinitionContradicted
from canal_group.merge.values.position import Position

#: facts that are kept
FACTS_MAX = 10_000
#: characters of their statements
FACTS_CHARS_MAX = 16 << 20


class SchemaHistory:
    """The definitions of one source's tables, as one server wrote them, from a position of its binlog on.

    Not safe by itself: see `lock`.

    Args:
        make: returns an empty catalog.
        facts_max: limit of its facts.
        facts_chars_max: limit of the characters of their statements.
    """

    def __init__(
        self,
        make: Callable[[], Catalog],
        *,
        facts_max: int = FACTS_MAX,
        facts_chars_max: int = FACTS_CHARS_MAX,
    ) -> None:
        #: returns an empty catalog
        self.make = make
        self._facts_max, self._facts_chars_max = facts_max, facts_chars_max
        #: held to change it, and to read it in another thread than the stream's
        self.lock = threading.RLock()
        #: up to where the binlog was read with this history: no statement before it is missing; None: unknown
        self.read_to: Position | None = None
        #: what was added and has not been stored: tables at the beginning, and facts
        self.added: list[CatalogEntry | Fact] = []
        #: whether it has to be stored as a whole
        self.rewritten = True
        #: tables that the server lists, and that have not been read; by the name that is compared
        self.unread: dict[SourceName, SourceName] = {}
        #: definitions at the beginning, and after the facts that were applied
        self._first = make()
        self._catalog = make()
        self._begin: LogPosition | None = None
        self._facts: list[Fact] = []
        self._last = LastTouches(make().key)
        self._applied = 0
        self._chars = 0
        #: tables whose definition follows from statements only
        self._followed: dict[SourceName, Followed] = {}
        #: the first contradiction by the source: trying again does not mend it
        self._contradicted: DefinitionContradicted | None = None

    # ---- where it begins

    @property
    def beginning(self) -> LogPosition:
        """Where it begins."""
        assert self._begin is not None, "it has begun"
        return self._begin

    @property
    def first(self) -> Catalog:
        """The definitions where it begins."""
        return self._first

    @property
    def facts(self) -> Sequence[Fact]:
        """The facts, in the order of the binlog."""
        return self._facts

    def begin(self, position: LogPosition, present: Present) -> None:
        """Begin at a position; everything that was known before is forgotten."""
        first = self.make()
        for schema, collation in present.schemas.items():
            first.set_schema(schema, collation)
        for name in present.tables:
            first.set(UnknownTable(*name, ""))
        for view in present.views:
            first.set(view)
        self.set(position, first, self._forgotten(first, present.changes))
        self.unread = {first.key(name): name for name in present.tables}

    def begin_with(self, position: LogPosition, catalog: Catalog) -> None:
        """Begin at a position where a catalog is right; everything that was known before is forgotten."""
        self.set(position, catalog.copy(), [])

    def extend(self, position: LogPosition, changes: Sequence[Change]) -> None:
        """Begin at an earlier position, from which these statements lead to the beginning."""
        first, later = self._first.copy(), self._facts
        facts = self._forgotten(first, changes)
        last = LastTouches(first.key)
        for fact in facts:
            if isinstance(fact, Change):
                last.add(fact)
        for held in self._first.held():
            end = last.of(held.name)
            if end is not None and not isinstance(held, UnknownTable):
                facts.append(Learned(end, held))
        unread = self.unread
        self.set(position, first, [*facts, *later])
        self.unread = unread

    def set(self, begin: LogPosition, first: Catalog, facts: Iterable[Fact]) -> None:
        """Begin at a position with the definitions there, and with facts after it."""
        self._begin, self._first = begin, first
        # A fact that was stored twice, because the answer to the first write was lost, counts once.
        unique = {
            (fact.order, fact.entry.name if isinstance(fact, Learned) else None): fact for fact in facts
        }
        self._facts = sorted(unique.values(), key=lambda fact: fact.order)
        self._last = LastTouches(first.key)
        for fact in self._facts:
            if isinstance(fact, Change):
                self._last.add(fact)
        self._chars = sum(map(_chars, self._facts))
        self._rest()
        unread = (each for each in first.held() if isinstance(each, UnknownTable) and not each.reason)
        self.unread = {first.key(each.name): each.name for each in unread}
        self.added, self.rewritten = [], True

    def _forgotten(self, first: Catalog, changes: Iterable[Change]) -> list[Fact]:
        """Forget the definitions that statements touch.

        Returns:
            The statements that touch anything, and for each schema that `first` knows, its collation from the
            last statement on that sets it or drops the schema.
        """
        touching: list[Fact] = []
        known = first.collations()
        last: dict[str, LogPosition] = {}
        for each in changes:
            change = self.touching(each)
            touches = change.touches
            if not touches:
                continue
            touching.append(change)
            reason = f"{change.statement.title} has changed it since."
            if touches.all:
                first.forget_all(reason)
            for schema in touches.gone:
                first.forget_schema(schema, reason)
            for schema in touches.schemas:
                first.set_schema(schema, None)
            # A table that was created only if it did not exist has its present definition if it existed.
            for name in touches.names - touches.conditional:
                first.set(UnknownTable(*name, reason))
            set_here = known if touches.all else map(first.fold, touches.schemas | touches.gone)
            last.update((schema, change.end) for schema in set_here if schema in known)
        return [*touching, *(Learned(end, Schema(name, "", known[name])) for name, end in last.items())]

    def touching(self, change: Change) -> Change:
        """Return a statement with its touches."""
        if change.touches is not None:
            return change
        return change._replace(touches=touches_of(self.make, change.statement))

    # ---- the read position

    def covers(self, position: LogPosition) -> bool:
        """Return whether reading may continue at a position, if every statement up to there is known."""
        return self._begin is not None and position.reaches(self._begin)

    def go_to(self, position: LogPosition) -> None:
        """Go back, or on, to a position that it covers."""
        assert self.covers(position), "reading may continue there"
        self._rest()
        for _ in self._advance(through(position)):
            pass

    def catalog_at(self, position: LogPosition) -> Catalog:
        """Return the definitions at a position that it covers."""
        self.go_to(position)
        return self._catalog.copy()

    def apply(self, change: Change) -> bool:
        """Apply the next statement of the binlog; return whether it is a new fact.

        Raises:
            DefinitionContradicted: the source shows a table otherwise than statements have left it.
        """
        if self._begin is None or self._begin.reaches(change.end):
            return False
        touching = self.touching(change)
        new = bool(touching.touches) and not self._knows(change)
        if new:
            self.insert(touching)
        self.pass_to(change.end)
        self._fold()
        return new

    def pass_to(self, position: LogPosition) -> None:
        """Move the read position on, and apply the facts up to there.

        Raises:
            DefinitionContradicted: the source shows a table otherwise than statements have left it.
        """
        self._require_none(self._advance(through(position)))

    def insert(self, fact: Fact) -> None:
        """Add a fact, unless it is a statement that is known; a Learned may be of a position that was passed.

        Raises:
            DefinitionContradicted: the source shows a table otherwise than statements have left it.
        """
        if isinstance(fact, Change) and self._knows(fact):
            return
        at = bisect.bisect_right(self._facts, fact.order, key=lambda each: each.order)
        self._facts.insert(at, fact)
        self.added.append(fact)
        self._chars += _chars(fact)
        if isinstance(fact, Change):
            self._last.add(fact)
        if at < self._applied:
            self._applied += 1
            self._require_none(self._take(fact))

    def _knows(self, change: Change) -> bool:
        index = bisect.bisect_left(self._facts, change.order, key=lambda fact: fact.order)
        return index < len(self._facts) and self._facts[index].order == change.order

    # ---- tables

    def table(self, schema: str, table: str) -> TableDefinition | UnknownTable | None:
        """Return a table's definition here, or why it is unknown; None if there is no such table."""
        return self._catalog.table(schema, table)

    def ancestry(self, name: SourceName) -> Ancestry:
        """Return where the values of a table here have come from."""
        return self._catalog.ancestry(name)

    def names(self) -> list[SourceName]:
        """Return the names of all tables here, in order."""
        return self._catalog.names()

    def count(self) -> int:
        """Return how many tables there are here."""
        return self._catalog.count()

    def known_after(self, schema: str, table: str) -> LogPosition | None:
        """Return the position from which a table is known, if it has not been read yet."""
        key = self._catalog.key(SourceName(schema, table))
        for fact in self._facts[self._applied :]:
            if isinstance(fact, Learned) and self._catalog.key(fact.entry.name) == key:
                return fact.end
        return None

    def learn(self, shown: ShownTable, before: LogPosition) -> bool:
        """Take a table as the source showed it; every statement up to its answer is a fact.

        Args:
            shown: the table as the source showed it.
            before: where its binlog ended before the question.

        Returns:
            Whether the position from which this holds is known: no statement touched the table meanwhile.
        """
        key = self._catalog.key(shown.name)
        last = self._last.of(shown.name)
        if last is not None and not before.reaches(last):
            return False
        self.unread.pop(key, None)
        if last is not None and last.reaches(self.beginning) and last != self.beginning:
            self.insert(Learned(last, shown))
            return True
        self._first.set(shown)
        self.added.append(shown)
        if not isinstance(self._catalog.resolved(shown.name), TableDefinition):
            self._catalog.set(shown)
        return True

    def hide(self, name: SourceName) -> None:
        """Record that the source does not show a table."""
        self.unread.pop(self._catalog.key(name), None)

    def postpone(self, name: SourceName) -> None:
        """Let a table be read after the others: it is changed just now."""
        self.unread.pop(self._catalog.key(name), None)
        self.unread[self._catalog.key(name)] = name

    def last_touch(self, name: SourceName) -> LogPosition | None:
        """Return the end of the last known statement that touches a name."""
        return self._last.of(name)

    # ---- tables that were followed

    def followed(self) -> list[SourceName]:
        """Return the tables that the source has not confirmed, in the order of their last statements."""
        return list(self._followed)

    def read_rows(self, name: SourceName, position: LogPosition) -> None:
        """Record that rows of a table are read at a position."""
        followed = self._followed.get(self._catalog.key(name))
        if followed is not None and followed.rows_from is None:
            followed.rows_from = position

    def is_followed(self, name: SourceName) -> bool:
        """Return whether the source has not confirmed a table's definition."""
        return self._catalog.key(name) in self._followed

    def confirm(self, shown: ShownTable, here: LogPosition) -> DefinitionContradicted | None:
        """Take a followed table as the source showed it; return how that contradicts its definition.

        Args:
            shown: the table as the source showed it.
            here: the read position: no statement touches the table between the question and it.
        """
        error = self._contradiction(shown, here)
        if error is None:
            self.insert(Learned(here, shown))
            self.pass_to(here)
        else:
            self._contradicted = error
        return error

    def _require_none(self, contradictions: Iterable[DefinitionContradicted]) -> None:
        """Return if the source contradicts nothing, now or before; all `contradictions` are taken.

        Raises:
            DefinitionContradicted: it does.
        """
        for each in list(contradictions):
            self._contradicted = self._contradicted or each
        if self._contradicted is not None:
            raise self._contradicted

    def _contradiction(self, shown: CatalogEntry, until: LogPosition) -> DefinitionContradicted | None:
        """Return how the source's definition of a followed table differs from its definition here."""
        followed = self._followed.get(self._catalog.key(shown.name))
        held = self._catalog.resolved(shown.name)
        if followed is None or not isinstance(held, TableDefinition):
            return None
        theirs = self._catalog.read(shown)
        if not isinstance(theirs, TableDefinition):
            return None
        return contradiction(followed, held, theirs, until)

    # ---- facts

    def _rest(self) -> None:
        self._catalog, self._applied, self._followed = self._first.copy(), 0, {}

    def _advance(self, order: Order) -> Iterable[DefinitionContradicted]:
        """Apply the facts up to a position in their order; yield what the source contradicts."""
        while self._applied < len(self._facts) and self._facts[self._applied].order <= order:
            fact = self._facts[self._applied]
            self._applied += 1
            yield from self._take(fact)

    def _take(self, fact: Fact) -> Iterable[DefinitionContradicted]:
        if isinstance(fact, Learned):
            if isinstance(fact.entry, Schema):
                self._catalog.set(fact.entry)
                return
            error = self._contradiction(fact.entry, fact.end)
            if error is not None:
                yield error
            held = self._catalog.resolved(fact.entry.name)
            better = isinstance(held, TableDefinition) and not shows_all(held)
            if isinstance(self._catalog.read(fact.entry), TableDefinition) and (error or not better):
                # The source is right, also of what has no meaning for rows: defaults of columns to come.
                self._catalog.set(fact.entry)
            self._followed.pop(self._catalog.key(fact.entry.name), None)
            return
        applied = fact.apply(self._catalog)
        if applied.any_unknown:
            self._followed.clear()
        for name in applied.names:
            key = self._catalog.key(name)
            before = self._followed.pop(key, None)
            if isinstance(self._catalog.resolved(name), TableDefinition):
                rows_from = None if before is None else before.rows_from
                self._followed[key] = Followed(fact.statement.title, fact.end, rows_from)

    def _fold(self) -> None:
        within = len(self._facts) <= self._facts_max and self._chars <= self._facts_chars_max
        if not self._applied or within:
            return
        count = max(1, self._applied // 2)
        oldest = self._facts[:count]
        for fact in oldest:
            if isinstance(fact, Learned):
                self._first.set(fact.entry)
            else:
                fact.apply(self._first)
        self._begin = oldest[-1].end
        del self._facts[:count]
        self._applied -= count
        self._chars -= sum(map(_chars, oldest))
        self.added, self.rewritten = [], True


def _chars(fact: Fact) -> int:
    return len(fact.statement.sql) if isinstance(fact, Change) else 0
