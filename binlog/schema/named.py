"""Named tables: which tables a definition may change, as far as its lexer can tell.

The grammar is not asked, so this costs no more than the lexer, and works for a statement of any length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from canal_group.binlog.schema.clauses.beginnings import IDLE
from canal_group.binlog.schema.clauses.heads import INDEX_WORDS, is_without_rows, skip_modifiers
from canal_group.binlog.schema.clauses.tokens import Kind
from canal_group.binlog.schema.clauses.words import FirstWords, Words
from canal_group.binlog.schema.definition import SourceName
from canal_group.binlog.schema.statement import Statement

#: tables that one statement may name; of more, only the schemas count
NAMES_MAX = 1000


def unprotected(_name: SourceName) -> bool:
    """Return False: no rule protects columns of any table."""
    return False


@dataclass(slots=True)
class Named:
    """The tables and schemas that a definition names."""

    tables: set[SourceName] = field(default_factory=set)
    #: schemas that it defines
    schemas: set[str] = field(default_factory=set)
    #: schemas that it drops
    dropped: set[str] = field(default_factory=set)
    #: schemas of tables beyond `NAMES_MAX`: any table of them may be concerned
    whole: set[str] = field(default_factory=set)
    #: whether any table may be: it is not understood
    any: bool = False
    #: tells tables with protected columns; the first one of them that was added, if there is one
    protects: Callable[[SourceName], bool] = unprotected
    protected: SourceName | None = None

    def add(self, name: SourceName) -> None:
        """Add a table; a protected one is found, however many there are."""
        if self.protected is None and self.protects(name):
            self.protected = name
        if len(self.tables) < NAMES_MAX:
            self.tables.add(name)
        elif name not in self.tables:
            self.any |= len(self.whole) == NAMES_MAX and name.schema not in self.whole
            if not self.any:
                self.whole.add(name.schema)

    @property
    def nothing(self) -> bool:
        """Whether it changes no table and no schema."""
        return not (self.tables or self.schemas or self.dropped or self.whole or self.any)


def named_in(statement: Statement, protects: Callable[[SourceName], bool] = unprotected) -> Named:
    """Return the tables and schemas that a definition names; never raises."""
    names = Named(protects=protects)
    try:
        _read(FirstWords(statement), names)
    except Exception:  # noqa: BLE001 - any error of its reader means that the text is not understood
        names.any = True
    return names


def _read(words: Words, names: Named) -> None:
    if words.skip("SET", "STATEMENT"):
        words.skip_to("FOR", flat=True)
        words.take()
    if words.skip("CREATE"):
        _create(words, names)
    elif words.skip("ALTER"):
        _alter(words, names)
    elif words.skip("DROP"):
        _drop(words, names)
    elif words.skip("RENAME", "TABLE") or words.skip("RENAME", "TABLES"):
        _pairs(words, names)
    elif not words.skip("RENAME", "USER") and not words.sees_any(*IDLE) and words.peek().kind is not Kind.END:
        raise words.unexpected("no such statement is known")


def _create(words: Words, names: Named) -> None:
    words.skip("OR", "REPLACE")
    if words.skip("TEMPORARY"):
        return
    skip_modifiers(words)
    if words.skip_any("TABLE", "SEQUENCE", "VIEW"):
        words.skip_if_exists()
        names.add(words.table_name())
        if words.skip("LIKE") or words.skip("(", "LIKE"):
            names.add(words.table_name())
    elif words.skip_any("DATABASE", "SCHEMA"):
        words.skip_if_exists()
        names.schemas.add(words.name())
    elif words.sees_any(*INDEX_WORDS) and not words.sees("SPATIAL", "REFERENCE"):
        _indexed(words, names)
    elif not is_without_rows(words):
        raise words.unexpected()


def _indexed(words: Words, names: Named) -> None:
    """Read the table of CREATE INDEX or DROP INDEX; that of a temporary table changes no other."""
    if not words.skip_to("ON"):
        raise words.unexpected("ON should come")
    words.take()
    if not words.statement.temporary:
        names.add(words.table_name())


def _alter(words: Words, names: Named) -> None:
    while words.skip_any("ONLINE", "OFFLINE", "IGNORE"):
        pass
    if words.skip("TABLE"):
        if words.statement.temporary:
            return
        words.skip_if_exists()
        names.add(words.table_name())
        # More names: the table's new name, a table that becomes a partition, a partition that becomes a
        # table.
        while words.skip_to("RENAME", "TABLE"):
            words.take()
            words.skip_any("TO", "AS", "=")
            if words.sees_table_name:
                names.add(words.table_name())
    elif words.skip_any("DATABASE", "SCHEMA"):
        names.schemas |= {words.statement.schema, words.peek().text}
    elif not words.sees("SEQUENCE") and not is_without_rows(words):
        raise words.unexpected()


def _drop(words: Words, names: Named) -> None:
    if words.skip("TEMPORARY"):
        return
    if words.skip_any("TABLE", "TABLES", "SEQUENCE", "VIEW"):
        words.skip_if_exists()
        names.add(words.table_name())
        while words.skip(","):
            names.add(words.table_name())
    elif words.skip_any("DATABASE", "SCHEMA"):
        words.skip_if_exists()
        names.dropped.add(words.name())
    elif words.sees("INDEX") or words.sees("ONLINE", "INDEX") or words.sees("OFFLINE", "INDEX"):
        _indexed(words, names)
    elif not is_without_rows(words):
        raise words.unexpected()


def _pairs(words: Words, names: Named) -> None:
    words.skip_if_exists()
    while not words.statement.temporary:
        names.add(words.table_name())
        if words.skip("WAIT"):
            words.take()
        words.skip("NOWAIT")
        if not words.skip("TO") and not words.skip(","):
            break
