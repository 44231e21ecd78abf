"""Columns: a column's definition in CREATE TABLE and ALTER TABLE, with all its attributes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from actors.parse.schema.charset_words import Charsets, read_collation
from actors.parse.schema.definition import ColumnDefinition, Generated, Visibility
from actors.parse.schema.references import skip_references
from actors.parse.schema.tokens import Kind
from actors.parse.schema.types import Type, read_type, resolved
from actors.parse.schema.words import Words

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
_LITERAL_PREFIXES = {"DATE", "TIME", "TIMESTAMP"}


@dataclass(frozen=True, slots=True)
class ColumnWords:
    """A column's definition as a statement has it, before the table's collation is known."""

    name: str
    type: Type
    #: None: not said
    nullable: bool | None = None
    generated: Generated = Generated.NO
    invisible: bool = False
    primary: bool = False
    unique: bool = False

    def defined(
        self, table_collation: int | None, *, explicit_timestamps: bool, strict: bool
    ) -> ColumnDefinition:
        """Return the column.

        Args:
            table_collation: the table's default; None: not known.
            explicit_timestamps: whether a TIMESTAMP may be NULL unless it says otherwise.
            strict: whether a column that is too long is an error.

        Raises:
            UnreadableError: it depends on what is not known.
        """
        column = resolved(self.type, table_collation, strict=strict)
        nullable = self.nullable
        if nullable is None:
            nullable = column.type != "timestamp" or explicit_timestamps
        return replace(
            column,
            name=self.name,
            nullable=nullable and not self.primary,
            generated=self.generated,
            visibility=Visibility.INVISIBLE if self.invisible else Visibility.VISIBLE,
        )


def read_column(words: Words, charsets: Charsets, name: str) -> ColumnWords:
    """Read a column's definition, after its name, up to what belongs to the table again.

    Raises:
        UnreadableError: it is not understood.
    """
    kind = read_type(words, charsets)
    column = ColumnWords(name, kind)
    if kind.serial:
        column = replace(column, nullable=False, unique=True)
    while True:
        changed = _attribute(words, charsets, column)
        if changed is None:
            return column
        column = changed


def _attribute(words: Words, charsets: Charsets, column: ColumnWords) -> ColumnWords | None:  # noqa: C901, PLR0911, PLR0912 - one branch an attribute
    """Read one attribute; return None if none comes."""
    if words.skip("NOT", "NULL") or words.skip("AUTO_INCREMENT"):
        return replace(column, nullable=False)
    if words.skip("NOT", "SECONDARY"):
        return column
    if words.skip("NULL"):
        # A column of AUTO_INCREMENT is NOT NULL whatever it says.
        return column if column.nullable is False else replace(column, nullable=True)
    if words.skip("SERIAL", "DEFAULT", "VALUE"):
        return replace(column, nullable=False, unique=True)
    if words.skip("DEFAULT"):
        skip_default(words)
        return column
    if words.skip("ON", "UPDATE"):
        words.name()
        if words.sees("("):
            words.skip_group()
        return column
    if words.skip("PRIMARY", "KEY") or words.skip("PRIMARY") or words.skip("KEY"):
        return replace(column, primary=True, nullable=False)
    if words.skip("UNIQUE"):
        words.skip("KEY")
        return replace(column, unique=True)
    if words.skip("COLLATE"):
        number = read_collation(words, charsets, column.type.collation)
        return replace(column, type=replace(column.type, collation=number))
    if words.sees_any("INVISIBLE", "VISIBLE"):
        return replace(column, invisible=words.take().text.upper() == "INVISIBLE")
    if words.skip("GENERATED", "ALWAYS", "AS") or words.skip("AS"):
        return _generated(words, column)
    if words.sees("CONSTRAINT") or words.sees("CHECK"):
        _skip_check(words)
        return column
    if words.skip("REFERENCES"):
        skip_references(words)
        return column
    if words.skip("COMPRESSED"):
        if words.skip("="):
            words.take()
        return column
    if words.skip("WITH", "SYSTEM", "VERSIONING") or words.skip("WITHOUT", "SYSTEM", "VERSIONING"):
        return column
    return column if _skip_idle(words) else None


def _generated(words: Words, column: ColumnWords) -> ColumnWords:
    if words.skip("ROW"):
        start = words.skip("START")
        if not start:
            words.expect("END")
        generated = Generated.ROW_START if start else Generated.ROW_END
        return replace(column, generated=generated, nullable=False)
    words.skip_group()
    stored = words.skip_any("STORED", "PERSISTENT")
    if not stored:
        words.skip("VIRTUAL")
    return replace(column, generated=Generated.STORED if stored else Generated.VIRTUAL)


def _skip_check(words: Words) -> None:
    if words.skip("CONSTRAINT") and not words.sees("CHECK"):
        words.name()
    words.expect("CHECK")
    words.skip_group()
    if not words.skip("NOT", "ENFORCED"):
        words.skip("ENFORCED")


def _skip_idle(words: Words) -> bool:
    """Take an attribute that has no meaning for rows, or one of an engine: name = value."""
    token = words.peek()
    if token.kind is not Kind.WORD:
        return False
    valued = words.peek(1).text == "=" and words.peek(1).kind is Kind.SYMBOL
    if not valued and token.text.upper() not in _IDLE_ATTRIBUTES:
        return False
    words.take()
    words.skip("=")
    words.take()
    return True


def skip_default(words: Words) -> None:
    """Take the value after DEFAULT: a literal, a call, or an expression in parentheses."""
    if words.sees("("):
        words.skip_group()
        return
    if words.skip("NEXT", "VALUE", "FOR"):
        words.table_name()
        return
    words.skip_any("+", "-")
    first = words.take()
    prefix = first.kind is Kind.WORD and (
        first.text.upper() in _LITERAL_PREFIXES or first.text.startswith("_")
    )
    if prefix and words.peek().kind in (Kind.TEXT, Kind.BYTES):
        first = words.take()
    while first.kind is Kind.TEXT and words.peek().kind is Kind.TEXT:
        words.take()
    while words.skip("."):
        words.name()
    if words.sees("("):
        words.skip_group()
