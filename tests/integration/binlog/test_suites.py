"""The catalog, against the statements of the servers' own test suites, and of tools and applications.

A real server executes each statement, and the catalog applies what the binlog has of it. Then the tables that
the statement touched are compared: columns and keys with `information_schema`, and with SHOW CREATE TABLE.
Nothing may be wrong. What is unknown has a reason that is listed here.

`scripts/get-ddl-suites.sh` gets the suites. They are long: a run plays as many files as it has time for, in
an order that CANAL_GROUP_SUITE_SEED decides. CANAL_GROUP_DDL_SOURCES names folders of other sources, of
tools, parsers and servers, whose SQL files, literals and YAML texts are played as well.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter, deque
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import NamedTuple

import pymysql
import pytest
from support.ddl.ddl_sequences import SCHEMAS, comparable
from support.ddl.sql_suites import SUFFIXES, statements
from support.ddl.twin import COLUMNS_OF, Twin, different, flat

from canal_group.binlog.schema.catalog import Catalog
from canal_group.binlog.schema.definition import Generated, SourceName, TableDefinition, UnknownTable
from canal_group.binlog.schema.statement import Statement
from playground.database.mariadb import MariaDbServer
from playground.database.mysql import MySqlServer

CORPUS = Path(__file__).parents[2] / "corpus"
SUITES = Path(__file__).parents[3] / ".cache/ddl-suites"
SEED = os.environ.get("CANAL_GROUP_SUITE_SEED", "1")
SOURCES = [Path(name) for name in os.environ.get("CANAL_GROUP_DDL_SOURCES", "").split(os.pathsep) if name]
MINUTES = 4
#: what is played: definitions of tables, and settings of a session that definitions depend on and that are
#: logged, which `old_mode` and `default_storage_engine` are not
PLAYED = re.compile(
    rb"(?:\s|/\*[^!M].*?\*/)*(?:/\*M?!\d*\s*)?(?:"
    rb"(?:SET\s+STATEMENT\b.*?\bFOR\s+)?(?:CREATE|ALTER|DROP|RENAME|TRUNCATE)\s+(?:\w+\s+){0,3}?"
    rb"(?:TABLES?|DATABASE|SCHEMA|INDEX|SEQUENCE|VIEW)\b"
    rb"|USE\b"
    rb"|SET\s+(?:SESSION\s+|LOCAL\s+|@@(?:SESSION\.|LOCAL\.)?)?(?:NAMES|CHARACTER\s+SET|sql_mode|foreign_key_checks"
    rb"|explicit_defaults_for_timestamp|character_set_\w+|collation_\w+"
    rb"|default_collation_for_utf8mb4|system_versioning_\w+|innodb_strict_mode|check_constraint_checks"
    rb"|sql_generate_invisible_primary_key|alter_algorithm|show_gipk_in_create_table_and_information_schema)\b)",
    re.IGNORECASE | re.DOTALL,
)
#: what would change the server, or leave a transaction open
LEFT_OUT = re.compile(
    rb"\b(?:mysql|sys|performance_schema|information_schema)\b\s*[.;`]|DATABASE\s+(?:IF\s+EXISTS\s+)?`?(?:mysql|sys)\b"
    rb"|START\s+TRANSACTION|\bGLOBAL\b|USE\s+`?(?:mysql|sys|performance_schema|information_schema)\b|sleep\s*\("
    rb"|benchmark\s*\(|DIRECTORY",
    re.IGNORECASE,
)
#: why a table may be unknown: a pattern of the reason, and what cannot be followed or what nobody writes
UNKNOWN = {
    r"columns come from a query": "a query's columns depend on functions, and on tables of any server",
    r"the definition of \S+ is not known": "a table like another one that is unknown",
    r"UNIQUE keys of \S+ become those of": "MariaDB hashes keys of a MEMORY table then",
    r"may be a temporary table": "a table like one that its session may hide",
    r"renames \S+, whose definition is not known": "MariaDB logs a RENAME of a temporary table as any",
    r"bytes that are not characters of": "a name in another charset than the session's",
    r"charset filename is unknown": "the servers' encoding of file names is not a charset of rows",
    r"hexadecimal is not a text|cannot be converted to the connection's charset": "a value that is not text",
    r"is not a text in the new charset": "a value of ENUM or SET that a conversion damages",
    r"is defined while its table is converted": "which text MySQL makes of it depends on its old definition",
    r"is converted to a charset, and has another default": "two charsets in one statement",
    r"(?is:add column (`?\w+`?) .*modify column \1)": "a column that one statement adds and modifies",
    r"there is no column !hidden!": "MySQL renames the hidden column of an index of an expression",
    r"has created it, or did nothing because it was there": "a CREATE that its server says nothing more of",
}
#: a pattern of statement and finding: where the servers themselves contradict their statements
FAULTS_OF_SERVERS = {
    r"RENAME TABLE t1 TO tmp, t1 TO t2": "MariaDB logs a RENAME of temporary tables as any",
    r"add unique\(a\), add key\(a\)": "MariaDB replaces the index of a foreign key that MyISAM has never had",
    r"VECTOR\(0\)": "MySQL shows a VECTOR(0) as one of 4,294,967,295 elements",
    r"precision: 65 is not 81": "MySQL logs 65 digits of a column of a query, and its dictionary has more",
}
KEYS_OF = (
    "SELECT INDEX_NAME, COLUMN_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s"
    " AND TABLE_NAME = %s AND NOT NON_UNIQUE ORDER BY INDEX_NAME, SEQ_IN_INDEX"
)
TABLES = (
    "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE IN ('BASE TABLE',"
    " 'SYSTEM VERSIONED', 'SEQUENCE')"
)
#: of a CREATE TABLE whose table is there, and its message
TABLE_EXISTS, EXISTING = 1050, re.compile(r"Table '(?:[^']*\.)?(.*)' already exists")
#: the server died
LOST = (2006, 2013)
LISTED = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
ESCAPED = {"0": "\0", "n": "\n", "r": "\r", "Z": "\x1a"}


class Finding(NamedTuple):
    """What a statement made wrong, or unknown."""

    kind: str
    file: str
    sql: str
    detail: str


class Player(Twin):
    """A server that plays files, and the catalog that should know the same; its other schemas stay."""

    def __init__(self, server):
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW DATABASES")
            others = {name for (name,) in cursor.fetchall()} - {*SCHEMAS, "test"}
        super().__init__(server, "")
        self.others = others
        self.collation = self.catalog._collation
        self.file = ""
        self.findings = []
        self.refused = deque(maxlen=20)
        self.counts = Counter()
        #: the server's error for the last statement; None: it accepted it
        self.error = None
        self.oracle = self.shows

    def begin(self, file):
        """Remove what the last file left, and begin another one in a new session."""
        self.file = file
        self.connection.close()
        self.connection = self.server.connect()
        self.cursor = self.connection.cursor()
        self.ask("SET SESSION foreign_key_checks = 0")
        for name in self._schemas():
            quoted = name.replace("`", "``")
            self.ask(f"DROP DATABASE `{quoted}`")
        for _ in self.new_events():
            pass
        self.catalog = Catalog(self.collation)
        self.run("CREATE DATABASE test")
        self.ask("USE test")
        self.ask("SET SESSION sql_mode = '', foreign_key_checks = 0")
        if self.mariadb:
            self.ask("SET SESSION max_statement_time = 20, system_versioning_alter_history = KEEP")

    def play(self, sql):
        """Execute a statement and compare what it touched; a statement that the server refuses is counted."""
        try:
            self.connection.query(sql)
        except pymysql.Error as error:
            if error.args[0] in LOST:
                raise
            self.counts["refused"] += 1
            self.refused.append((sql, error))
            self.error = error
        else:
            self.counts["accepted"] += 1
            self.error = None
        touched, text = set(), sql.decode("latin-1")
        for statement in self.logged():
            text = statement.sql
            record = self.catalog.apply(statement)
            if record.any_unknown:
                self._find("any unknown", text, record.reason)
                self._learn_all()
            for name in record.unknown:
                held = self.catalog.table(*name)
                self._find("unknown", text, held.reason if isinstance(held, UnknownTable) else record.reason)
            touched |= {
                *record.unknown,
                *record.changed,
                *record.created,
                *(new for _, new in record.renamed),
            }
        if touched or re.match(rb"\s*(?:DROP|RENAME)", sql, re.IGNORECASE):
            self._compare_names(text)
        for name in touched:
            self._compare(name, text)

    def _schemas(self):
        return [name for (name,) in self.ask("SHOW DATABASES") if name not in self.others]

    def _tables(self):
        self.oracle.execute(TABLES)
        return {SourceName(*name) for name in self.oracle.fetchall() if name[0] not in self.others}

    def _compare_names(self, sql):
        there, tables = self._tables(), self.catalog.tables()
        missing = there - {table.name for table in tables}
        # Under a name that is not known may be nothing.
        more = {table.name for table in tables if isinstance(table, TableDefinition)} - there
        if missing or more:
            self._find("tables", sql, f"missing: {sorted(missing)}, too many: {sorted(more)}")
            self._learn_all()

    def _compare(self, name, sql):
        found = self.catalog.table(*name)
        if not isinstance(found, TableDefinition):
            self._learn(name)
            return
        self.counts["compared"] += 1
        for kind, own, expected in self._both(found):
            if own != expected:
                self._find(kind, sql, f"{different(own, expected)}"[:1500])
                self._learn(name)
                return

    def _both(self, table):
        """Yield pairs of what the catalog and the server say of a table."""
        self.oracle.execute(COLUMNS_OF, (table.schema, table.table))
        rows = self.oracle.fetchall()
        yield "columns", [flat(column) for column in table.columns], [self._column(*row) for row in rows]
        listed = [row[2] for row in rows if row[1] in ("enum", "set")]
        own = [list(column.values) for column in table.columns if column.type in ("enum", "set")]
        yield "values", own, [[unescaped(value) for value in LISTED.findall(full)] for full in listed]
        keys = {}
        ends = [column.name for column in table.columns if column.generated is Generated.ROW_END]
        table = unique_only(table)
        self.oracle.execute(KEYS_OF, (table.schema, table.table))
        for index, column in self.oracle.fetchall():
            if column not in ends:
                keys.setdefault(index, []).append(column or "")
        own = {key.name: list(key.columns) for key in table.keys}
        if table.primary_key:
            own["PRIMARY"] = list(table.primary_key)
        yield "keys", own, keys
        shown = self._shown(table.name)
        if shown is not None:
            yield "shown", *(comparable(unique_only(each)).to_json() for each in (table, shown))

    def _shown(self, name):
        """Return the answer of SHOW CREATE TABLE; None if the server cannot show it."""
        schema, table = (part.replace("`", "``") for part in name)
        try:
            self.shows.execute(f"SHOW CREATE TABLE `{schema}`.`{table}`")
        except pymysql.Error:
            return None
        text = self.shows.fetchall()[0][1]
        if not text.startswith(("CREATE TABLE", "CREATE TEMPORARY TABLE")):  # a sequence, a view
            return None
        try:
            return self.catalog.show(Statement(text, name.schema, self.version))
        except ValueError as error:
            self._find("unreadable", text, str(error))
            return None

    def _learn(self, name):
        shown = self._shown(name)
        if shown is not None:
            self.catalog.set(shown)

    def _learn_all(self):
        schemas = {name: self.catalog.schema_collation(name) for name in self._schemas()}
        self.catalog = Catalog(self.collation)
        for name, collation in schemas.items():
            if collation is not None:
                self.catalog.set_schema(name, collation)
        for name in self._tables():
            self._learn(name)

    def _find(self, kind, sql, detail):
        self.findings.append(Finding(kind, self.file, sql[:600], detail))

    @property
    def wrong(self):
        """The findings that no listed reason explains."""
        reasons = re.compile("|".join([*UNKNOWN, *FAULTS_OF_SERVERS]))
        return [each for each in self.findings if not reasons.search(f"{each.sql} {each.detail}")]


def unique_only(table):
    """Return a table without what its statements need not say, and nothing depends on.

    These are indexes that are not UNIQUE (servers make and drop those of foreign keys), and the end of a
    versioned table's period, which is part of every key.
    """
    ends = [column.name for column in table.columns if column.generated is Generated.ROW_END]
    keys = tuple(replace(key, columns=without(ends, key.columns)) for key in table.keys if key.unique)
    # The default engine is not logged.
    return replace(table, keys=keys, primary_key=without(ends, table.primary_key), engine="")


def without(left_out, names):
    return tuple(name for name in names if name not in left_out)


def unescaped(value):
    value = value.replace("''", "'")
    return re.sub(r"\\(.)", lambda found: ESCAPED.get(found[1], found[1]), value, flags=re.DOTALL)


def play_file(player, file, root):
    """Play a file's statements; a table in the way of one in an example that stands by itself is dropped."""
    played = [sql for sql in statements(file) if PLAYED.match(sql) and not LEFT_OUT.search(sql)]
    player.counts["found"] += len(played)
    if played:
        player.begin(str(file.relative_to(root)))
    for sql in played:
        player.play(sql)
        if file.suffix != ".test" and player.error is not None and player.error.args[0] == TABLE_EXISTS:
            name = quoted(EXISTING.match(player.error.args[1])[1])
            player.play(f"DROP TABLE {name}".encode("latin-1", "replace"))
            player.play(sql)


