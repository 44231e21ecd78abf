"""The draft of a table: its columns and keys while a statement defines or changes it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from canal_group.binlog.charsets.charsets import charset_of
from canal_group.binlog.columns.types.strings import listed_size
from canal_group.binlog.schema.clauses.keys import KeyKind, KeyPart, KeyWords
from canal_group.binlog.schema.clauses.tokens import UnreadableError
from canal_group.binlog.schema.definition import PRIMARY, ColumnDefinition, Generated, Key, TableDefinition
from canal_group.binlog.schema.long_keys import GEOMETRY_PREFIX, UNLIKE_INNODB, is_long, may_hash
from canal_group.binlog.schema.names import folded
from canal_group.binlog.schema.resolving import is_geometry, is_text
from canal_group.merge.values.types.kinds import Storage
from canal_group.merge.values.types.table import BY_NAME, TABLE

#: MySQL's name of an index of an expression
_OF_EXPRESSION = "functional_index"
#: the period of a system-versioned table
_SYSTEM_TIME = "system_time"
#: types of limited length that a key may have a prefix of
_WITH_PREFIXES = {row.name for row in TABLE if row.has_prefixes}


@dataclass(slots=True)
class Draft:
    """A table that is being defined or changed; `finished` returns its definition."""

    #: the table before
    base: TableDefinition
    #: whether MariaDB of a version that hashes long keys defines it
    hashes: bool
    columns: list[ColumnDefinition] = field(default_factory=list)
    primary_key: list[KeyPart] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    #: None: unknown
    collation: int | None = None
    versioned: bool = False
    #: in upper case; empty: as InnoDB, or unknown
    engine: str = ""
    #: names of columns that a period makes NOT NULL
    filled: set[str] = field(default_factory=set)
    #: periods: the columns of their start and end, by their names
    periods: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: whether keys of foreign keys are not all known
    _foreign: list[KeyWords] = field(default_factory=list)

    @staticmethod
    def of(definition: TableDefinition, *, hashes: bool) -> Draft:
        """Return a draft that begins as a table is.

        With each change a server of MariaDB decides anew which keys it hashes: USING HASH is forgotten.
        """
        return Draft(
            definition,
            hashes,
            list(definition.columns),
            _parts(Key(PRIMARY, definition.primary_key, prefixes=definition.primary_prefixes)),
            [replace(key, hashed=False) for key in definition.keys],
            definition.collation or None,
            definition.versioned,
            definition.engine,
            periods={definition.period[0]: definition.period[1:]} if definition.period else {},
        )

    def index_of(self, name: str) -> int | None:
        """Return the index of a column; None if there is none of the name."""
        lower = folded(name)
        return next((at for at, each in enumerate(self.columns) if folded(each.name) == lower), None)

    def insert(self, column: ColumnDefinition, position: str | None) -> None:
        """Add a column: at the end (None), first (empty), or after the column of a name.

        Raises:
            UnreadableError: there is no column of the name it should follow.
        """
        if position is None:
            self.columns.append(column)
        elif not position:
            self.columns.insert(0, column)
        else:
            self.columns.insert(self.require(position) + 1, column)

    def require(self, name: str) -> int:
        """Return the index of a column.

        Raises:
            UnreadableError: there is none of the name.
        """
        at = self.index_of(name)
        if at is None:
            raise UnreadableError(f"there is no column {name}")
        return at

    def rename_in_keys(self, renamed: dict[str, str]) -> None:
        """Give columns of keys and periods new names; `renamed` has the old ones as `folded` returns them."""
        self.periods = {
            period: tuple(renamed.get(folded(name), name) for name in columns)
            for period, columns in self.periods.items()
        }
        self.primary_key = [
            replace(part, column=renamed.get(folded(part.column), part.column)) for part in self.primary_key
        ]
        self.keys = [
            replace(key, columns=tuple(renamed.get(folded(name), name) for name in key.columns))
            for key in self.keys
        ]

    def drop_from_keys(self, dropped: Iterable[str]) -> None:
        """Remove columns, whose names are `folded`, from keys; a key without columns goes."""
        gone = set(dropped)
        self.primary_key = [part for part in self.primary_key if folded(part.column) not in gone]
        keys = []
        for key in self.keys:
            parts = [part for part in _parts(key) if folded(part.column) not in gone]
            if parts:
                columns, prefixes = (part.column for part in parts), (part.prefix for part in parts)
                keys.append(replace(key, columns=tuple(columns), prefixes=tuple(prefixes)))
        self.keys = keys

    def keep_key_bytes(self, before: ColumnDefinition, after: ColumnDefinition) -> None:
        """Change the keys of a column that was an ENUM or a SET and becomes a string.

        MySQL's keys still cover as many bytes as the numbers had that ENUM and SET are stored as.
        """
        storage = BY_NAME[before.type].storage
        if self.hashes or storage not in (Storage.ENUM, Storage.SET) or after.type not in _WITH_PREFIXES:
            return
        count = listed_size(storage, len(before.values)) // charset_of(before.collation).width
        for at, key in enumerate(self.keys):
            parts = [
                replace(part, prefix=count) if part.column == before.name and not part.prefix else part
                for part in _parts(key)
            ]
            self.keys[at] = replace(key, prefixes=tuple(part.prefix for part in parts))

    def add_key(self, words: KeyWords) -> None:
        """Add a key as a statement has it.

        Raises:
            UnreadableError: a column of it does not exist.
        """
        if words.kind is KeyKind.CHECK or (words.if_not_exists and self.has(words)):
            return
        if words.kind is KeyKind.FOREIGN:
            self._foreign.append(words)
            return
        parts = [each for part in words.parts for each in self._expanded(part)]
        columns = tuple(self.columns[self.require(part.column)].name if part.column else "" for part in parts)
        if words.kind is KeyKind.PRIMARY:
            self.primary_key = [replace(part, column=name) for part, name in zip(parts, columns, strict=True)]
        else:
            unique = words.kind is KeyKind.UNIQUE
            name = words.name or self._new_name(_stem(columns))
            prefixes = tuple(part.prefix for part in parts)
            # In a draft, `hashed` says that the statement has USING HASH; `finished` decides whether the key
            # is hashed.
            self.keys.append(Key(name, columns, unique, prefixes, words.hashed))

    def _expanded(self, part: KeyPart) -> list[KeyPart]:
        """Return a part of a key, or the columns of its period: MariaDB has the end before the start."""
        if not part.is_period:
            return [part]
        columns = self.periods.get(folded(part.column))
        if columns is None:
            raise UnreadableError(f"a key ends with period {part.column}, whose columns are not known")
        return [KeyPart(name) for name in reversed(columns)]

    def change_engine(self, engine: str) -> None:
        """Change the engine, unless it is empty.

        Raises:
            UnreadableError: MariaDB then hashes keys that earlier statements have asked it to.
        """
        unique = any(key.unique for key in self.keys)
        if self.hashes and unique and engine and not may_hash(self.engine) and may_hash(engine):
            raise UnreadableError(f"UNIQUE keys of {self.engine} become those of {engine}")
        self.engine = engine or self.engine

    def add_periods(self, periods: dict[str, tuple[str, ...]]) -> None:
        """Add the columns of periods by their names; they are NOT NULL."""
        self.periods.update({folded(name): columns for name, columns in periods.items()})
        self.filled |= {folded(name) for columns in periods.values() for name in columns}

    def has(self, words: KeyWords) -> bool:
        """Return whether there is a key of a statement's name, or a primary key if it is one."""
        if words.kind is KeyKind.PRIMARY:
            return bool(self.primary_key)
        return self.has_key(words.name or words.parts[0].column)

    def has_key(self, name: str) -> bool:
        """Return whether there is an index of a name, which is not case-sensitive."""
        return any(folded(key.name) == folded(name) for key in self.keys)

    def drop_key(self, name: str) -> None:
        """Remove an index; an unknown one is not UNIQUE, so it does not matter.

        Raises:
            UnreadableError: it may be a UNIQUE key that is known under another name.
        """
        self._require_other(name)
        self.keys = [key for key in self.keys if folded(key.name) != folded(name)]

    def rename_key(self, name: str, new: str) -> None:
        """Give an index another name; an unknown one is not UNIQUE, so it does not matter.

        Raises:
            UnreadableError: it may be a UNIQUE key that is known under another name.
        """
        self._require_other(name)
        self.keys = [replace(key, name=new) if folded(key.name) == folded(name) else key for key in self.keys]

    def _require_other(self, name: str) -> None:
        """Return unless the server may have given this name to a UNIQUE key.

        Keys without names are called as their first column, with a number if others are called so. Which
        numbers are taken depends on all indexes, also on those of foreign keys, which are not all known.
        """
        for key in () if self.has_key(name) else self.keys:
            stem = re.compile(rf"{re.escape(folded(_stem(key.columns)))}(_[0-9]+)?")
            if key.unique and stem.fullmatch(folded(name)) and stem.fullmatch(folded(key.name)):
                raise UnreadableError(f"there is no index {name}")

    def finished(self) -> TableDefinition:
        """Return the table: the columns of its primary key are NOT NULL, its keys are in the server's order.

        Raises:
            UnreadableError: it has no columns, or a key has a column that does not exist.
        """
        if not self.columns:
            raise UnreadableError("the table has no columns")
        names = [folded(column.name) for column in self.columns]
        if len(set(names)) < len(names):
            raise UnreadableError("two columns have one name")
        for words in self._foreign:
            self._add_foreign(words)
        filled = {folded(part.column) for part in self.primary_key} | self.filled
        columns = tuple(
            replace(
                column,
                nullable=column.nullable and folded(column.name) not in filled,
                reads=tuple(sorted({*names}.intersection(column.reads) - {folded(column.name)})),
            )
            for column in self.columns
        )
        key = [self._shortened(part) for part in self.primary_key]
        prefixes = tuple(part.prefix for part in key)
        return replace(
            self.base,
            columns=columns,
            primary_key=tuple(part.column for part in key),
            primary_prefixes=prefixes if any(prefixes) else (),
            collation=self.collation or 0,
            keys=_ordered(map(self._completed, self.keys), columns),
            versioned=self.versioned,
            engine=self.engine if self.engine in UNLIKE_INNODB else "",
            period=next(((name, *pair) for name, pair in self.periods.items() if name != _SYSTEM_TIME), ()),
        )

    def _completed(self, key: Key) -> Key:
        """Return a key with the facts that follow from its columns: its prefixes, and whether it is hashed.

        Raises:
            UnreadableError: a column of it does not exist.
        """
        parts = [self._shortened(part) for part in _parts(key)]
        hashed = self.hashes and key.unique and may_hash(self.engine) and (key.hashed or self._is_long(key))
        prefixes = tuple(part.prefix for part in parts)
        return replace(
            key,
            columns=tuple(part.column for part in parts),
            prefixes=prefixes if any(prefixes) and key.unique else (),
            hashed=hashed,
        )

    def _shortened(self, part: KeyPart) -> KeyPart:
        """Return a part with its column's own name, and without a prefix that covers the column."""
        if not part.column:
            return part
        column = self.columns[self.require(part.column)]
        if is_geometry(column) and self.hashes:
            return KeyPart(column.name, BY_NAME[column.type].key_bytes or part.prefix or GEOMETRY_PREFIX)
        if is_text(column) and not part.prefix and not self.hashes:
            # MySQL's keys have a prefix of a text: where a SET was changed to one, its old size.
            return KeyPart(column.name, 1)
        covers = column.type not in _WITH_PREFIXES or part.prefix >= column.length
        covers = covers and not is_text(column)
        return KeyPart(column.name, 0 if covers else part.prefix)

    def _new_name(self, stem: str) -> str:
        """Return the name that the servers give a key without one: a stem, and a number if that is taken."""
        names = (stem, *(f"{stem}_{number}" for number in range(2, 100)))
        return next(name for name in names if not self.has_key(name) and folded(name) != "primary")

    def _add_foreign(self, words: KeyWords) -> None:
        if any(self.index_of(part.column) is None for part in words.parts):
            return  # MariaDB shows foreign keys whose columns were dropped while checks were off.
        columns = tuple(self.columns[self.require(part.column)].name for part in words.parts)
        lower = [folded(name) for name in columns]
        primary = tuple(part.column for part in self.primary_key)
        for names in (primary, *(key.columns for key in self.keys)):
            if [folded(name) for name in names[: len(lower)]] == lower:
                return
        self.keys.append(Key(words.name or self._new_name(columns[0]), columns))

    def _is_long(self, key: Key) -> bool:
        parts = _parts(key)  # MariaDB has no keys of expressions
        return is_long(
            ((self.columns[self.require(part.column)], part.prefix) for part in parts), self.engine
        )


