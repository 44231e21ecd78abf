"""Altered tables: the table that results from the clauses of one ALTER TABLE.

The clauses of one statement are applied as the servers do it, not one after another. First columns go, or are
replaced where they are; then columns that have a new position, and new ones, are inserted, in the statement's
order. So AFTER names columns as they are called afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from canal_group.binlog.schema.clauses.charset_words import CharsetClauses
from canal_group.binlog.schema.clauses.columns import ColumnWords
from canal_group.binlog.schema.clauses.create_table import define
from canal_group.binlog.schema.clauses.keys import KeyWords
from canal_group.binlog.schema.clauses.tokens import UnreadableError
from canal_group.binlog.schema.clauses.words import Words
from canal_group.binlog.schema.definition import (
    PRIMARY,
    ColumnDefinition,
    SourceName,
    TableDefinition,
    Visibility,
)
from canal_group.binlog.schema.draft import Draft
from canal_group.binlog.schema.names import folded
from canal_group.binlog.schema.resolving import converted, in_charset


@dataclass(frozen=True, slots=True)
class Placed:
    """A column that ALTER TABLE adds, or that replaces another column."""

    column: ColumnWords
    #: name of the column that is replaced; empty: the column is added
    old: str
    #: as `Draft.insert` has it; None: at the end, or where the old one was
    position: str | None
    #: whether it is left out if a column of its name exists
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class Dropped:
    """A column, a key or a constraint that goes."""

    name: str
    if_exists: bool = False
    #: whether it may also be a check or a foreign key, which are not followed
    any_constraint: bool = False


@dataclass(slots=True)
class AlterWords:
    """The clauses of an ALTER TABLE."""

    charset: CharsetClauses
    placed: list[Placed] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    #: columns that are renamed if they exist; in lower case
    optional: set[str] = field(default_factory=set)
    visible: dict[str, bool] = field(default_factory=dict)
    keys: list[KeyWords] = field(default_factory=list)
    dropped_keys: list[Dropped] = field(default_factory=list)
    renamed_keys: list[tuple[str, str]] = field(default_factory=list)
    #: the columns of each period that is added, unless there is one of the name
    periods: dict[str, tuple[str, ...]] = field(default_factory=dict)
    dropped_periods: list[str] = field(default_factory=list)
    #: the charset clauses of CONVERT TO; None: the statement does not convert
    convert: CharsetClauses | None = None
    versioned: bool | None = None
    #: name of the new engine in upper case; empty: the statement names no engine
    engine: str = ""
    #: the table's new name
    target: SourceName | None = None
    #: whether a clause changes the table in another way than by a new name
    others: bool = False
    #: whether there is a clause that has no IF EXISTS or IF NOT EXISTS under which it does nothing
    binding: bool = False
    #: tables that a partition becomes, and that become a partition
    split_off: list[SourceName] = field(default_factory=list)
    taken_in: list[SourceName] = field(default_factory=list)
    #: tables whose rows become those of a partition, and the other way round
    exchanged: list[SourceName] = field(default_factory=list)
    #: words of new defaults that may be names, by column
    reads: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def new_names(self) -> dict[str, str]:
        """The new names of columns that are renamed or redefined, by the old ones, which are `folded`."""
        redefined = {folded(placed.old): placed.column.name for placed in self.placed if placed.old}
        return {**self.renamed, **redefined}

    @property
    def new_reads(self) -> dict[str, tuple[str, ...]]:
        """Words of new expressions that may be names, by column, which is `folded`."""
        return {**{folded(placed.column.name): placed.column.reads for placed in self.placed}, **self.reads}

    @property
    def renames_only(self) -> bool:
        """Whether it leaves the definition as it is, but for the table's name."""
        return not self.others

    def is_void(self, draft: Draft) -> bool:
        """Return whether nothing has to be done: no name of IF EXISTS exists, and each of IF NOT EXISTS does.

        The server then leaves the table as it is, with the facts that any other change makes it forget.
        """
        there = {folded(column.name) for column in draft.columns}
        return (
            not self.binding
            and all(
                folded(placed.old) not in there if placed.old else folded(placed.column.name) in there
                for placed in self.placed
            )
            and not any(folded(dropped.name) in there for dropped in self.dropped)
            and not any(draft.has_key(dropped.name) for dropped in self.dropped_keys)
            and all(draft.has(key) for key in self.keys)
        )

    def applied(self, draft: Draft, *, default_collation: int | None, words: Words) -> TableDefinition:
        """Return the changed table, under its old name.

        Args:
            draft: the table.
            default_collation: the meaning of DEFAULT in CONVERT TO.
            words: the statement.

        Raises:
            UnreadableError: it does not fit the table.
        """
        if self.convert is None:
            draft.collation = self.charset.collation_or(draft.collation, default_collation)
        else:
            if self.charset.any:
                raise UnreadableError("a table is converted to a charset, and has another default")
            draft.collation = self._converted_to(default_collation)
        draft.versioned = draft.versioned if self.versioned is None else self.versioned
        self._change_keys(draft)
        self._change_columns(draft, words=words)
        renamed = self.new_names
        draft.rename_in_keys(renamed)
        draft.change_engine(self.engine)
        for name in self.dropped_periods:
            draft.periods.pop(folded(name), None)
        added = self.periods.items()
        draft.add_periods({name: pair for name, pair in added if folded(name) not in draft.periods})
        for key in self.keys:
            draft.add_key(key)
        return draft.finished()

    def _converted_to(self, default: int | None) -> int:
        clauses = self.convert
        assert clauses is not None
        if clauses.to_default:  # unlike elsewhere, MySQL takes the collation for it as well as the charset
            clauses = replace(clauses, charset=default, to_default=False)
        collation = clauses.collation_or(None)
        if collation is None:
            raise UnreadableError("the default collation of the schema is not known")
        return collation

    def _change_keys(self, draft: Draft) -> None:
        for dropped in self.dropped_keys:
            if folded(dropped.name) == folded(PRIMARY):
                draft.primary_key = []
            elif draft.has_key(dropped.name) or not (dropped.if_exists or dropped.any_constraint):
                draft.drop_key(dropped.name)
        for old, new in self.renamed_keys:
            draft.rename_key(old, new)

    def _change_columns(self, draft: Draft, *, words: Words) -> None:
        existing = {folded(column.name) for column in draft.columns}
        gone = self._gone(draft)
        replaced = self._replaced(draft)
        for name in {*self.renamed, *self.visible} - self.optional:
            draft.require(name)
        before, draft.columns = draft.columns, []
        for column in before:
            if folded(column.name) not in gone:
                by = replaced.get(folded(column.name))
                after = self._after(draft, column, by, words=words)
                draft.columns.append(after)
                draft.keep_key_bytes(column, after)
        for placed in self.placed:
            name = folded(placed.column.name)
            moved = placed.position is not None and folded(placed.old) in replaced
            if moved if placed.old else not (placed.if_not_exists and name in existing):
                if moved:
                    # The column leaves its old position only now, because an earlier clause may have placed a
                    # column AFTER it.
                    draft.columns = [column for column in draft.columns if folded(column.name) != name]
                existing.add(name)
                gone -= set() if placed.old else {name}  # A key goes on with a new column of the name.
                draft.insert(self._new(draft, placed, words=words), placed.position)
        draft.drop_from_keys(gone)

    def _gone(self, draft: Draft) -> set[str]:
        gone = set()
        for dropped in self.dropped:
            if not (dropped.if_exists and draft.index_of(dropped.name) is None):
                draft.require(dropped.name)
                gone.add(folded(dropped.name))
        return gone

    def _replaced(self, draft: Draft) -> dict[str, Placed]:
        replaced = {}
        for placed in self.placed:
            if placed.old and not (placed.if_not_exists and draft.index_of(placed.old) is None):
                draft.require(placed.old)
                replaced[folded(placed.old)] = placed
        return replaced

    def _after(
        self, draft: Draft, column: ColumnDefinition, by: Placed | None, *, words: Words
    ) -> ColumnDefinition:
        """Return the column that results from the statement's changes or replacement (`by`)."""
        lower = folded(column.name)
        if by is None:
            after = self._converted(draft, column, words=words)
            # A new expression has the new names of the same statement, and so have these.
            renamed = self.new_names
            reads = tuple(folded(renamed.get(name, name)) for name in after.reads)
            after = replace(after, name=self.renamed.get(lower, after.name), reads=reads)
        else:
            after = self._new(draft, by, words=words)
        if lower in self.visible:
            visibility = Visibility.VISIBLE if self.visible[lower] else Visibility.INVISIBLE
            after = replace(after, visibility=visibility)
        return replace(after, reads=self.reads.get(lower, after.reads))

    def _converted(self, draft: Draft, column: ColumnDefinition, *, words: Words) -> ColumnDefinition:
        if self.convert is None or draft.collation is None:
            return column
        statement = words.statement
        return converted(column, draft.collation, strict=statement.strict, mariadb=statement.server.mariadb)

    def _new(self, draft: Draft, placed: Placed, *, words: Words) -> ColumnDefinition:
        column = placed.column
        if self.convert is not None and draft.collation is not None:
            mariadb = words.statement.server.mariadb
            column = replace(column, type=in_charset(column.type, draft.collation, mariadb=mariadb))
        return define(draft, column, words=words)
