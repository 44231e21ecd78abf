"""History: the definitions of a source's tables at each place of its binlog.

It begins with what the server shows at one moment, its *present*, and with the statements between the place
where reading begins and that moment. From them follows what is known at the beginning:

- a table that none of the statements touches is as it is at present;
- a table that a statement creates is known from there on;
- a table that is altered, and not created before, is known after the last statement that touches it only.

Then each statement of the binlog is applied when it is read. Whatever a statement leaves unknown can be
learned later, from another present.

The statements are kept, so that reading can go back: to where a lost connection, or a rewind, begins again.
At `CHANGES_MAX` the older half is folded into the beginning, and reading cannot go back before it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from actors.parse.schema.catalog import Catalog
from actors.parse.schema.definition import SourceName, TableDefinition, UnknownTable
from actors.parse.schema.statement import Statement
from merge.values.position import file_order

#: statements that are kept
CHANGES_MAX = 10_000


class Place(NamedTuple):
    """A place in a server's binlog, between two events. Only places of one server can be compared."""

    server: str
    file: str
    offset: int

    def reaches(self, other: Place) -> bool:
        """Return whether it is at or after another place of the same server's binlog."""
        (base, number), (other_base, other_number) = file_order(self.file), file_order(other.file)
        same = (self.server, base) == (other.server, other_base)
        return same and (number, self.offset) >= (other_number, other.offset)


class Change(NamedTuple):
    """A statement of the binlog that defines something."""

    #: where its event ends
    end: Place
    statement: Statement


class Present(NamedTuple):
    """What a server shows at one moment, and the statements that lead from a place to that moment."""

    catalog: Catalog
    changes: Sequence[Change]


class _Learned(NamedTuple):
    """A definition that was learned, at the place where it was needed."""

    end: Place
    definition: TableDefinition


class SchemaHistory:
    """The definitions of one source's tables; see the module's rules.

    Args:
        make: returns an empty catalog.
    """

    def __init__(self, make: Callable[[], Catalog]) -> None:
        #: returns an empty catalog
        self.make = make
        #: definitions at the beginning, and now
        self._first = make()
        self._catalog = make()
        self._begin: Place | None = None
        self._steps: list[Change | _Learned] = []
        #: what the server showed, and the last statement that touches each table before it did
        self._present = make()
        self._last: dict[SourceName, Place] = {}

    def begin(self, place: Place, present: Present) -> None:
        """Begin at a place; everything that was known before is forgotten."""
        self._begin, self._steps = place, []
        self._present, self._last = present.catalog, self._touched(present)
        self._first = self.make()
        for schema, collation in present.catalog.to_json()["schemas"].items():
            self._first.set_schema(schema, collation)
        for table in present.catalog.tables():
            if isinstance(table, TableDefinition) and table.name not in self._last:
                self._first.set(table)
        self._catalog = self._copied(self._first)

    def covers(self, place: Place) -> bool:
        """Return whether reading may continue at a place."""
        return self._begin is not None and place.reaches(self._begin)

    def go_to(self, place: Place) -> None:
        """Go back, or on, to a place that it covers: what was applied after it is undone."""
        assert self.covers(place), "reading may continue there"
        if not self._steps or place.reaches(self._steps[-1].end):
            return
        steps, self._steps = self._steps, []
        self._catalog = self._copied(self._first)
        for step in steps:
            if not place.reaches(step.end):
                break
            self._take(step)

    def apply(self, change: Change) -> None:
        """Apply the next statement of the binlog; one that was applied before is ignored."""
        if self._begin is None or (self._steps and self._steps[-1].end.reaches(change.end)):
            return
        self._take(change)
        if len(self._steps) > CHANGES_MAX:
            self._fold(len(self._steps) // 2)

    def table(self, schema: str, table: str) -> TableDefinition | UnknownTable | None:
        """Return a table's definition here, why it is not known, or None: there is no such table."""
        return self._catalog.table(schema, table)

    def known_after(self, schema: str, table: str) -> Place | None:
        """Return the end of the last statement before the present that touches a table; None if read."""
        last = self._last.get(SourceName(schema, table))
        here = self._steps[-1].end if self._steps else self._begin
        return last if last is not None and here is not None and not here.reaches(last) else None

    def learn(self, place: Place, schema: str, table: str, present: Present) -> None:
        """Learn what a table is here, if none of the statements from here to the present touches it."""
        found = present.catalog.table(schema, table)
        if isinstance(found, TableDefinition) and found.name not in self._touched(present):
            self._take(_Learned(place, found))

    def _touched(self, present: Present) -> dict[SourceName, Place]:
        """Return the end of the last statement that touches each table.

        Each is applied to an empty catalog, which reports whatever a statement names: of a table that the
        catalog knows it would report only what makes it another one.
        """
        last: dict[SourceName, Place] = {}
        for change in present.changes:
            applied = self.make().apply(change.statement)
            names = {*applied.changed, *applied.created, *applied.unknown}
            names |= {name for pair in applied.renamed for name in pair}
            if applied.any_unknown:
                names |= {
                    table.name for table in present.catalog.tables() if isinstance(table, TableDefinition)
                }
            last.update(dict.fromkeys(names, change.end))
        return last

    def _take(self, step: Change | _Learned) -> None:
        self._steps.append(step)
        _apply(step, self._catalog, self._present, self._last)

    def _fold(self, count: int) -> None:
        for step in self._steps[:count]:
            _apply(step, self._first, self._present, self._last)
        self._begin = self._steps[count - 1].end
        del self._steps[:count]

    def _copied(self, catalog: Catalog) -> Catalog:
        copy = self.make()
        copy.load_json(catalog.to_json())
        return copy


def _apply(
    step: Change | _Learned, catalog: Catalog, present: Catalog, last: dict[SourceName, Place]
) -> None:
    """Apply a step; after the last statement that touches a table before the present, it is as at present."""
    if isinstance(step, _Learned):
        catalog.set(step.definition)
        return
    catalog.apply(step.statement)
    for name, end in last.items():
        if end == step.end and not isinstance(catalog.table(*name), TableDefinition):
            found = present.table(*name)
            if isinstance(found, TableDefinition):
                catalog.set(found)