def quoted(name):
    return "`" + name.replace("`", "``") + "`"


def played(server, root, minutes, suffixes=(".test",)):
    if not root.is_dir():
        pytest.skip(f"{root} is missing: scripts/get-ddl-suites.sh gets it")
    files = sorted(file for file in root.rglob("*") if file.suffix in suffixes and file.is_file())
    Random(SEED).shuffle(files)
    player, until = Player(server), time.monotonic() + minutes * 60
    for file in files:
        if time.monotonic() > until:
            break
        play_file(player, file, root)
    return player


@pytest.mark.soak
@pytest.mark.timeout(MINUTES * 60 + 300)
@pytest.mark.parametrize("vendor", [MariaDbServer, MySqlServer])
def test_statements_of_the_servers_own_suites(vendor):
    with vendor() as server:
        player = played(server, SUITES / server.engine, MINUTES)
        assert player.counts["compared"] > 100, player.counts
        assert not player.wrong, (len(player.wrong), player.counts, player.wrong[:5])


@pytest.mark.soak
@pytest.mark.timeout(MINUTES * 60 + 300)
@pytest.mark.parametrize("vendor", [MariaDbServer, MySqlServer])
@pytest.mark.parametrize("root", SOURCES or [None], ids=lambda root: root.name if root else "none")
def test_statements_of_other_tools_sources(root, vendor):
    if root is None:
        pytest.skip("CANAL_GROUP_DDL_SOURCES names no folder")
    with vendor() as server:
        player = played(server, root, MINUTES, SUFFIXES)
        assert player.counts["found"], f"{root} holds no statements"
        assert not player.wrong, (len(player.wrong), player.counts, player.wrong[:5])


def require_known(server):
    """Play what is written here; a server accepts it all, and nothing of it is unknown."""
    player = Player(server)
    for name in ("both", "tools", "applications", server.engine):
        play_file(player, CORPUS / f"{name}.test", CORPUS)
    assert not player.findings, (player.counts, player.findings)
    assert not player.counts["refused"], player.refused


def test_statements_of_tools_and_applications_on_mariadb(mariadb):
    require_known(mariadb)


def test_statements_of_tools_and_applications_on_mysql(two_mysqls):
    require_known(two_mysqls[0].start())
