"""ALTER TABLE: its clauses, and what they make of a table.

The clauses of one statement are applied as the servers do it, not one after another. First columns go, or are
replaced where they are; then columns that have a new position, and new ones, are put in their places, in the
statement's order. So AFTER names columns as they are called afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from actors.parse.schema.charset_words import CharsetClauses, Charsets
from actors.parse.schema.columns import ColumnWords, read_column, skip_default
from actors.parse.schema.create_table import define, keys_of, read_engine, read_period
from actors.parse.schema.definition import PRIMARY, ColumnDefinition, SourceName, TableDefinition, Visibility
from actors.parse.schema.draft import Draft
from actors.parse.schema.keys import KeyWords, read_key, sees_key
from actors.parse.schema.names import folded
from actors.parse.schema.tokens import Kind, UnreadableError
from actors.parse.schema.types import converted, in_charset
from actors.parse.schema.words import Words

_PARTITION_WORDS = (
    "COALESCE",
    "REORGANIZE",
    "TRUNCATE",
    "ANALYZE",
    "CHECK",
    "OPTIMIZE",
    "REBUILD",
    "REPAIR",
    "DISCARD",
    "IMPORT",
    # with a table of an equal definition, else the server refuses
    "EXCHANGE",
)
#: options of a table, which need no equals sign
_OPTIONS = {
    "AUTO_INCREMENT",
    "AUTOEXTEND_SIZE",
    "AVG_ROW_LENGTH",
    "CHECKSUM",
    "COMMENT",
    "COMPRESSION",
    "CONNECTION",
    "DELAY_KEY_WRITE",
    "ENCRYPTION",
    "ENGINE_ATTRIBUTE",
    "INSERT_METHOD",
    "KEY_BLOCK_SIZE",
    "MAX_ROWS",
    "MIN_ROWS",
    "PACK_KEYS",
    "PAGE_CHECKSUM",
    "PASSWORD",
    "ROW_FORMAT",
    "SECONDARY_ENGINE",
    "SECONDARY_ENGINE_ATTRIBUTE",
    "SEQUENCE",
    "STATS_AUTO_RECALC",
    "STATS_PERSISTENT",
    "STATS_SAMPLE_PAGES",
    "STORAGE",
    "TABLESPACE",
    "TRANSACTIONAL",
    "TYPE",
}
#: of partitions: MySQL logs these also of a table that is not there
_MAINTENANCE = ("ANALYZE", "CHECK", "OPTIMIZE", "REPAIR", "TRUNCATE")
_RENAMED_PARTS = ("COLUMN", "INDEX", "KEY")
_IDLE_CLAUSES = (
    ("ENABLE", "KEYS"),
    ("DISABLE", "KEYS"),
    ("FORCE",),
    ("WITH", "VALIDATION"),
    ("WITHOUT", "VALIDATION"),
    ("DISCARD", "TABLESPACE"),
    ("IMPORT", "TABLESPACE"),
    ("SECONDARY_LOAD",),
    ("SECONDARY_UNLOAD",),
    ("REMOVE", "PARTITIONING"),
    ("UPGRADE", "PARTITIONING"),
    ("DATA", "DIRECTORY"),
    ("INDEX", "DIRECTORY"),
)


@dataclass(frozen=True, slots=True)
class _Placed:
    """A column that is added, or that replaces one."""

    column: ColumnWords
    #: the column that it replaces; empty: none
    old: str
    #: as `Draft.insert` has it; None: at the end, or where the old one was
    position: str | None
    #: whether it is left out if a column of its name exists
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class _Dropped:
    """A column, a key or a constraint that goes."""

    name: str
    if_exists: bool = False
    #: whether it may also be a check or a foreign key, which are not followed
    any_constraint: bool = False


@dataclass(slots=True)
class AlterWords:
    """What an ALTER TABLE says."""

    charset: CharsetClauses
    placed: list[_Placed] = field(default_factory=list)
    dropped: list[_Dropped] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    #: columns that are renamed, or shown, if they exist; in lower case
    optional: set[str] = field(default_factory=set)
    visible: dict[str, bool] = field(default_factory=dict)
    keys: list[KeyWords] = field(default_factory=list)
    dropped_keys: list[_Dropped] = field(default_factory=list)
    renamed_keys: list[tuple[str, str]] = field(default_factory=list)
    #: the columns of each new period
    periods: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: those that are left out if there is one of the name
    missing_periods: dict[str, tuple[str, ...]] = field(default_factory=dict)
    dropped_periods: list[str] = field(default_factory=list)
    #: None: CONVERT TO comes not; else its clauses
    convert: CharsetClauses | None = None
    versioned: bool | None = None
    #: in upper case; empty: it names none
    engine: str = ""
    #: the table's new name
    target: SourceName | None = None
    #: whether there is a clause besides that of the new name, and those that leave the table as it is
    others: bool = False
    #: how many clauses do nothing under their IF EXISTS or IF NOT EXISTS, and whether there are others
    optional_clauses: int = 0
    binding: bool = False
    #: tables that a partition becomes, and that become a partition
    split_off: list[SourceName] = field(default_factory=list)
    taken_in: list[SourceName] = field(default_factory=list)

    @property
    def renames_only(self) -> bool:
        """Whether it leaves the definition as it is, but for the table's name."""
        return not self.others

    def is_void(self, draft: Draft) -> bool:
        """Return whether nothing is left to do: what IF EXISTS names is not there, or IF NOT EXISTS is.

        The server then leaves the table as it is, with what any other change would make it forget.
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
            default_collation: what DEFAULT means in CONVERT TO.
            words: the statement.

        Raises:
            UnreadableError: it does not fit the table.
        """
        if self.convert is None:
            draft.collation = self.charset.chosen(draft.collation, default_collation)
        else:
            if self.charset.said:
                raise UnreadableError("a table is converted to a charset, and has another default")
            draft.collation = self._converted_to(default_collation)
        draft.versioned = draft.versioned if self.versioned is None else self.versioned
        self._change_keys(draft)
        renamed = self._change_columns(draft, words=words)
        draft.rename_in_keys(renamed)
        draft.change_engine(self.engine)
        for name in self.dropped_periods:
            draft.periods.pop(folded(name), None)
        draft.add_periods(self.periods)
        missing = self.missing_periods.items()
        draft.add_periods({name: pair for name, pair in missing if folded(name) not in draft.periods})
        for key in self.keys:
            draft.add_key(key)
        return draft.finished()

    def _converted_to(self, default: int | None) -> int:
        clauses = self.convert
        assert clauses is not None
        if clauses.to_default:  # unlike elsewhere, MySQL takes the collation for it as well as the charset
            clauses = replace(clauses, charset=default, to_default=False)
        collation = clauses.chosen(None)
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

    def _change_columns(self, draft: Draft, *, words: Words) -> dict[str, str]:
        """Change the columns; return the new name of each renamed one, by the old one in lower case."""
        existing = {folded(column.name) for column in draft.columns}
        gone = self._gone(draft)
        replaced = self._replaced(draft)
        for name in {*self.renamed, *self.visible} - self.optional:
            draft.require(name)
        before, draft.columns = draft.columns, []
        for column in before:
            if folded(column.name) not in gone:
                by = replaced.get(folded(column.name))
                kept = self._kept(draft, column, by, words=words)
                draft.columns.append(kept)
                draft.keep_key_bytes(column, kept)
        for placed in self.placed:
            name = folded(placed.column.name)
            moved = placed.position is not None and folded(placed.old) in replaced
            if moved if placed.old else not (placed.if_not_exists and name in existing):
                if moved:
                    # Until here it had its old place, and clauses before this one could name it.
                    draft.columns = [column for column in draft.columns if folded(column.name) != name]
                existing.add(name)
                gone -= set() if placed.old else {name}  # A key goes on with a new column of the name.
                draft.insert(self._new(draft, placed, words=words), placed.position)
        draft.drop_from_keys(gone)
        return {**self.renamed, **{old: placed.column.name for old, placed in replaced.items()}}

    def _gone(self, draft: Draft) -> set[str]:
        gone = set()
        for dropped in self.dropped:
            if not (dropped.if_exists and draft.index_of(dropped.name) is None):
                draft.require(dropped.name)
                gone.add(folded(dropped.name))
        return gone

    def _replaced(self, draft: Draft) -> dict[str, _Placed]:
        replaced = {}
        for placed in self.placed:
            if placed.old and not (placed.if_not_exists and draft.index_of(placed.old) is None):
                draft.require(placed.old)
                replaced[folded(placed.old)] = placed
        return replaced

    def _kept(
        self, draft: Draft, column: ColumnDefinition, by: _Placed | None, *, words: Words
    ) -> ColumnDefinition:
        """Return what stands in a column's place: itself with what changes of it, or what replaces it."""
        lower = folded(column.name)
        if by is None:
            kept = self._converted(draft, column, words=words)
            kept = replace(kept, name=self.renamed.get(lower, kept.name))
        else:
            kept = self._new(draft, by, words=words)
        if lower in self.visible:
            visibility = Visibility.VISIBLE if self.visible[lower] else Visibility.INVISIBLE
            kept = replace(kept, visibility=visibility)
        return kept

    def _converted(self, draft: Draft, column: ColumnDefinition, *, words: Words) -> ColumnDefinition:
        if self.convert is None or draft.collation is None:
            return column
        statement = words.statement
        return converted(column, draft.collation, strict=statement.strict, mariadb=statement.server.mariadb)

    def _new(self, draft: Draft, placed: _Placed, *, words: Words) -> ColumnDefinition:
        column = placed.column
        if self.convert is not None and draft.collation is not None:
            mariadb = words.statement.server.mariadb
            column = replace(column, type=in_charset(column.type, draft.collation, mariadb=mariadb))
        return define(draft, column, words=words)


