"""A server and a catalog that execute the same statements."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pymysql
from support.ddl.ddl_sequences import SCHEMAS, comparable

from canal_group.binlog.columns.table_map import parse_table_map
from canal_group.binlog.formats.event_types import EventType
from canal_group.binlog.formats.events import HEADER_SIZE, parse_header, parse_query
from canal_group.binlog.history.verified import require_agreement
from canal_group.binlog.schema.catalog import Catalog
from canal_group.binlog.schema.definition import Generated, TableDefinition, Visibility
from canal_group.binlog.schema.statement import ServerVersion, Statement
from canal_group.binlog.statements.logged_statement import statement_of

COLUMN = (
    "COLUMN_NAME, LOWER(DATA_TYPE), COLUMN_TYPE, CHARACTER_MAXIMUM_LENGTH, NUMERIC_PRECISION, NUMERIC_SCALE,"
    " DATETIME_PRECISION, COLLATION_NAME, IS_NULLABLE, EXTRA"
)
COLUMNS = (
    f"SELECT TABLE_SCHEMA, TABLE_NAME, {COLUMN} FROM information_schema.COLUMNS"
    " WHERE (TABLE_SCHEMA, TABLE_NAME) IN"
    " (SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA IN ('app', 'app2')"
    " AND TABLE_TYPE <> 'VIEW') ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION"
)
#: of one table
COLUMNS_OF = (
    f"SELECT {COLUMN} FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    " ORDER BY ORDINAL_POSITION"
)
KEYS = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, COLUMN_NAME, NON_UNIQUE FROM information_schema.STATISTICS"
    " WHERE TABLE_SCHEMA IN ('app', 'app2') ORDER BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX"
)
#: what nobody writes, and the servers have strange rules for, makes a table unknown
UNKNOWN = re.compile(
    "is not a text in the new charset"
    "|is defined while its table is converted"
    "|is converted to a charset, and has another default"
    # MariaDB does not say it of a CREATE that it logs for one like a temporary table.
    "|has created it, or did nothing because it was there"
)
UNIQUE = re.compile(r"^  UNIQUE KEY `((?:[^`]|``)+)`", re.MULTILINE)
SET_NAMES = re.compile(r"SET NAMES (\w+)")
SIZED = {"char", "varchar", "binary", "varbinary"}
#: MariaDB lets an ALTER make a partitioned table that it cannot open again
BROKEN = 1503


class Twin:
    """A server, and the catalog that should know the same."""

    def __init__(self, server, mode, *, explicit=True):
        self.connection = server.connect()
        self.mariadb = server.engine == "mariadb"
        self.server = server
        with self.connection.cursor() as cursor:
            self.cursor = self.connection.cursor()
            cursor.execute("SELECT VERSION(), @@collation_server")
            version, collation = cursor.fetchone()
            self.version = ServerVersion.parse(version)
            column = "FULL_COLLATION_NAME" if self.mariadb else "COLLATION_NAME"
            view = "COLLATION_CHARACTER_SET_APPLICABILITY" if self.mariadb else "COLLATIONS"
            cursor.execute(f"SELECT {column}, ID FROM information_schema.{view}")
            self.collations = dict(cursor.fetchall())
        self.catalog = Catalog(self.collations[collation])
        # Escapes in the text of SHOW CREATE TABLE are those of a session without NO_BACKSLASH_ESCAPES.
        self.snapshots = server.connect()
        self.shows = self.snapshots.cursor()
        self.shows.execute("SET SESSION sql_mode = ''")
        self.ask(f"SET SESSION sql_mode = '{mode}'")
        self.ask(f"SET SESSION explicit_defaults_for_timestamp = {int(explicit)}")
        for schema in SCHEMAS:
            self.ask(f"DROP DATABASE IF EXISTS {schema}")
        self.ask("FLUSH BINARY LOGS")
        ((self.binlog, self.read_to, *_),) = self.ask(
            "SHOW MASTER STATUS" if self.mariadb else "SHOW BINARY LOG STATUS"
        )
        ((folder,),) = self.ask("SELECT @@datadir")
        self.binlog = Path(folder, self.binlog)
        for schema in SCHEMAS:
            self.run(f"CREATE DATABASE {schema}")
        self.ask("USE app")

    def ask(self, sql):
        self.cursor.execute(sql)
        return self.cursor.fetchall()

    def answers(self, sql):
        """Return the answer of another session: it sees no temporary tables, and all letters."""
        self.shows.execute(sql)
        return self.shows.fetchall()

    def statement(self, body, flags=0):
        """Return the statement of a QUERY event, with the session's settings as they were logged."""
        return statement_of(parse_query(body, flags=flags), self.version)

    def run(self, sql):
        """Execute a statement, and apply what the binlog has of it; return whether the server accepted it.

        A statement that a server refuses may have done something: MariaDB's CREATE OR REPLACE has dropped the
        old table before it fails.
        """
        names = SET_NAMES.fullmatch(sql)
        try:
            if names is not None:
                self.connection.set_character_set(names[1])
            else:
                self.cursor.execute(sql)
        except (pymysql.Error, UnicodeEncodeError):  # the client's charset may lack a letter of it
            accepted = False
        else:
            accepted = True
        self.follow()
        return accepted

    def follow(self):
        """Apply what was logged since the last call."""
        for statement in self.logged():
            applied = self.catalog.apply(statement)
            assert not applied.any_unknown, applied.reason

    def drop(self, table):
        """Drop a table, whatever temporary one of the name there is; there may be none if it is not known."""
        with suppress(pymysql.OperationalError):
            self.answers(f"DROP TABLE `{table.schema}`.`{table.table}`")
        self.follow()

    def logged(self):
        """Yield the statements that were logged since the last call."""
        for event_type, body, flags in self.new_events():
            if event_type == EventType.QUERY:
                yield self.statement(body, flags)

    def new_events(self):
        """Yield the type, the body and the flags of events that were logged since the last call."""
        with self.binlog.open("rb") as file:
            file.seek(self.read_to)
            data = file.read()
        self.read_to += len(data)
        at = 0
        while at < len(data):
            size = parse_header(data[at : at + int.from_bytes(data[at + 9 : at + 13], "little")]).size
            event = data[at : at + size]
            header = parse_header(event)
            yield header.event_type, event[HEADER_SIZE:-4], header.flags
            at += size

    def tables(self):
        """Return the server's tables, as definitions without keys."""
        found = {}
        for schema, table, *column in self.answers(COLUMNS):
            found.setdefault((schema, table), []).append(self._column(*column))
        return found

    def _column(self, *row):
        name, kind, full, characters, digits, scale, fraction, collation, nullable, extra = row
        extra = extra.upper()
        generated = Generated.NO
        if "GENERATED" in extra and "DEFAULT_GENERATED" not in extra:
            generated = Generated.VIRTUAL if "VIRTUAL" in extra else Generated.STORED
        return {
            "name": name,
            "type": kind,
            "unsigned": "unsigned" in full and not full.startswith(("enum", "set")),
            "length": int(characters) if kind in SIZED else int(digits) if kind == "bit" else 0,
            "precision": int(digits) if kind == "decimal" else 0,
            "scale": int(scale) if kind == "decimal" else 0,
            "decimals": int(fraction or 0),
            "collation": self.collations.get(collation, 63),
            "values": [],
            "nullable": nullable == "YES",
            "generated": generated,
            "invisible": "INVISIBLE" in extra,
        }

    def check(self, history):
        """Compare the catalog with the server's `information_schema` and SHOW CREATE TABLE."""
        unknown = [table for table in self.catalog.tables() if not isinstance(table, TableDefinition)]
        for table in unknown:
            assert UNKNOWN.search(table.reason), (table, history)
            self.drop(table)
        known = {table.name: table for table in self.catalog.tables() if isinstance(table, TableDefinition)}
        expected = self.tables()
        assert sorted(known) == sorted(expected), (sorted(known), sorted(expected), history)
        keys = {}
        for schema, table, index, column, not_unique in self.answers(KEYS):
            parts = keys.setdefault((schema, table), {}).setdefault((index, not not_unique), [])
            parts.append(column or "")
        for name, table in known.items():
            own_columns = [flat(column) for column in table.columns]
            assert own_columns == expected[name], (name, different(own_columns, expected[name]), history)
            own = {(key.name, key.unique): list(key.columns) for key in table.keys}
            if table.primary_key:
                own["PRIMARY", True] = list(table.primary_key)
            assert own == keys.get(name, {}), (name, own, keys.get(name), history)
            try:
                self.shows.execute(f"SHOW CREATE TABLE `{name[0]}`.`{name[1]}`")
            except pymysql.OperationalError as error:
                if error.args[0] != BROKEN:
                    raise
                self.drop(table)
                continue
            ((_, text),) = self.shows.fetchall()
            # Where others are does not matter: they are never the key of table maps.
            filled = {column.name for column in table.columns if not column.nullable}
            able = [key for key in table.keys if key.unique and key.whole and not key.hashed]
            uniques = [key.name for key in able if filled >= {*key.columns}]
            assert uniques == [name for name in UNIQUE.findall(text) if name in uniques], (
                text,
                uniques,
                history,
            )
            shown = self.catalog.show(Statement(text, name[0], self.version))
            assert comparable(shown) == comparable(table), (
                text,
                different(shown.to_json(), table.to_json()),
                history,
            )

    def check_maps(self, history):
        """Compare the catalog with the table maps of rows."""
        for table in self.catalog.tables():
            if not isinstance(table, TableDefinition):
                continue
            self.shows.execute(f"DELETE FROM `{table.schema}`.`{table.table}`")
            try:
                self.shows.execute(f"INSERT IGNORE INTO `{table.schema}`.`{table.table}` () VALUES ()")
            except pymysql.Error:
                continue
        maps = {}
        for event_type, body, _ in self.new_events():
            if event_type == EventType.TABLE_MAP:
                found = parse_table_map(body, mariadb=self.mariadb)
                maps[found.schema, found.table] = found
        for name, found in maps.items():
            table = self.catalog.table(*name)
            require_agreement(found, table)
            logged = [
                (column.name, column.unsigned or column.type == "year", column.values)
                for column in table.logged
            ]
            mapped = [(column.name, column.unsigned, column.values) for column in found.columns]
            assert logged == mapped, (name, different(logged, mapped), history)
            if self.mariadb and not found.primary_key and "USING HASH" in "".join(history):
                continue  # MariaDB no longer counts a UNIQUE key that it has hashed once.
            assert table.row_key == found.primary_key, (name, table.row_key, found.primary_key, history)
        return len(maps)


def different(own, expected):
    """Return where two values of lists and objects differ, for the message of an assertion."""
    if isinstance(own, dict) and isinstance(expected, dict):
        names = sorted({*own, *expected})
        return [f"{name}: {part}" for name in names for part in different(own.get(name), expected.get(name))]
    if isinstance(own, list) and isinstance(expected, list) and len(own) == len(expected):
        return [part for pair in zip(own, expected, strict=True) for part in different(*pair)]
    return [] if own == expected else [f"{own} is not {expected}"]


def flat(column):
    data = {field: getattr(column, field) for field in column.__dataclass_fields__}
    data["invisible"] = data.pop("visibility") is Visibility.INVISIBLE
    data["values"] = []  # table maps say them, without escapes
    del data["reads"]  # no table of the server's says it; the text of SHOW CREATE TABLE does
    if data["type"] == "vector":
        data["length"] = 0
    if data["generated"] in (Generated.ROW_START, Generated.ROW_END):
        data["generated"] = Generated.STORED
    return data
