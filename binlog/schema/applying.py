"""Applying: the effect of one statement on the tables and schemas of a catalog.

A statement that is not understood makes the tables unknown that it names. If it may change a table, and which
one cannot be read, all are unknown.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

from canal_group.binlog.charsets.charsets import charset_of
from canal_group.binlog.charsets.statement_text import is_generated
from canal_group.binlog.schema.altered import AlterWords
from canal_group.binlog.schema.catalog_entry import View
from canal_group.binlog.schema.clauses.alter_table import read_alter
from canal_group.binlog.schema.clauses.beginnings import IDLE
from canal_group.binlog.schema.clauses.charset_words import CharsetClauses, Charsets
from canal_group.binlog.schema.clauses.create_table import read_table
from canal_group.binlog.schema.clauses.heads import (
    INDEX_WORDS,
    all_names,
    is_without_rows,
    later_names,
    skip_modifiers,
)
from canal_group.binlog.schema.clauses.keys import KeyKind, read_index, skip_using
from canal_group.binlog.schema.clauses.tokens import Kind, UnreadableError
from canal_group.binlog.schema.clauses.words import CLAUSE, Words
from canal_group.binlog.schema.definition import (
    PRIMARY,
    ColumnDefinition,
    SourceName,
    TableDefinition,
    UnknownTable,
)
from canal_group.binlog.schema.draft import Draft
from canal_group.binlog.schema.holdings import Holdings
from canal_group.binlog.schema.names import folded
from canal_group.binlog.schema.statement import Statement

_SEQUENCE = tuple(
    ColumnDefinition(name, kind, unsigned=name.startswith(("cache", "cycle_o")), nullable=False)
    for name, kind in (
        ("next_not_cached_value", "bigint"),
        ("minimum_value", "bigint"),
        ("maximum_value", "bigint"),
        ("start_value", "bigint"),
        ("increment", "bigint"),
        ("cache_size", "bigint"),
        ("cycle_option", "tinyint"),
        ("cycle_count", "bigint"),
    )
)
_HASHES_SINCE = (10, 4)
_LEFT_OUT = "A statement that may have changed it was left out by an operator."


class Applying:
    """Applies one statement.

    Args:
        statement: the statement.
        holdings: the holdings that it changes.
        server_collation: the default of schemas that name none.
        utf8_is_utf8mb3: the meaning of `utf8`.
    """

    def __init__(
        self, statement: Statement, holdings: Holdings, server_collation: int, *, utf8_is_utf8mb3: bool
    ) -> None:
        self._statement = statement
        self._holdings = holdings
        self._server_collation = server_collation
        self._charsets = Charsets(statement, utf8_is_utf8mb3=utf8_is_utf8mb3)
        server = statement.server
        self._hashes = server.mariadb and (server.major, server.minor) >= _HASHES_SINCE
        self._by_word: dict[str, Callable[[Words], None]] = {
            "CREATE": self._create,
            "ALTER": self._alter,
            "DROP": self._drop,
            "RENAME": self._rename,
        }
        #: tables that are unknown if the rest is not understood; empty: any
        self._concerned: list[SourceName] = []

    def run(self) -> None:
        """Apply the statement; tables become unknown if it is not understood."""
        words = None
        if self._statement.left_out:
            self._lose()
            return
        try:
            words = Words(self._statement)
            if self._statement.failed:
                self._failed(words)
            else:
                self._dispatch(words)
            self._holdings.pass_over(words.passed_over)
        except Exception as error:  # noqa: BLE001 - any error of its reader means that the text is not understood
            self._forget(words, error)

    def _forget(self, words: Words | None, error: Exception) -> None:
        """Hold the tables as unknown that a statement concerns which is not understood."""
        why = str(error) if isinstance(error, UnreadableError) else type(error).__name__
        reason = f"{self._statement.title} is not understood: {why}."
        concerned = self._concerned
        try:
            if words is not None and concerned:
                concerned = [*concerned, *later_names(words)]
        except Exception:  # noqa: BLE001 - as above
            concerned = []
        if words is None or not concerned:
            self._holdings.forget_all(reason)
        self._forget_names(concerned, reason)

    def _lose(self) -> None:
        """Hold as unknown the tables that a statement may have changed, which an operator has left out."""
        names = all_names(Words(self._statement))
        self._forget_names(names, _LEFT_OUT)
        if not names:
            self._holdings.forget_all(_LEFT_OUT)

    def _forget_names(self, names: list[SourceName], reason: str) -> None:
        """Hold names as unknown; any of them may have become the next one, or be made like it."""
        for name in names:
            self._holdings.forget(name, reason)
        for one, two in itertools.pairwise(names):
            self._holdings.derive(one, two)
            self._holdings.derive(two, one)

    def _failed(self, words: Words) -> None:
        """Apply a statement that ended with an error.

        MariaDB's CREATE OR REPLACE has dropped the table then. How much others have done is not logged.

        Raises:
            UnreadableError: it is another one.
        """
        if words.skip("CREATE", "OR", "REPLACE", "TABLE"):
            self._holdings.drop(words.table_name())
        elif words.skip("DROP", "TABLE") or words.skip("RENAME", "TABLE") or words.skip("ALTER", "TABLE"):
            self._concerned = all_names(words)
            raise UnreadableError("it ended with an error, and may have done a part")
        elif not words.sees_any(*IDLE) and not is_without_rows(words):
            raise UnreadableError("it ended with an error, and may have done a part")

    def show(self) -> TableDefinition:
        """Return the table of a CREATE TABLE statement, without applying it.

        Raises:
            UnreadableError: it is not understood, or is another statement.
        """
        words = Words(self._statement, shown=True)
        words.expect("CREATE", "TABLE")
        name = words.table_name()
        draft = self._new_draft(name)
        collation = self._holdings.schema_collation(name.schema)
        return read_table(words, self._charsets).defined(draft, collation, words=words)

    def _dispatch(self, words: Words) -> None:
        if words.skip("SET", "STATEMENT"):  # MariaDB's settings of one statement
            words.skip_to("FOR", flat=True)
            words.take()
        token = words.peek()
        by_word = self._by_word.get(token.text.upper()) if token.kind is Kind.WORD else None
        if by_word is not None:
            words.take()
            by_word(words)
        elif token.kind is not Kind.END and token.text.upper() not in IDLE:
            raise words.unexpected("no such statement is known")

    def _create(self, words: Words) -> None:
        or_replace = words.skip("OR", "REPLACE")
        if words.skip("TEMPORARY"):
            return
        skip_modifiers(words)
        if words.skip("TABLE"):
            self._create_table(words, or_replace=or_replace)
        elif words.skip_any("DATABASE", "SCHEMA"):
            self._create_schema(words, or_replace=or_replace)
        elif words.skip("SEQUENCE"):
            self._create_sequence(words, or_replace=or_replace)
        elif words.sees_any(*INDEX_WORDS) and not words.sees("SPATIAL", "REFERENCE"):
            self._create_index(words, or_replace=or_replace)
        elif words.skip("VIEW"):
            self._create_view(words)
        elif not is_without_rows(words):
            raise words.unexpected()

    def _create_view(self, words: Words) -> None:
        # MariaDB gives one that has done nothing the number of a transaction as well.
        conditional = words.skip_if_exists()
        name = words.table_name()
        if not conditional or self._holdings.get(name) is None:
            self._holdings.create_view(name)

    def _creates(self, name: SourceName, *, if_not_exists: bool, or_replace: bool) -> bool:
        """Return whether a table or sequence is created under a name.

        If that is unknown, because one may have been there, the name becomes unknown.
        """
        held = self._holdings.get(name)
        if or_replace or not if_not_exists or self._statement.took_effect:
            return True
        if self._is_filled():
            return True
        if isinstance(held, TableDefinition | View):
            return False
        if held is None and not self._statement.says_effect:
            return True
        reason = f"{self._statement.title} has created it, or did nothing because it was there."
        self._holdings.forget(name, reason, conditional=True)
        return False

    def _is_filled(self) -> bool:
        """Return whether rows of a query follow the statement, which its server has made of the query.

        It is logged if the table was created, and only MySQL marks it. A statement on a table that was there
        is logged by MySQL only; as dumps write it, it looks like one that MariaDB has made.
        """
        sql = self._statement.sql
        if self._statement.server.mariadb:
            return self._statement.says_effect and is_generated(sql)
        return sql.rstrip(" \t\r\n;").endswith("START TRANSACTION")

    def _create_table(self, words: Words, *, or_replace: bool) -> None:
        if_not_exists = words.skip_if_exists()
        name = words.table_name()
        if not self._creates(name, if_not_exists=if_not_exists, or_replace=or_replace):
            if isinstance(self._holdings.get(name), UnknownTable) and (like := _like(words)) is not None:
                self._holdings.derive(name, like)
            return
        self._concerned = [name]
        self._holdings.ancestries.pop(self._holdings.key(name), None)
        like = _like(words)
        if like is not None:
            self._create_like(name, like)
            return
        draft = self._new_draft(name)
        collation = self._holdings.schema_collation(name.schema)
        table = read_table(words, self._charsets).defined(draft, collation, words=words)
        self._holdings.create(name, table)

    def _create_like(self, name: SourceName, like: SourceName) -> None:
        self._holdings.derive(name, like)
        model = self._holdings.get(like)
        if self._statement.temporary or self._statement.may_be_temporary:
            raise UnreadableError(f"{like} may be a temporary table")
        if not isinstance(model, TableDefinition):
            raise UnreadableError(f"the definition of {like} is not known")
        table = Draft.of(model, hashes=self._hashes).finished()
        self._holdings.create(name, replace(table, schema=name.schema, table=name.table))

    def _create_sequence(self, words: Words, *, or_replace: bool) -> None:
        if_not_exists = words.skip_if_exists()
        name = words.table_name()
        if not self._creates(name, if_not_exists=if_not_exists, or_replace=or_replace):
            return
        self._concerned = [name]
        if words.sees("AS"):
            raise words.unexpected("a sequence with a type is not followed")
        collation = self._holdings.schema_collation(name.schema)
        self._holdings.create(
            name, TableDefinition(name.schema, name.table, _SEQUENCE, collation=collation or 0)
        )

    def _create_index(self, words: Words, *, or_replace: bool) -> None:
        if self._statement.temporary:
            return
        kind = KeyKind.INDEX
        while not words.skip("INDEX"):
            kind = KeyKind.UNIQUE if words.sees("UNIQUE") else kind
            if not words.skip_any(*INDEX_WORDS):
                raise words.unexpected()
        if_not_exists = words.skip_if_exists()
        index = words.name()
        hashed = skip_using(words)
        name, draft = self._on(words)
        if draft is None:
            return
        key = replace(read_index(words, kind, index, hashed=hashed), if_not_exists=if_not_exists)
        if if_not_exists and draft.has(key):
            return
        if or_replace and draft.has_key(index):
            draft.drop_key(index)
        draft.add_key(key)
        self._holdings.change(name, draft.finished())

    def _create_schema(self, words: Words, *, or_replace: bool) -> None:
        conditional = words.skip_if_exists() and not self._statement.took_effect
        name = words.name()
        if conditional and self._holdings.has_schema(name):
            self._holdings.keep_schema(name)
            return
        if or_replace:
            self._holdings.drop_schema(name)
        self._read_schema(words, name, self._server_collation)

    def _read_schema(self, words: Words, name: str, default: int | None) -> None:
        """Read a schema's options; if one is not understood, its collation is unknown."""
        charset = CharsetClauses(self._charsets)
        try:
            while not words.ended:
                if not charset.read(words):
                    words.take()
            self._holdings.set_schema(name, charset.collation_or(default, self._server_collation))
        except UnreadableError:
            self._holdings.set_schema(name, None)

    def _alter(self, words: Words) -> None:
        while words.skip_any("ONLINE", "OFFLINE", "IGNORE"):
            pass
        if words.skip("TABLE"):
            self._alter_table(words)
        elif words.skip_any("DATABASE", "SCHEMA"):
            has_name = words.peek().kind is Kind.NAME or not words.sees_any(
                "DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "ENCRYPTION", "READ", "COMMENT"
            )
            name = words.name() if has_name else self._statement.schema
            self._read_schema(words, name, self._holdings.schema_collation(name))
        elif not words.sees("SEQUENCE") and not is_without_rows(words):
            raise words.unexpected()

    def _alter_table(self, words: Words) -> None:
        if self._statement.temporary:
            return
        if_exists = words.skip_if_exists()
        name = words.table_name()
        held = self._holdings.get(name)
        if if_exists and (held is None or isinstance(held, View)):
            return
        self._concerned = [name]
        alter = read_alter(words, self._charsets)
        self._concerned += [*alter.split_off, *alter.taken_in]
        if alter.target is not None:
            self._concerned.append(alter.target)
        self._require_table(name)
        self._move_rows(name, alter)
        self._alter_columns(name, alter)
        draft = None if alter.renames_only else self._draft(name)
        if draft is not None and not alter.is_void(draft):
            table = alter.applied(draft, default_collation=self._convert_default(name), words=words)
            self._holdings.change(name, table)
            for other in alter.split_off:
                self._holdings.create(other, replace(table, schema=other.schema, table=other.table))
        for other in alter.taken_in:
            self._holdings.drop(other)
        if alter.target is not None:
            self._holdings.rename([(name, alter.target)], self._statement.title, if_exists=if_exists)

    def _move_rows(self, name: SourceName, alter: AlterWords) -> None:
        """Record which tables have rows of others after a change of partitions."""
        for other in alter.split_off:
            self._holdings.derive(other, name)
        for other in alter.taken_in:
            self._holdings.derive(name, other)
        for other in alter.exchanged:
            self._holdings.mix(name, other)

    def _alter_columns(self, name: SourceName, alter: AlterWords) -> None:
        """Record which columns go, and which others new expressions read."""
        renamed = {old: folded(new) for old, new in alter.new_names.items()}
        dropped = {folded(dropped.name) for dropped in alter.dropped}
        self._holdings.alter_columns(name, renamed, dropped, alter.new_reads)

    def _convert_default(self, name: SourceName) -> int | None:
        """Return the collation that CONVERT TO CHARACTER SET DEFAULT means; None if it is unknown.

        On MySQL it is the collation of the schema that the statement ran in. On MariaDB it is the default
        collation of the charset of the table's own schema.
        """
        if not self._statement.server.mariadb:
            return self._holdings.schema_collation(self._statement.schema)
        collation = self._holdings.schema_collation(name.schema)
        return None if collation is None else self._charsets.default(charset_of(collation).name)

    def _new_draft(self, name: SourceName) -> Draft:
        return Draft.of(TableDefinition(name.schema, name.table, (), collation=0), hashes=self._hashes)

    def _draft(self, name: SourceName) -> Draft | None:
        """Return a draft of a table; None if it is unknown already, and stays so.

        Raises:
            UnreadableError: the catalog does not have the table.
        """
        held = self._holdings.get(name)
        if isinstance(held, TableDefinition):
            return Draft.of(held, hashes=self._hashes)
        if isinstance(held, UnknownTable):
            self._holdings.change(name, held)
            return None
        raise UnreadableError(f"no definition of {name} came before it")

    def _drop(self, words: Words) -> None:
        if words.skip("TEMPORARY"):
            return
        if words.skip_any("TABLE", "TABLES"):
            self._drop_all(words, view=False)
        elif words.skip("SEQUENCE"):
            self._drop_sequences(words)
        elif words.skip("VIEW"):
            self._drop_all(words, view=True)
        elif words.skip_any("DATABASE", "SCHEMA"):
            words.skip_if_exists()
            self._holdings.drop_schema(words.name())
        elif words.sees("INDEX") or words.sees("ONLINE", "INDEX") or words.sees("OFFLINE", "INDEX"):
            self._drop_index(words)
        elif not is_without_rows(words):
            raise words.unexpected()

    def _drop_all(self, words: Words, *, view: bool) -> None:
        if_exists = words.skip_if_exists()
        names = words.listed(words.table_name, CLAUSE)
        words.skip_any("RESTRICT", "CASCADE")
        if words.skip("WAIT"):
            words.number()
        else:
            words.skip("NOWAIT")
        if not words.ended:
            raise words.unexpected()
        for name in names:
            self._drop_named(name, if_exists=if_exists, view=view)

    def _drop_sequences(self, words: Words) -> None:
        """Drop sequences; MariaDB also logs names of tables, which stay."""
        words.skip_if_exists()
        for name in words.listed(words.table_name, CLAUSE):
            held = self._holdings.get(name)
            if not isinstance(held, TableDefinition) or held.columns == _SEQUENCE:
                self._holdings.drop(name)

    def _drop_named(self, name: SourceName, *, if_exists: bool, view: bool) -> None:
        """Drop a table, or a view: with IF EXISTS, one of the other kind stays."""
        held = self._holdings.get(name)
        if isinstance(held, View if view else TableDefinition) or not if_exists:
            self._holdings.drop(name)
        elif isinstance(held, UnknownTable):
            other = "table" if view else "view"
            reason = f"{self._statement.title} has dropped it, unless it is a {other}."
            self._holdings.change(name, replace(held, reason=reason))

    def _drop_index(self, words: Words) -> None:
        if self._statement.temporary:
            return
        words.skip_any("ONLINE", "OFFLINE")
        words.expect("INDEX")
        if_exists = words.skip_if_exists()
        index = words.name()
        name, draft = self._on(words)
        if draft is None:
            return
        if index.upper() == PRIMARY:
            draft.primary_key = []
        elif if_exists and not draft.has_key(index):
            return
        else:
            draft.drop_key(index)
        self._holdings.change(name, draft.finished())

    def _on(self, words: Words) -> tuple[SourceName, Draft | None]:
        """Read the table of a statement on one of its indexes; return it and its draft, see `_draft`."""
        words.expect("ON")
        name = words.table_name()
        self._concerned = [name]
        self._require_table(name)
        return name, self._draft(name)

    def _require_table(self, name: SourceName) -> None:
        """Return if a statement concerns the table of a name, and no temporary table.

        Raises:
            UnreadableError: that is not known.
        """
        if self._statement.may_be_temporary and self._holdings.get(name) is not None:
            raise UnreadableError(f"{name} may be a temporary table")

    def _rename(self, words: Words) -> None:
        if words.skip("USER"):
            return
        if not words.skip_any("TABLE", "TABLES"):
            raise words.unexpected()
        if self._statement.temporary:
            return
        if_exists = words.skip_if_exists()

        def pair() -> tuple[SourceName, SourceName]:
            old = words.table_name()
            if words.skip("WAIT"):
                words.number()
            else:
                words.skip("NOWAIT")
            words.expect("TO")
            return old, words.table_name()

        pairs = words.listed(pair, CLAUSE)
        if not words.ended:
            raise words.unexpected()
        self._concerned = [name for pair in pairs for name in pair]
        for old, _ in pairs:
            self._require_table(old)
        self._holdings.rename(pairs, self._statement.title, if_exists=if_exists)


def _like(words: Words) -> SourceName | None:
    """Take the table after LIKE, as which another one is made; None if there is no LIKE."""
    in_parentheses = words.skip("(", "LIKE")
    if not in_parentheses and not words.skip("LIKE"):
        return None
    name = words.table_name()
    if in_parentheses:
        words.expect(")")
    return name