def read_alter(words: Words, charsets: Charsets) -> AlterWords:
    """Read ALTER TABLE after the table's name.

    Raises:
        UnreadableError: a clause is not understood.
    """
    return _Clauses(words, charsets).read()


class _Clauses:
    def __init__(self, words: Words, charsets: Charsets) -> None:
        self._words = words
        self._charsets = charsets
        self._alter = AlterWords(CharsetClauses(charsets))
        self._by_word: dict[str, Callable[[], None]] = {
            "ADD": self._add,
            "DROP": self._drop,
            "MODIFY": self._modify,
            "CHANGE": self._change,
            "RENAME": self._rename,
            "ALTER": self._alter_part,
            "CONVERT": self._convert,
            "ORDER": self._order,
        }

    def read(self) -> AlterWords:
        words = self._words
        if words.skip("WAIT"):
            words.number()
        else:
            words.skip("NOWAIT")
        while not words.ended:
            if words.skip(","):
                continue
            renames = words.sees("RENAME") and words.peek(1).word not in _RENAMED_PARTS
            maintains = words.peek().word in _MAINTENANCE and words.peek(1).word == "PARTITION"
            self._alter.others |= not renames and not maintains and words.peek(1).word != "KEYS"
            by_word = self._by_word.get(words.peek().word)
            optional = self._alter.optional_clauses
            if by_word is not None:
                words.take()
                by_word()
            elif not self._other():
                raise words.unexpected()
            self._alter.binding |= self._alter.optional_clauses == optional
        return self._alter

    def _other(self) -> bool:
        """Take a clause that changes no column, or the table's charset; return whether one came."""
        words = self._words
        if self._alter.charset.read(words) or any(words.skip(*clause) for clause in _IDLE_CLAUSES):
            return True
        if words.skip_any("ALGORITHM", "LOCK"):
            words.skip("=")
            words.take()
            return True
        if words.sees("PARTITION", "BY") or any(words.sees(word, "PARTITION") for word in _PARTITION_WORDS):
            words.skip_rest()
            return True
        if words.skip("WITH", "SYSTEM", "VERSIONING"):
            self._alter.versioned = True
            return True
        return self._option()

    def _option(self) -> bool:
        """Take an option of the table; return whether one came."""
        if self._words.sees("ENGINE"):
            self._alter.engine = read_engine(self._words)
            return True
        if self._words.skip("UNION"):
            self._words.skip("=")
            self._words.skip_group()
            return True
        if self._words.skip_option():
            return True
        found = self._words.skip_any(*_OPTIONS)
        if found:
            self._words.take()
        return found

    def _add(self) -> None:
        words = self._words
        if words.sees("PARTITION"):
            words.skip_rest()
        elif words.skip("SYSTEM", "VERSIONING"):
            self._alter.versioned = True
        elif words.sees("PERIOD", "FOR") or words.sees("PERIOD", "IF"):
            self._period()
        elif sees_key(words):
            key = read_key(words)
            self._alter.keys.append(key)
            self._alter.optional_clauses += key.if_not_exists
        else:
            words.skip("COLUMN")
            if_not_exists = words.skip_if_exists()
            if words.sees("("):
                words.in_parentheses(lambda: self._element(if_not_exists=if_not_exists))
            else:
                self._place("", words.column_name(), if_exists=if_not_exists)

    def _period(self) -> None:
        self._words.expect("PERIOD")
        optional = self._words.skip_if_exists()
        self._words.expect("FOR")
        found = read_period(self._words)
        if optional:
            self._alter.missing_periods |= found
        else:
            self._alter.periods |= found

    def _element(self, *, if_not_exists: bool) -> None:
        if self._words.skip("PERIOD", "FOR"):
            self._alter.periods |= read_period(self._words)
        elif sees_key(self._words):
            self._alter.keys.append(read_key(self._words))
        else:
            self._place("", self._words.column_name(), if_exists=if_not_exists)

    def _place(self, old: str, name: str, *, if_exists: bool) -> None:
        words = self._words
        column = read_column(words, self._charsets, name)
        position = None
        if words.skip("FIRST"):
            position = ""
        elif words.skip("AFTER"):
            position = words.column_name()
        self._alter.placed.append(_Placed(column, old, position, if_exists))
        self._alter.optional_clauses += if_exists and position is None
        self._alter.keys += [replace(key, if_not_exists=if_exists and not old) for key in keys_of(column)]

    def _modify(self) -> None:
        self._words.skip("COLUMN")
        if_exists = self._words.skip_if_exists()
        name = self._words.column_name()
        self._place(name, name, if_exists=if_exists)

    def _change(self) -> None:
        self._words.skip("COLUMN")
        if_exists = self._words.skip_if_exists()
        old = self._words.column_name()
        self._place(old, self._words.column_name(), if_exists=if_exists)

    def _drop(self) -> None:
        words, alter = self._words, self._alter
        if words.sees("PARTITION"):
            words.skip_rest()
        elif words.skip("PRIMARY", "KEY"):
            alter.dropped_keys.append(_Dropped(PRIMARY))
        elif words.skip("SYSTEM", "VERSIONING"):
            alter.versioned = False
        elif words.skip("PERIOD"):
            words.skip_if_exists()
            words.expect("FOR")
            alter.dropped_periods.append(words.name())
        elif words.skip("FOREIGN", "KEY") or words.skip("CHECK"):
            words.skip_if_exists()
            words.name()
        elif words.skip_any("INDEX", "KEY"):
            if_exists = words.skip_if_exists()
            alter.dropped_keys.append(_Dropped(words.name(), if_exists))
            alter.optional_clauses += if_exists
        elif words.skip("CONSTRAINT"):
            if_exists = words.skip_if_exists()
            alter.dropped_keys.append(_Dropped(words.name(), if_exists, any_constraint=True))
        else:
            words.skip("COLUMN")
            if_exists = words.skip_if_exists()
            alter.dropped.append(_Dropped(words.column_name(), if_exists))
            alter.optional_clauses += if_exists
            words.skip_any("RESTRICT", "CASCADE")

    def _rename(self) -> None:
        words, alter = self._words, self._alter
        if words.skip("COLUMN"):
            if_exists = words.skip_if_exists()
            old = words.name()
            if if_exists:
                alter.optional.add(folded(old))
            words.expect("TO")
            alter.renamed[folded(old)] = words.name()
        elif words.skip_any("INDEX", "KEY"):
            words.skip_if_exists()
            old = words.name()
            words.expect("TO")
            alter.renamed_keys.append((old, words.name()))
        else:
            words.skip_any("TO", "AS", "=")
            alter.target = words.table_name()

    def _alter_part(self) -> None:
        words = self._words
        if words.skip_any("INDEX", "KEY", "CHECK", "CONSTRAINT"):
            words.skip_item()
        else:
            words.skip("COLUMN")
            if_exists = words.skip_if_exists()
            name = words.name()
            if if_exists:
                self._alter.optional.add(folded(name))
            self._set(name)

    def _set(self, name: str) -> None:
        words = self._words
        if words.skip("SET", "DEFAULT"):
            skip_default(words)
        elif words.skip("SET", "VISIBLE"):
            self._alter.visible[folded(name)] = True
        elif words.skip("SET", "INVISIBLE"):
            self._alter.visible[folded(name)] = False
        else:
            words.expect("DROP", "DEFAULT")

    def _convert(self) -> None:
        words, alter = self._words, self._alter
        if words.skip("PARTITION"):
            words.name()
            words.expect("TO", "TABLE")
            alter.split_off.append(words.table_name())
            words.skip_rest()
        elif words.skip("TABLE"):
            alter.taken_in.append(words.table_name())
            words.skip_rest()
        else:
            words.expect("TO")
            alter.convert = CharsetClauses(self._charsets)
            if not alter.convert.read(words):
                raise words.unexpected("CHARACTER SET should come")
            if words.sees("COLLATE"):
                alter.convert.read(words)

    def _order(self) -> None:
        """Take ORDER BY with its columns: commas separate them, as they separate clauses."""
        words = self._words
        words.expect("BY")
        while True:
            words.name()
            while words.skip("."):
                words.name()
            words.skip_any("ASC", "DESC")
            follows = words.peek(2)
            ends = follows.kind is Kind.END or follows.word in (",", "ASC", "DESC", ".")
            if not (words.sees(",") and ends):
                return
            words.take()
