"""Columns: a column's definition in CREATE TABLE and ALTER TABLE, with all its attributes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from canal_group.binlog.schema.clauses.charset_words import Charsets, read_name
from canal_group.binlog.schema.clauses.types import read_type
from canal_group.binlog.schema.clauses.words import Words
from canal_group.binlog.schema.definition import ColumnDefinition, Generated, Visibility
from canal_group.binlog.schema.resolving import Type, resolved, with_collation

_ACTIONS = (("RESTRICT",), ("CASCADE",), ("SET", "NULL"), ("SET", "DEFAULT"), ("NO", "ACTION"))


def skip_references(words: Words) -> None:
    """Take the table, its columns and the actions after REFERENCES.

    Raises:
        UnreadableError: an action is unknown.
    """
    words.table_name()
    if words.sees("("):
        words.skip_group()
    if words.skip("MATCH"):
        words.name()
    while words.skip("ON", "DELETE") or words.skip("ON", "UPDATE"):
        if not any(words.skip(*action) for action in _ACTIONS):
            raise words.unexpected("an action of a foreign key should come")


#: attributes without a meaning for rows, which a value follows
_IDLE_ATTRIBUTES = {
    "COMMENT",
    "COLUMN_FORMAT",
    "STORAGE",
    "ENGINE_ATTRIBUTE",
    "SECONDARY_ENGINE_ATTRIBUTE",
    "SRID",
    "REF_SYSTEM_ID",
}
#: words that end an expression without parentheses: they begin the next attribute, or follow a column
_AFTER_VALUE = {
    *_IDLE_ATTRIBUTES,
    "AFTER",
    "AS",
    "AUTO_INCREMENT",
    "CHECK",
    "COLLATE",
    "COMPRESSED",
    "CONSTRAINT",
    "DEFAULT",
    "FIRST",
    "GENERATED",
    "INVISIBLE",
    "KEY",
    "MASKING",
    "NOT",
    "NULL",
    "ON",
    "PRIMARY",
    "REFERENCES",
    "SERIAL",
    "UNIQUE",
    "VISIBLE",
    "WITH",
    "WITHOUT",
}
#: the versions that make a foreign key of a column's REFERENCES
_REFERENCES_COUNT = {True: (10, 5), False: (9, 0)}


@dataclass(frozen=True, slots=True)
class ColumnWords:
    """A column's definition as a statement has it, before the table's collation is known."""

    name: str
    type: Type
    charsets: Charsets
    #: None: no attribute for it
    nullable: bool | None = None
    generated: Generated = Generated.NO
    invisible: bool = False
    primary: bool = False
    unique: bool = False
    #: whether a foreign key begins here, for which the server makes an index
    refers: bool = False
    #: whether it says WITH SYSTEM VERSIONING, which makes a new table versioned
    versioned: bool = False
    #: words of the expressions of its value and its default that may be names
    reads: tuple[str, ...] = ()

    def defined(
        self, table_collation: int | None, *, explicit_timestamps: bool, strict: bool, mariadb: bool
    ) -> ColumnDefinition:
        """Return the column.

        Args:
            table_collation: the table's default; None: unknown.
            explicit_timestamps: whether a TIMESTAMP may be NULL unless it says otherwise.
            strict: whether a column that is too long is an error.
            mariadb: whether the server is MariaDB.

        Raises:
            UnreadableError: it depends on something unknown.
        """
        kind, collation = with_collation(self.type, table_collation, self.charsets)
        column = resolved(kind, collation, strict=strict, mariadb=mariadb)
        nullable = self.nullable
        if nullable is None:
            nullable = column.type != "timestamp" or explicit_timestamps
        return replace(
            column,
            name=self.name,
            nullable=nullable and not self.primary,
            generated=self.generated,
            visibility=Visibility.INVISIBLE if self.invisible else Visibility.VISIBLE,
            reads=self.reads,
        )


def read_column(words: Words, charsets: Charsets, name: str) -> ColumnWords:
    """Read a column's definition, after its name, up to the next clause of the table.

    Raises:
        UnreadableError: it is not understood.
    """
    kind = read_type(words, charsets)
    column = ColumnWords(name, kind, charsets)
    if kind.serial:
        column = replace(column, nullable=False, unique=True)
    while True:
        changed = _attribute(words, column)
        if changed is None:
            break
        column = changed
    # MariaDB makes one key of a column that is both, the primary one.
    return replace(column, unique=column.unique and not (column.primary and words.statement.server.mariadb))


def _attribute(words: Words, column: ColumnWords) -> ColumnWords | None:  # noqa: C901, PLR0911, PLR0912 - one branch an attribute
    """Read one attribute of a column; return None at the end of the attributes."""
    if words.skip("NOT", "NULL") or (not words.shown and words.skip("AUTO_INCREMENT")):
        return replace(column, nullable=False)
    if words.skip("AUTO_INCREMENT"):
        return column
    if words.skip("NOT", "SECONDARY"):
        return column
    if words.skip("NULL"):
        return replace(column, nullable=True)
    if words.skip("SERIAL", "DEFAULT", "VALUE"):
        return replace(column, nullable=False, unique=True)
    if words.skip("DEFAULT"):
        return replace(column, reads=skip_default(words))
    if words.skip("ON", "UPDATE"):
        words.name()
        if words.sees("("):
            words.skip_group()
        return column
    if words.skip("PRIMARY", "KEY") or words.skip("PRIMARY") or words.skip("KEY"):
        return replace(column, primary=True)
    if words.skip("UNIQUE"):
        words.skip("KEY")
        return replace(column, unique=True)
    if words.skip("COLLATE"):
        return replace(column, type=replace(column.type, collation=read_name(words)))
    if words.sees_any("INVISIBLE", "VISIBLE"):
        return replace(column, invisible=words.take().word == "INVISIBLE")
    if words.skip("GENERATED", "ALWAYS", "AS") or words.skip("AS"):
        return _generated(words, column)
    if words.skip("CONSTRAINT"):
        if not words.sees_any("CHECK", "REFERENCES"):
            words.name()
        return column
    if words.skip("CHECK"):
        words.skip_group()
        return column
    if words.skip("NOT", "ENFORCED") or words.skip("ENFORCED"):
        return column
    if words.skip("REFERENCES"):
        skip_references(words)
        server = words.statement.server
        return replace(column, refers=(server.major, server.minor) >= _REFERENCES_COUNT[server.mariadb])
    if words.skip("COMPRESSED"):
        if words.skip("="):
            words.take()
        return column
    if words.skip("WITH", "SYSTEM", "VERSIONING"):
        return replace(column, versioned=True)
    if words.skip("WITHOUT", "SYSTEM", "VERSIONING"):
        return column
    return column if _skip_idle(words) else None


def _generated(words: Words, column: ColumnWords) -> ColumnWords:
    if words.skip("ROW"):
        start = words.skip("START")
        if not start:
            words.expect("END")
        generated = Generated.ROW_START if start else Generated.ROW_END
        return replace(column, generated=generated, nullable=False)
    words.collect_names()
    words.skip_group()
    reads = words.collected()
    stored = words.skip_any("STORED", "PERSISTENT")
    words.skip("VIRTUAL")
    return replace(column, generated=Generated.STORED if stored else Generated.VIRTUAL, reads=reads)


def _skip_idle(words: Words) -> bool:
    """Take an attribute that has no meaning for rows, or one of an engine: name = value."""
    if words.skip_option(_IDLE_ATTRIBUTES):
        return True
    if not words.skip("MASKING", "POLICY") and not words.skip_any(*_IDLE_ATTRIBUTES):
        return False
    words.take()
    return True


def skip_default(words: Words) -> tuple[str, ...]:
    """Take the value after DEFAULT: all words before the next attribute, or the end of the column.

    Returns:
        The words in it that may be names of columns.
    """
    words.collect_names()
    if words.skip("CASE"):
        _skip_case(words)
    elif not words.sees("("):
        words.take()
    while not words.ended and not words.sees_any(",", ")", *_AFTER_VALUE) and not words.sees_option():
        if words.sees("("):
            words.skip_group()
        else:
            # A variable or a column may be called as an attribute is.
            qualified = words.take().word in (".", "@")
            if qualified and not words.sees("@"):
                words.take()
    return words.collected()


def _skip_case(words: Words) -> None:
    """Take the rest of CASE ... END, in which there may be others."""
    depth = 1
    while depth:
        word = words.take().word
        depth += (word == "CASE") - (word == "END")
