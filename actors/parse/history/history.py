"""History: the definitions of a source's tables at each place of one server's binlog.

It begins with what the server shows at one moment, its *present*, and with the statements between the place
where reading begins and that moment. From them follows what is known at the beginning:

- a table that none of the statements touches is as it is at present;
- a table that a statement creates is known from there on;
- a table that is altered, and not created before, is known after the last statement that touches it only.

Statements, and what was learned of a table, are facts. They are kept in the order of the binlog, also those
that were read and those that are still to be read, so that reading can go back: to where a lost connection,
or a rewind, begins again. Beyond `FACTS_MAX` or `FACTS_CHARS_MAX`, the older half of those that were read is
folded into the beginning, and reading cannot go back before it any more.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from actors.parse.charsets.charsets import BINARY_COLLATION
from actors.parse.history.facts import Change, Fact, Learned, Place, Present, fact_from_json
from actors.parse.schema.catalog import Catalog
from actors.parse.schema.definition import SourceName, TableDefinition, UnknownTable
from actors.parse.schema.statement import Statement
from actors.parse.schema.tokens import Kind, UnreadableError, tokens_of
from merge.rows.statement_kind import is_dcl
from merge.values.position import Position, file_order

#: facts that are kept
FACTS_MAX = 10_000
#: characters of their statements
FACTS_CHARS_MAX = 16 << 20
#: statements that an empty catalog says nothing of, although they matter
_MATTERS = re.compile(r"\b(?:DATABASE|SCHEMA|DROP|REPLACE)\b", re.IGNORECASE)


class SchemaHistory:
    """The definitions of one source's tables, as one server wrote them; see the module's rules.

    Args:
        make: returns an empty catalog.
    """

    def __init__(self, make: Callable[[], Catalog]) -> None:
        #: returns an empty catalog
        self.make = make
        #: up to where the binlog was read with this history: no statement before it is missing; None: unknown
        self.read_to: Position | None = None
        #: definitions at the beginning, and after the facts that were applied
        self._first = make()
        self._catalog = make()
        self._begin: Place | None = None
        self._facts: list[Fact] = []
        self._applied = 0
        self._chars = 0

    @property
    def beginning(self) -> Place:
        """Where it begins."""
        assert self._begin is not None, "it has begun"
        return self._begin

    def begin(self, place: Place, present: Present) -> None:
        """Begin at a place; everything that was known before is forgotten."""
        touched = [(change, self._names(change.statement, present.catalog)) for change in present.changes]
        last = {name: change.end for change, names in touched for name in names}
        tables = [table for table in present.catalog.tables() if isinstance(table, TableDefinition)]
        first = self.make()
        schemas = _schemas(present.catalog)
        unsure = self._schemas_changed(present.changes, schemas)
        for schema in schemas.keys() - unsure:
            first.set_schema(schema, schemas[schema])
        for table in tables:
            if table.name not in last:
                first.set(table)
        learned = [Learned(last[table.name], table) for table in tables if table.name in last]
        changes = [change for change, names in touched if names or _concerns_schemas(change.statement)]
        self._set(place, first, [*changes, *learned])

    def begin_with(self, place: Place, catalog: Catalog) -> None:
        """Begin at a place where a catalog is right; everything that was known before is forgotten."""
        self._set(place, self._copied(catalog), [])

    def extend(self, place: Place, changes: Sequence[Change]) -> None:
        """Begin at an earlier place, from which these statements lead to the beginning."""
        known = self._facts
        self.begin(place, Present(self._first, changes))
        self._set(place, self._first, [*self._facts, *known])

    def covers(self, place: Place) -> bool:
        """Return whether reading may continue at a place, if every statement up to there is known."""
        return self._begin is not None and place.reaches(self._begin)

    def go_to(self, place: Place) -> None:
        """Go back, or on, to a place that it covers."""
        assert self.covers(place), "reading may continue there"
        self._catalog, self._applied = self._copied(self._first), 0
        self._advance(_through(place))

    def apply(self, change: Change) -> bool:
        """Apply the next statement of the binlog; return whether it is a new fact."""
        if self._begin is None or self._begin.reaches(change.end):
            return False
        place = bisect.bisect_left(self._facts, change.order, key=lambda fact: fact.order)
        known = place < len(self._facts) and self._facts[place].order == change.order
        new = False
        if not known and place >= self._applied:
            self._advance((*_through(change.end)[:2], -1))
            new = bool(self._catalog.apply(change.statement)) or self._matters(change.statement)
            if new:
                self._insert(change)
                self._applied += 1
        self._advance(_through(change.end))
        self._fold()
        return new

    def table(self, schema: str, table: str) -> TableDefinition | UnknownTable | None:
        """Return a table's definition here, why it is not known, or None: there is no such table."""
        return self._catalog.table(schema, table)

    def tables(self) -> list[TableDefinition | UnknownTable]:
        """Return all tables here, in the order of their names."""
        return self._catalog.tables()

    def known_after(self, schema: str, table: str) -> Place | None:
        """Return from where on a table is known, if that has not been read yet."""
        for fact in self._facts[self._applied :]:
            if isinstance(fact, Learned) and fact.definition.name == (schema, table):
                return fact.end
        return None

    def learn(self, place: Place, present: Present) -> None:
        """Learn what each table that is not known is, from the last statement on that touches it."""
        touched = [(change, self._names(change.statement, present.catalog)) for change in present.changes]
        last = {name: change.end for change, names in touched for name in names}
        for table in present.catalog.tables():
            known = self._catalog.table(table.schema, table.table)
            if isinstance(table, TableDefinition) and not isinstance(known, TableDefinition):
                self._insert(Learned(last.get(table.name, place), table))
        self._advance(_through(place))

    def catalog_at(self, place: Place) -> Catalog:
        """Return the definitions at a place that it covers."""
        self.go_to(place)
        return self._copied(self._catalog)

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        begin = self.beginning
        return {
            "server": begin.server,
            "begin": [begin.file, begin.offset],
            "read_to": None if self.read_to is None else self.read_to.to_dict(),
            "first": self._first.to_json(),
            "facts": [fact.to_json() for fact in self._facts],
        }

    @classmethod
    def from_json(cls, make: Callable[[], Catalog], data: Mapping[str, Any]) -> SchemaHistory:
        """Return the history of an object that `to_json` made, without tables that are not kept any more.

        Raises:
            ValueError, KeyError, TypeError, UsageError: it is none.
        """
        server, (file, offset) = str(data["server"]), data["begin"]
        file_order(file)
        loaded, first = make(), make()
        loaded.load_json(data["first"])
        for schema, collation in data["first"]["schemas"].items():
            first.set_schema(schema, collation)
        for table in loaded.tables():
            if isinstance(table, TableDefinition):
                first.set(table)
        history = cls(make)
        history.read_to = None if data["read_to"] is None else Position.from_dict(data["read_to"])
        facts = [fact_from_json(server, each) for each in data["facts"]]
        history._set(Place(server, str(file), int(offset)), first, facts)
        return history

    def _set(self, begin: Place, first: Catalog, facts: Sequence[Fact]) -> None:
        self._begin, self._first = begin, first
        self._facts = sorted(facts, key=lambda fact: fact.order)
        self._chars = sum(map(_chars, facts))
        self._catalog, self._applied = self._copied(first), 0

    def _insert(self, fact: Fact) -> None:
        bisect.insort(self._facts, fact, key=lambda each: each.order)
        self._chars += _chars(fact)

    def _advance(self, order: tuple[tuple[str, int], int, int]) -> None:
        """Apply the facts up to a place in their order."""
        while self._applied < len(self._facts) and self._facts[self._applied].order <= order:
            _apply(self._facts[self._applied], self._catalog)
            self._applied += 1

    def _matters(self, statement: Statement) -> bool:
        """Return whether a statement touches a table that is kept, or any schema."""
        return bool(self.make().apply(statement)) or _concerns_schemas(statement)

    def names_of(self, statement: Statement) -> set[SourceName]:
        """Return the tables that a statement touches, as far as it, or what is known here, says them."""
        return self._names(statement, self._catalog)

    def _names(self, statement: Statement, catalog: Catalog) -> set[SourceName]:
        """Return the tables that a statement touches; `catalog` has those that it does not name.

        It is applied to an empty catalog, which reports whatever a statement names: of a table that the
        catalog knows it would report only what makes it another one.
        """
        applied = self.make().apply(statement)
        if applied.any_unknown:
            return {table.name for table in catalog.tables() if isinstance(table, TableDefinition)}
        names = {*applied.changed, *applied.created, *applied.unknown}
        return names | {name for pair in applied.renamed for name in pair}

    def _schemas_changed(self, changes: Sequence[Change], known: Collection[str]) -> set[str]:
        """Return the schemas whose default collation statements may have changed."""
        found: set[str] = set()
        for change in changes:
            if _MATTERS.search(change.statement.sql) is not None:
                catalog = self.make()
                for schema in known:
                    catalog.set_schema(schema, BINARY_COLLATION)
                before = _schemas(catalog)
                catalog.apply(change.statement)
                after = _schemas(catalog)
                found |= {each for each in {*before, *after} if before.get(each) != after.get(each)}
        return found

    def _fold(self) -> None:
        if not self._applied or (len(self._facts) <= FACTS_MAX and self._chars <= FACTS_CHARS_MAX):
            return
        count = max(1, self._applied // 2)
        folded = self._facts[:count]
        for fact in folded:
            _apply(fact, self._first)
        self._begin = folded[-1].end
        del self._facts[:count]
        self._applied -= count
        self._chars -= sum(map(_chars, folded))

    def _copied(self, catalog: Catalog) -> Catalog:
        copy = self.make()
        copy.load_json(catalog.to_json())
        return copy


def _concerns_schemas(statement: Statement) -> bool:
    """Return whether a statement may change a schema; one on accounts does not, and may hold a password."""
    if _MATTERS.search(statement.sql) is None:
        return False
    try:
        tokens = tokens_of(statement)
    except UnreadableError:
        return True
    return not is_dcl(" ".join(token.text for token in tokens if token.kind is Kind.WORD))


def _schemas(catalog: Catalog) -> dict[str, int]:
    """Return the default collations of a catalog's schemas."""
    found: dict[str, int] = catalog.to_json()["schemas"]
    return found


def _through(place: Place) -> tuple[tuple[str, int], int, int]:
    """Return what sorts as the last fact at a place."""
    return file_order(place.file), place.offset, 1


def _chars(fact: Fact) -> int:
    return len(fact.statement.sql) if isinstance(fact, Change) else 0


def _apply(fact: Fact, catalog: Catalog) -> None:
    if isinstance(fact, Change):
        catalog.apply(fact.statement)
    elif not isinstance(catalog.table(*fact.definition.name), TableDefinition):
        catalog.set(fact.definition)
