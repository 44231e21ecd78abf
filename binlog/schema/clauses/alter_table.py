"""ALTER TABLE: its clauses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from canal_group.binlog.schema.altered import AlterWords, Dropped, Placed
from canal_group.binlog.schema.clauses.charset_words import CharsetClauses, Charsets
from canal_group.binlog.schema.clauses.columns import read_column, skip_default
from canal_group.binlog.schema.clauses.create_table import keys_of, read_period
from canal_group.binlog.schema.clauses.keys import read_key, sees_key
from canal_group.binlog.schema.clauses.table_options import read_engine, skip_table_option
from canal_group.binlog.schema.clauses.words import CLAUSE, Words
from canal_group.binlog.schema.definition import PRIMARY
from canal_group.binlog.schema.names import folded

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
)
#: options of a table, which need no equals sign
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
)


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
        #: whether the clause that is read does nothing under its IF EXISTS or IF NOT EXISTS
        self._optional = False
        self._by_word: dict[str, Callable[[], None]] = {
            "ADD": self._add,
            "DROP": self._drop,
            "MODIFY": self._modify,
            "CHANGE": self._change,
            "RENAME": self._rename,
            "ALTER": self._alter_part,
            "CONVERT": self._convert,
            "ORDER": words.skip_rest,  # only partitions may follow its columns
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
            words.count(CLAUSE)
            renames = words.sees("RENAME") and words.peek(1).word not in _RENAMED_PARTS
            # Indexes are switched on or off, or partitions are changed: the table stays the same.
            self._alter.others |= not renames and words.peek(1).word not in ("KEYS", "PARTITION")
            by_word = self._by_word.get(words.peek().word)
            self._optional = False
            if by_word is not None:
                words.take()
                by_word()
            elif not self._other():
                raise words.unexpected()
            self._alter.binding |= not self._optional
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
        if words.skip("EXCHANGE", "PARTITION"):
            words.name()
            words.expect("WITH", "TABLE")
            self._alter.exchanged.append(words.table_name())
            words.skip_rest()
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
        words = self._words
        if words.sees("ENGINE"):
            self._alter.engine = read_engine(words)
            return True
        return skip_table_option(words)

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
            self._optional = key.if_not_exists
        else:
            words.skip("COLUMN")
            if_not_exists = words.skip_if_exists()
            if words.sees("("):
                words.in_parentheses(lambda: self._element(if_not_exists=if_not_exists), CLAUSE)
            else:
                self._read_column("", words.column_name(), if_exists=if_not_exists)

    def _period(self) -> None:
        self._words.expect("PERIOD")
        self._words.skip_if_exists()
        self._words.expect("FOR")
        self._alter.periods |= read_period(self._words)

    def _element(self, *, if_not_exists: bool) -> None:
        if self._words.skip("PERIOD", "FOR"):
            self._alter.periods |= read_period(self._words)
        elif sees_key(self._words):
            self._alter.keys.append(read_key(self._words))
        else:
            self._read_column("", self._words.column_name(), if_exists=if_not_exists)

    def _read_column(self, old: str, name: str, *, if_exists: bool) -> None:
        words = self._words
        column = read_column(words, self._charsets, name)
        position = None
        if words.skip("FIRST"):
            position = ""
        elif words.skip("AFTER"):
            position = words.column_name()
        self._alter.placed.append(Placed(column, old, position, if_exists))
        self._optional = if_exists and position is None
        self._alter.keys += [replace(key, if_not_exists=if_exists and not old) for key in keys_of(column)]

    def _modify(self) -> None:
        self._words.skip("COLUMN")
        if_exists = self._words.skip_if_exists()
        name = self._words.column_name()
        self._read_column(name, name, if_exists=if_exists)

    def _change(self) -> None:
        self._words.skip("COLUMN")
        if_exists = self._words.skip_if_exists()
        old = self._words.column_name()
        self._read_column(old, self._words.column_name(), if_exists=if_exists)

    def _drop(self) -> None:
        words, alter = self._words, self._alter
        if words.sees("PARTITION"):
            words.skip_rest()
        elif words.skip("PRIMARY", "KEY"):
            alter.dropped_keys.append(Dropped(PRIMARY))
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
            alter.dropped_keys.append(Dropped(words.name(), if_exists))
            self._optional = if_exists
        elif words.skip("CONSTRAINT"):
            if_exists = words.skip_if_exists()
            if words.skip("PRIMARY", "KEY"):
                alter.dropped_keys.append(Dropped(PRIMARY))
                return
            alter.dropped_keys.append(Dropped(words.name(), if_exists, any_constraint=True))
        else:
            words.skip("COLUMN")
            if_exists = words.skip_if_exists()
            alter.dropped.append(Dropped(words.column_name(), if_exists))
            self._optional = if_exists
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
            words.skip_if_exists()
            self._set(words.name())

    def _set(self, name: str) -> None:
        words = self._words
        if words.skip("SET", "DEFAULT"):
            self._alter.reads[folded(name)] = skip_default(words)
        elif words.skip("SET", "VISIBLE"):
            self._alter.visible[folded(name)] = True
        elif words.skip("SET", "INVISIBLE"):
            self._alter.visible[folded(name)] = False
        elif words.skip("SET", "MASKING", "POLICY"):
            words.name()
        elif not words.skip("DROP", "MASKING", "POLICY"):
            words.expect("DROP", "DEFAULT")
            self._alter.reads[folded(name)] = ()

    def _convert(self) -> None:
        words, alter = self._words, self._alter
        if words.skip("PARTITION"):
            alter.others = True
            words.name()
            words.expect("TO", "TABLE")
            alter.split_off.append(words.table_name())
        elif words.skip("TABLE"):
            alter.taken_in.append(words.table_name())
            words.skip_rest()
        else:
            words.expect("TO")
            alter.convert = CharsetClauses(self._charsets)
            if not alter.convert.read(words):
                raise words.unexpected("CHARACTER SET should come")
            alter.convert.read(words)