def _stem(columns: tuple[str, ...]) -> str:
    """Return the beginning of the name that the servers give a key of these columns."""
    return columns[0] if all(columns) else _OF_EXPRESSION


def _parts(key: Key) -> list[KeyPart]:
    prefixes = key.prefixes or (0,) * len(key.columns)
    return [KeyPart(name, prefix) for name, prefix in zip(key.columns, prefixes, strict=True)]


def _ordered(keys: Iterable[Key], columns: tuple[ColumnDefinition, ...]) -> tuple[Key, ...]:
    """Return keys in the servers' order, as far as rows need it: table maps may name the first UNIQUE one.

    UNIQUE keys that are equal in that order stay as they were: a change of their columns may make any of them
    the first. Other keys, and those of expressions, are in the order of their names.
    """
    nullable = {folded(column.name) for column in columns if column.nullable}
    virtual = {folded(column.name) for column in columns if column.generated is Generated.VIRTUAL}

    def order(key: Key) -> tuple[bool, bool, bool, bool]:
        names = {folded(name) for name in key.columns}
        return key.hashed, bool(names & nullable), not key.whole, bool(names & virtual)

    first: list[Key] = []
    others: list[Key] = []
    for key in keys:
        (first if key.unique and all(key.columns) else others).append(key)
    return (*sorted(first, key=order), *sorted(others, key=lambda key: key.name))
