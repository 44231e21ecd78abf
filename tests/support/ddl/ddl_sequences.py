"""Random DDL statements over the tables that a catalog knows; most of them a server accepts."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from random import Random

from canal_group.binlog.schema.catalog import Catalog
from canal_group.binlog.schema.definition import Generated, TableDefinition

NAMES = ["a", "b", "C", "d", "id", "1x", "key", "é", "row_end2", "Id2"]
TABLES = ["t", "u", "_t_gho", "_t_new", "_t_old", "t2"]
SCHEMAS = ["app", "app2"]
#: whether tests play sequences that nobody has played yet, as `make fuzz` does, and not always the same ones
EXPLORES = "CANAL_GROUP_EXPLORE" in os.environ
CHARSETS = ["latin1", "utf8mb4", "utf8mb3", "latin2", "ucs2", "binary", "cp1251", "utf8", "ascii", "utf32"]
COLLATIONS = [
    "utf8mb4_bin",
    "latin1_german1_ci",
    "utf8mb4_unicode_ci",
    "utf8mb3_czech_ci",
    "binary",
    "utf8_bin",
]
INTEGERS = [
    "TINYINT",
    "SMALLINT",
    "MEDIUMINT(5)",
    "INT",
    "INTEGER(4)",
    "BIGINT",
    "BOOL",
    "INT2",
    "INT8",
    "MIDDLEINT",
]
EXACT = ["DECIMAL", "DEC(6)", "NUMERIC(9,3)", "FIXED(4,1)", "DECIMAL(0)"]
FLOATS = [
    "FLOAT",
    "FLOAT(24)",
    "FLOAT(25)",
    "FLOAT(7,3)",
    "DOUBLE PRECISION",
    "REAL",
    "DOUBLE(9,2)",
    "FLOAT4",
    "FLOAT8",
]
TIMES = ["DATE", "TIME", "TIME(2)", "DATETIME", "DATETIME(6)", "TIMESTAMP", "TIMESTAMP(3)", "YEAR", "YEAR(4)"]
CHARACTERS = [
    "CHAR",
    "CHAR(5)",
    "VARCHAR(20)",
    "VARCHAR(300)",
    "VARCHAR(20000)",
    "CHARACTER VARYING(9)",
    "VARCHARACTER(4)",
    "TEXT",
    "TEXT(10)",
    "TEXT(70)",
    "TEXT(20000)",
    "TINYTEXT",
    "MEDIUMTEXT",
    "LONGTEXT",
    "LONG VARCHAR",
    "ENUM('x','y','a''b')",
    "ENUM('é', 'b,c ', '(d)')",
    "SET('p','q\\\\','r%')",
]
NATIONAL = ["NATIONAL CHAR(3)", "NCHAR VARYING(4)", "NVARCHAR(5)", "NATIONAL VARCHAR(6)", "NCHAR(2) BINARY"]
BYTES = [
    "BINARY",
    "BINARY(16)",
    "VARBINARY(40)",
    "BLOB",
    "BLOB(300)",
    "TINYBLOB",
    "LONGBLOB",
    "LONG VARBINARY",
]
OTHERS = ["BIT", "BIT(17)", "JSON", "GEOMETRY", "POINT", "MULTIPOLYGON", "GEOMETRYCOLLECTION"]
OF_MARIADB = ["UUID", "INET4", "INET6", "VARCHAR(30) COMPRESSED", "TEXT COMPRESSED"]
OF_MYSQL = ["VECTOR(3)", "VECTOR"]
#: of a session: charsets that the statements' texts are in, and formats of the binlog
CLIENTS = ["utf8mb4", "utf8mb4", "latin1", "gbk", "sjis", "cp1251"]
FORMATS = ["ROW", "ROW", "MIXED", "STATEMENT"]
MODES = ["", "STRICT_TRANS_TABLES", "STRICT_TRANS_TABLES,ANSI_QUOTES", "NO_BACKSLASH_ESCAPES,REAL_AS_FLOAT"]
part = "PARTITION {} VALUES LESS THAN ({})".format


@dataclass
class Author:
    """Writes statements.

    Args:
        random: decides.
        catalog: what is there.
        mariadb: whose dialect.
        mode: `sql_mode` of the session at first.
    """

    random: Random
    catalog: Catalog
    mariadb: bool
    mode: str
    #: the schema that statements run in
    schema: str = SCHEMAS[0]
    _keys: int = field(default=0)
    #: tables that temporary ones of the session may hide: a RENAME of these is logged as if of the tables
    _hidden: set[tuple[str, str]] = field(default_factory=set)

    @property
    def ansi(self) -> bool:
        """Whether double quotes enclose names."""
        return "ANSI" in self.mode

    @property
    def escapes(self) -> bool:
        """Whether a backslash in a text escapes."""
        return "NO_BACKSLASH" not in self.mode

    def statement(self) -> str:
        """Return a statement that may fail on the server."""
        known = self._tables()
        kinds = [(self._create, 5), (self._schema, 1), (self._session, 1)]
        if known:
            kinds += [
                (self._alter, 22),
                (self._drop, 1),
            ]
            kinds += [
                (self._index, 2),
                (self._idle, 1),
                (self._view, 1),
                (self._temporary, 1),
            ]
        if not self._hidden >= {table.name for table in known}:
            kinds += [(self._rename, 2), (self._ghost, 1), (self._swap, 1), (self._like, 1)]
        (write,) = self.random.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])
        sql = write()
        if sql.startswith("SET"):
            return sql
        if self.random.random() < 0.1:
            sql = sql.replace(" ", " /* c ' */ ", 1)
        return sql + self._one("", "", "", ";", " -- end", " # end")

    def executed(self, sql: str) -> None:
        """Go on in the session as a statement that the server accepted has left it."""
        if sql.startswith("SET SESSION sql_mode"):
            self.mode = sql.split("'")[1]
        elif sql.startswith("USE"):
            self.schema = sql.split("`")[1]

    # ---- small parts -----------------------------------------------------------------------------------

    def _one(self, *choices: str) -> str:
        return self.random.choice(choices)

    def _maybe(self, text: str, chance: float = 0.3) -> str:
        return text if self.random.random() < chance else ""

    def _quoted(self, name: str) -> str:
        quote = '"' if self.ansi and self.random.random() < 0.5 else "`"
        plain = name.isascii() and name not in ("key", "row_end2") and self.random.random() < 0.4
        return name if plain else f"{quote}{name}{quote}"

    def _table(self, table: TableDefinition | tuple[str, str]) -> str:
        schema, name = (table.schema, table.table) if isinstance(table, TableDefinition) else table
        if schema == self.schema and self.random.random() < 0.6:
            return self._quoted(name)
        return f"{self._quoted(schema)}.{self._quoted(name)}"

    def _shown(self) -> TableDefinition:
        """Return a table that no temporary one hides."""
        return self.random.choice([table for table in self._tables() if table.name not in self._hidden])

    def _tables(self) -> list[TableDefinition]:
        return [table for table in self.catalog.tables() if isinstance(table, TableDefinition)]

    def _known(self) -> TableDefinition:
        return self.random.choice(self._tables())

    def _free(self) -> tuple[str, str]:
        return self.random.choice([SCHEMAS[0], *SCHEMAS]), self.random.choice(TABLES)

    def _text(self, text: str) -> str:
        return text if self.escapes else text.replace("\\\\", "\\")

    # ---- columns ---------------------------------------------------------------------------------------

    def _type(self) -> str:
        kinds = [INTEGERS, EXACT, FLOATS, TIMES, CHARACTERS, CHARACTERS, CHARACTERS, NATIONAL, BYTES, OTHERS]
        kinds.append(OF_MARIADB if self.mariadb else OF_MYSQL)
        kind = self.random.choice(kinds)
        text = self._text(self.random.choice(kind))
        if kind in (INTEGERS, EXACT, FLOATS) and text != "BOOL":
            text += self._one("", "", " UNSIGNED", " ZEROFILL", " SIGNED")
        if kind is CHARACTERS:
            text += self._one(
                "",
                "",
                f" CHARACTER SET {self.random.choice(CHARSETS)}",
                f" CHARSET '{self.random.choice(CHARSETS)}'",
                f" COLLATE {self.random.choice(COLLATIONS)}",
                " BINARY",
                " ASCII",
                " UNICODE",
                " CHARSET latin1 BINARY",
            )
        return text

    def _column(self) -> str:
        if self.random.random() < 0.12:
            how = self._one("VIRTUAL", "STORED", "")
            invisible = self._maybe(" INVISIBLE", 0.2)
            kind = self._one("INT", "VARCHAR(40)")
            return f"{kind} {self._maybe('GENERATED ALWAYS ')}AS (1 + 2) {how}{invisible}"
        text = self._type()
        text += self._one("", "", " NULL", " NOT NULL", " NOT NULL")
        text += self._maybe(" COMMENT 'it''s, (a) comment'", 0.1)
        text += self._maybe(" INVISIBLE", 0.08)
        text += self._maybe(self._one(" UNIQUE", " UNIQUE KEY", " PRIMARY KEY", " KEY"), 0.08)
        text += self._maybe(" CHECK (1 < 2)", 0.04)
        if self.mariadb:
            text += self._maybe(" REF_SYSTEM_ID=0", 0.0)
        else:
            text += self._maybe(" /*!80023 VISIBLE */", 0.03)
        return text

    def _default(self) -> str:
        return self._one(
            "5", "-1.5", "'x'", "NULL", "(1 + 1)", "CURRENT_TIMESTAMP", "NOW(3)", "b'1'", "x'41'", "TRUE"
        )

    def _key_part(self, names: list[str]) -> str:
        name = self._quoted(self.random.choice(names))
        return name + self._one("", "", "(3)", "(10)") + self._one("", "", " ASC", " DESC")

    def _key(self, names: list[str]) -> str:
        parts = ", ".join(self._key_part(names) for _ in range(self.random.choice([1, 1, 2, 3])))
        self._keys += 1
        name = self._one("", f"k{self._keys}", f"`k{self._keys}`")
        kind = self._one(
            "UNIQUE", "UNIQUE KEY", "INDEX", "KEY", "PRIMARY KEY", "PRIMARY KEY", "CONSTRAINT cc UNIQUE"
        )
        if kind == "PRIMARY KEY":
            name = ""
        using = self._one("", "", "", " USING BTREE", " COMMENT 'k'", " USING HASH")
        if not self.mariadb and self.random.random() < 0.1:
            return f"UNIQUE {name} (({self._quoted(self.random.choice(names))} + 1))"
        return f"{kind} {name} ({parts}){using}"

    # ---- statements ------------------------------------------------------------------------------------

    def _options(self) -> str:
        options = [
            "ENGINE=InnoDB",
            "ENGINE InnoDB",
            "COMMENT 'a, b'",
            "AUTO_INCREMENT=7",
            "ROW_FORMAT=DYNAMIC",
            "STATS_PERSISTENT=1",
            f"DEFAULT CHARSET={self.random.choice(CHARSETS)}",
            f"CHARACTER SET {self.random.choice(CHARSETS)}",
            f"COLLATE={self.random.choice(COLLATIONS)}",
            f"DEFAULT COLLATE {self.random.choice(COLLATIONS)}",
        ]
        chosen = self.random.sample(options, self.random.choice([0, 0, 1, 1, 2]))
        return self._one(" ", ", ").join(chosen)

    def _create(self) -> str:
        names = self.random.sample(NAMES, self.random.randint(1, 6))
        elements = [f"{self._quoted(name)} {self._column()}" for name in names]
        elements += [self._key(names) for _ in range(self.random.choice([0, 0, 1, 1, 2]))]
        if not self.mariadb and self.random.random() < 0.3:
            elements = [element for element in elements if "USING HASH" not in element] or elements
        head = self._one("CREATE TABLE", "CREATE TABLE", "CREATE TABLE IF NOT EXISTS")
        if self.mariadb:
            head = self._one(head, head, "CREATE OR REPLACE TABLE")
        tail = self._options()
        if self.mariadb and self.random.random() < 0.12:
            tail += " WITH SYSTEM VERSIONING"
        partition = f" PARTITION BY HASH ({self._quoted(names[0])}) PARTITIONS 2"
        executable = f" /*!50100{partition} */"
        tail += self._maybe(self._one(partition, executable), 0.1)
        return f"{head} {self._table(self._free())} ({', '.join(elements)}) {tail}"

    def _like(self) -> str:
        target, source = self._table(self._free()), self._table(self._shown())
        return self._one(
            f"CREATE TABLE {target} LIKE {source}", f"CREATE TABLE IF NOT EXISTS {target} (LIKE {source})"
        )

    def _drop(self) -> str:
        # MariaDB drops the first tables of a list, and then says that it does not know the last one.
        tables = ", ".join(self._table(name) for name in {self._known().name, self._known().name})
        return f"DROP TABLE {self._maybe('IF EXISTS ')}{tables}{self._maybe(' CASCADE')}"

    def _rename(self) -> str:
        there = self._maybe("IF EXISTS ", 0.2) if self.mariadb and not self._hidden else ""
        old = self._table(self._free()) if there else self._table(self._shown())
        pairs = [f"{old} TO {self._table(self._free())}"]
        pairs += [f"{self._table(self._shown())} TO {self._table(self._free())}"] * self.random.choice(
            [0, 0, 1]
        )
        return f"RENAME TABLE {there}{', '.join(pairs)}"

    def _ghost(self) -> str:
        """Return the last statement of gh-ost: the old table goes aside, and the new one takes its name."""
        one, other = self._shown(), self._shown()
        aside = (one.schema, "_t_del")
        if self.catalog.table(*aside) is not None:
            return f"DROP TABLE {self._table(aside)}"
        return (
            f"RENAME /* gh-ost */ TABLE {self._table(one)} TO {self._table(aside)}, "
            f"{self._table(other)} TO {self._table((one.schema, one.table))}"
        )

    def _swap(self) -> str:
        """Return a swap of two names by a third one, as pt-online-schema-change's users do."""
        one, other = self._shown(), self._shown()
        return (
            f"RENAME TABLE {self._table(one)} TO {self._table((one.schema, 'swap'))}, "
            f"{self._table(other)} TO {self._table((one.schema, one.table))}, "
            f"{self._table((one.schema, 'swap'))} TO {self._table((other.schema, other.table))}"
        )

    def _index(self) -> str:
        table = self._known()
        names = [column.name for column in table.columns]
        self._keys += 1
        there, missing, replacing = (
            ("IF EXISTS ", "IF NOT EXISTS ", "OR REPLACE ") if self.mariadb else ("", "", "")
        )
        kept = [key.name for key in table.keys]
        if kept and self.random.random() < 0.4:
            name = self._quoted(self.random.choice(kept))
            return f"DROP INDEX {self._maybe(there)}{name} ON {self._table(table)}"
        unique, index = self._one("", "UNIQUE "), self.random.choice([f"i{self._keys}", *kept])
        replacing = self._maybe(replacing)
        missing = "" if replacing else self._maybe(missing)
        on = f"{self._quoted(index)} ON {self._table(table)} ({self._key_part(names)})"
        return f"CREATE {replacing}{unique}INDEX {missing}{on}"

    def _session(self) -> str:
        """Return a change of what decides the meaning of the statements that follow."""
        return self._one(
            f"SET NAMES {self.random.choice(CLIENTS)}",
            f"SET SESSION sql_mode = '{self.random.choice(MODES)}'",
            f"SET SESSION binlog_format = {self.random.choice(FORMATS)}",
            f"SET SESSION explicit_defaults_for_timestamp = {self.random.choice((0, 1))}",
            f"USE `{self.random.choice(SCHEMAS)}`",
        )

    def _view(self) -> str:
        """Return a statement on views, which have names of tables."""
        name, known = self._table(self._free()), self._table(self._known())
        replacing = self._one("", "OR REPLACE ", "OR REPLACE ALGORITHM=MERGE SQL SECURITY INVOKER ")
        return self._one(
            f"CREATE {replacing}VIEW {name} AS SELECT * FROM {known}",
            f"CREATE {replacing}VIEW {name} (x) AS SELECT 1",
            f"DROP VIEW IF EXISTS {name}, {known}",
            f"CREATE TABLE IF NOT EXISTS {name} (x INT)",
            f"DROP VIEW IF EXISTS {name}"
            if self._hidden
            else f"RENAME TABLE {name} TO {self._table(self._free())}",
        )

    def _temporary(self) -> str:
        """Return a statement on temporary tables, which hide others of their names."""
        free, table = self._free(), self._known()
        name, known = self._table(free), self._table(table)
        self._hidden |= {free, table.name}
        return self._one(
            f"CREATE TEMPORARY TABLE {known} (hidden INT, other INT)",
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {name} (hidden INT)",
            f"CREATE TEMPORARY TABLE {name} LIKE {known}",
            f"ALTER TABLE {known} ADD hidden INT FIRST",
            f"DROP TEMPORARY TABLE IF EXISTS {name}, {known}",
            f"DROP TABLE IF EXISTS {name}",
        )

    def _schema(self) -> str:
        schema = self.random.choice(SCHEMAS)
        clause = self._one(
            f"DEFAULT CHARACTER SET = {self.random.choice(CHARSETS)}",
            f"CHARSET {self.random.choice(CHARSETS)}",
            f"COLLATE {self.random.choice(COLLATIONS)}",
            "CHARACTER SET latin2 COLLATE latin2_bin",
        )
        replacing = f"CREATE OR REPLACE DATABASE {SCHEMAS[1]} {clause}" if self.mariadb else ""
        return self._one(
            replacing or f"ALTER DATABASE {schema} {clause}",
            f"DROP DATABASE IF EXISTS {SCHEMAS[1]}",
            f"ALTER DATABASE {schema} {clause}",
            f"ALTER SCHEMA {clause}",
            f"CREATE DATABASE IF NOT EXISTS {schema} {clause}",
        )

    def _idle(self) -> str:
        table = self._table(self._known())
        return self._one(
            f"TRUNCATE TABLE {table}",
            f"ANALYZE TABLE {table}",
            f"CREATE OR REPLACE VIEW v AS SELECT * FROM {table}",
            f"CREATE TEMPORARY TABLE tmp LIKE {table}",
            "DROP TEMPORARY TABLE IF EXISTS tmp",
            "DROP VIEW IF EXISTS v",
        )

    def _alter(self) -> str:
        table = self._known()
        clauses = [self._clause(table) for _ in range(self.random.choice([1, 1, 1, 2, 2, 3]))]
        if self.mariadb and table.versioned and self.random.random() < 0.3:
            clauses = ["DROP SYSTEM VERSIONING"]
        clauses += [self._one("ALGORITHM=COPY", "ALGORITHM = DEFAULT", "LOCK=DEFAULT", "FORCE")] * (
            self.random.random() < 0.1
        )
        order = [column.name for column in table.columns if column.generated is Generated.NO]
        if order and self.random.random() < 0.05:
            clauses.append(f"ORDER BY {self._quoted(order[0])} DESC, {self._quoted(order[-1])}")
        online = self._maybe(self._one("ONLINE ", "IGNORE "), 0.1) if self.mariadb else ""
        there = self._maybe("IF EXISTS ", 0.1) if self.mariadb else ""
        return f"ALTER {online}TABLE {there}{self._table(table)} {', '.join(clauses)}"

    def _position(self, names: list[str]) -> str:
        return self._one("", "", " FIRST", f" AFTER {self._quoted(self.random.choice(names))}")

    def _clause(self, table: TableDefinition) -> str:  # noqa: C901, PLR0911, PLR0912 - one return a clause
        names = [column.name for column in table.columns]
        lower = {name.lower() for name in names}
        new = self.random.choice([name for name in NAMES if name.lower() not in lower] or ["zz"])
        old = self._quoted(self.random.choice(names))
        column = self._maybe("COLUMN ", 0.5)
        match self.random.randrange(24):
            case 0 | 1 | 2:
                missing = self._maybe("IF NOT EXISTS ", 0.3) if self.mariadb else ""
                name = self._one(new, new, self.random.choice(names)) if missing else new
                return f"ADD {column}{missing}{self._quoted(name)} {self._column()}{self._position(names)}"
            case 3:
                others = [name for name in NAMES if name.lower() not in lower][:2] or ["zz"]
                return (
                    f"ADD {column}({', '.join(f'{self._quoted(name)} {self._column()}' for name in others)})"
                )
            case 4 | 5:
                there = self._maybe("IF EXISTS ", 0.3) if self.mariadb else ""
                return f"DROP {column}{there}{old}{self._maybe(' CASCADE', 0.1) if self.mariadb else ''}"
            case 6 | 7 | 8:
                return f"MODIFY {column}{old} {self._column()}{self._position(names)}"
            case 9 | 10:
                name = self._quoted(self._one(new, new, names[0]))
                return f"CHANGE {column}{old} {name} {self._column()}{self._position(names)}"
            case 11:
                return f"RENAME COLUMN {old} TO {self._quoted(new)}"
            case 12:
                return f"RENAME {self._one('TO ', 'AS ', '')}{self._table(self._free())}"
            case 13:
                return f"ALTER {column}{old} {self._one(f'SET DEFAULT {self._default()}', 'DROP DEFAULT')}"
            case 14:
                return f"ADD {self._key(names)}"
            case 15:
                return self._one("DROP PRIMARY KEY", f"DROP PRIMARY KEY, ADD PRIMARY KEY ({old})")
            case 16:
                kept = [key.name for key in table.keys] or ["nokey"]
                return f"DROP {self._one('INDEX', 'KEY')} {self._quoted(self.random.choice(kept))}"
            case 17 | 18:
                collate = self._maybe(f" COLLATE {self.random.choice(COLLATIONS)}", 0.2)
                return f"CONVERT TO CHARACTER SET {self.random.choice([*CHARSETS, 'DEFAULT'])}{collate}"
            case 19:
                return self._options() or "ENGINE=InnoDB"
            case 20:
                if table.keys and self.random.random() < 0.5:
                    self._keys += 1
                    return (
                        f"RENAME INDEX {self._quoted(self.random.choice(table.keys).name)} TO r{self._keys}"
                    )
                return self._one("ENABLE KEYS", "DISABLE KEYS", "FORCE")
            case 21:
                return self._one(
                    f"PARTITION BY HASH ({old}) PARTITIONS 3",
                    "REMOVE PARTITIONING",
                    "ADD PARTITION PARTITIONS 2",
                    "COALESCE PARTITION 1",
                    f"PARTITION BY RANGE ({old}) ({part('p0', 5)}, {part('p1', 9)})",
                    f"REORGANIZE PARTITION p0 INTO ({part('a', 3)}, {part('b', 5)})",
                    "DROP PARTITION p0",
                )
            case 22:
                if self.mariadb:
                    return "ADD SYSTEM VERSIONING"
                return f"ALTER {column}{old} SET {self._one('VISIBLE', 'INVISIBLE')}"
            case _:
                return f"ADD CONSTRAINT ck{self._keys} CHECK (1 < 2)"


def comparable(table):
    """Return a table whose keys are sorted, but for those that may become the primary key.

    The servers move the others when they rebuild a table, which no statement says and nothing reads.
    """
    filled = {column.name for column in table.columns if not column.nullable}
    able = [
        key for key in table.keys if key.unique and key.whole and not key.hashed and filled >= {*key.columns}
    ]
    rest = [key for key in table.keys if key not in able]
    return replace(table, keys=(*able, *sorted(rest, key=lambda key: key.name)))
