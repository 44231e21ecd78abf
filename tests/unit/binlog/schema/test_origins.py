"""Where a table's rows come from: rules on rows and columns follow a table through these statements."""

from __future__ import annotations

import json

import pytest

from canal_group.binlog.history.logged import lineage_of
from canal_group.binlog.schema.ancestry import ORIGINS_MAX, READS_MAX, Ancestry
from canal_group.binlog.schema.catalog import Catalog
from canal_group.binlog.schema.catalog_entry import ShownTable
from canal_group.binlog.schema.definition import SourceName
from canal_group.binlog.schema.statement import ServerVersion, Statement

SERVERS = {each: ServerVersion.parse(each) for each in ("9.7.4", "10.11.6-MariaDB")}


def played(*statements, server="9.7.4", made=None):
    if made is None:
        made = Catalog(255)
        made.set_schema("app", 255)
    for sql in statements:
        made.apply(Statement(sql, "app", SERVERS[server]))
    return made


def origins(made, table, schema="app"):
    return {str(each) for each in made.ancestry(SourceName(schema, table)).names}


CREATE = "CREATE TABLE t (id INT, mail TEXT)"
#: its last column once held a copy of `mail`
COMPUTED = "CREATE TABLE t (id INT, mail TEXT, low TEXT AS (LOWER(mail)) STORED)"
SWAP = "RENAME COLUMN a TO b, RENAME COLUMN b TO a"


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize(
    ("statements", "table", "expected"),
    [
        (["RENAME TABLE t TO u"], "u", {"app.t"}),
        (["RENAME TABLE t TO u"], "t", set()),
        (["ALTER TABLE t RENAME u"], "u", {"app.t"}),
        (["RENAME TABLE t TO u", "RENAME TABLE u TO v"], "v", {"app.t", "app.u"}),
        (["CREATE TABLE c LIKE t"], "c", {"app.t"}),
        (["CREATE TABLE c (LIKE t)"], "c", {"app.t"}),
        (["CREATE TABLE IF NOT EXISTS c LIKE t"], "c", {"app.t"}),
        (["RENAME TABLE t TO u", "CREATE TABLE c LIKE u"], "c", {"app.t", "app.u"}),
        (["CREATE TABLE c LIKE t", "DROP TABLE c", "CREATE TABLE c (a INT)"], "c", set()),
        (["CREATE TABLE c LIKE t", "DROP TABLE c"], "c", set()),
        (["CREATE TABLE c LIKE t", "DROP DATABASE app"], "c", set()),
        (["CREATE TABLE _t_gho LIKE t", "RENAME TABLE t TO _t_del, _t_gho TO t"], "_t_del", {"app.t"}),
        (["CREATE TABLE _t_gho LIKE t", "RENAME TABLE t TO _t_del, _t_gho TO t"], "t", {"app._t_gho"}),
        (["CREATE TABLE c (a INT)", "RENAME TABLE t TO x, c TO t, x TO c"], "c", {"app.t", "app.x"}),
        (["ALTER TABLE t EXCHANGE PARTITION p WITH TABLE c"], "c", {"app.t"}),
        (["ALTER TABLE t EXCHANGE PARTITION p WITH TABLE c WITHOUT VALIDATION"], "t", {"app.c"}),
        (["ALTER TABLE t FROBNICATE", "RENAME TABLE t TO u"], "u", {"app.t"}),
    ],
)
def test_what_a_table_comes_from_follows_it(statements, table, expected, known):
    made = played(*([CREATE] if known else []))
    if not known:
        made.forget_all("Nothing is known.")
    assert origins(played(*statements, made=made), table) == expected


@pytest.mark.parametrize(
    ("text", "options"),
    [("`app`.`t`, `app`.`u`", {"left_out": True}), ("RENAME TABLE t TO u", {"failed": True})],
)
def test_a_statement_of_unknown_effect_may_have_renamed_its_tables(text, options):
    made = played(CREATE)
    made.apply(Statement(text, "app", SERVERS["9.7.4"], **options))
    assert origins(made, "u") == {"app.t"}


def test_a_partition_that_becomes_a_table_has_its_rows():
    made = played(CREATE, "ALTER TABLE t CONVERT PARTITION p TO TABLE c", server="10.11.6-MariaDB")
    assert origins(made, "c") == {"app.t"}
    played(
        "ALTER TABLE d CONVERT TABLE c TO PARTITION q VALUES LESS THAN (5)",
        server="10.11.6-MariaDB",
        made=made,
    )
    assert origins(made, "d") == {"app.t", "app.c"}


def test_a_create_or_replace_begins_anew():
    replaced = "CREATE OR REPLACE TABLE c (a INT)"
    assert origins(played(CREATE, "CREATE TABLE c LIKE t", replaced, server="10.11.6-MariaDB"), "c") == set()


def test_a_rotation_of_new_names_forgets_the_oldest_and_keeps_the_table():
    made = played(CREATE)
    for day in range(ORIGINS_MAX + 50):
        played(f"CREATE TABLE new_{day} LIKE t", f"RENAME TABLE t TO old_{day}, new_{day} TO t", made=made)
    last = made.ancestry(SourceName("app", f"old_{ORIGINS_MAX + 49}")).names
    assert len(last) == ORIGINS_MAX
    assert last[-1] == SourceName("app", "t")


def test_what_is_stored_has_the_origins():
    made = played(CREATE, "CREATE TABLE c LIKE t", "RENAME TABLE c TO d")
    stored = Catalog(255)
    stored.load_schemas(made.schemas_to_json())
    assert stored.ancestry(SourceName("app", "d")).names == made.ancestry(SourceName("app", "d")).names != ()
    assert made.copy().ancestry(SourceName("app", "d")).names == made.ancestry(SourceName("app", "d")).names


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (["CREATE TABLE t (mail TEXT, g TEXT AS (LOWER(mail)))"], {"g": ("mail",)}),
        (["CREATE TABLE t (Mail TEXT, g TEXT GENERATED ALWAYS AS (`MAIL`) STORED)"], {"g": ("mail",)}),
        (["CREATE TABLE t (a INT, b INT, g INT AS (a + (b * 2)) VIRTUAL)"], {"g": ("a", "b")}),
        (["CREATE TABLE t (mail TEXT, g TEXT AS ('mail'))"], {}),
        (["CREATE TABLE t (mail TEXT, d TEXT DEFAULT (UPPER(mail)), e INT DEFAULT 5)"], {"d": ("mail",)}),
        (["CREATE TABLE t (mail TEXT)", "ALTER TABLE t ADD g TEXT AS (mail)"], {"g": ("mail",)}),
        (
            ["CREATE TABLE t (mail TEXT, g TEXT AS (mail))", "ALTER TABLE t CHANGE mail post TEXT"],
            {"g": ("post",)},
        ),
        (
            ["CREATE TABLE t (mail TEXT, g TEXT AS (mail))", "ALTER TABLE t RENAME COLUMN mail TO post"],
            {"g": ("post",)},
        ),
        (["CREATE TABLE t (mail TEXT, g TEXT AS (mail))", "ALTER TABLE t MODIFY g TEXT"], {}),
        (
            ["CREATE TABLE t (mail TEXT, d TEXT)", "ALTER TABLE t ALTER d SET DEFAULT (mail)"],
            {"d": ("mail",)},
        ),
        (
            ["CREATE TABLE t (mail TEXT, d TEXT DEFAULT (mail))", "ALTER TABLE t ALTER d SET DEFAULT ('x')"],
            {},
        ),
        (["CREATE TABLE t (mail TEXT, d TEXT DEFAULT (mail))", "ALTER TABLE t ALTER d DROP DEFAULT"], {}),
        (
            ["CREATE TABLE t (a INT, b INT, g INT AS (a))", f"ALTER TABLE t {SWAP}, ADD h INT AS (a)"],
            {"g": ("b",), "h": ("a",)},
        ),
        (
            ["CREATE TABLE t (a INT, b INT, g INT AS (a))", f"ALTER TABLE t {SWAP}, MODIFY g INT AS (a)"],
            {"g": ("a",)},
        ),
        (
            ["CREATE TABLE t (mail TEXT, g TEXT AS (mail))", "ALTER TABLE t CONVERT TO CHARACTER SET latin1"],
            {"g": ("mail",)},
        ),
    ],
)
@pytest.mark.parametrize("server", SERVERS)
def test_what_a_column_reads(statements, expected, server):
    table = played(*statements, server=server).table("app", "t")
    assert {each.name: each.reads for each in table.columns if each.reads} == expected
    assert type(table).from_json(table.to_json()) == table


def computed(made, table="t", of="mail"):
    """Return the columns of a table whose values come from another one."""
    known = made.table("app", table)
    return set(lineage_of(known, made.ancestry(SourceName("app", table))).reading({of}))


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (["ALTER TABLE t MODIFY low TEXT"], {"low"}),
        (["ALTER TABLE t MODIFY low TEXT", "ALTER TABLE t CHANGE low down TEXT"], {"down"}),
        (["ALTER TABLE t MODIFY low TEXT", "ALTER TABLE t RENAME COLUMN mail TO post"], {"low", "post"}),
        (["ALTER TABLE t CHANGE mail post TEXT, DROP low", "ALTER TABLE t ADD mail TEXT"], {"post"}),
        (["ALTER TABLE t RENAME COLUMN mail TO a, DROP low", "ALTER TABLE t CHANGE a b TEXT"], {"b"}),
        (["ALTER TABLE t RENAME COLUMN mail TO id, RENAME COLUMN id TO mail, DROP low"], {"id", "mail"}),
        (["ALTER TABLE t CHANGE mail post TEXT, DROP low", "ALTER TABLE t DROP post, ADD post TEXT"], set()),
        (
            [
                "CREATE TABLE u LIKE t",
                "ALTER TABLE u DROP low, CHANGE mail a TEXT",
                "DROP TABLE t",
                "RENAME TABLE u TO t",
            ],
            {"a"},
        ),
        (["ALTER TABLE t MODIFY low TEXT", "ALTER TABLE t DROP mail, ADD mail TEXT"], {"low"}),
        (["ALTER TABLE t MODIFY low TEXT", "ALTER TABLE t DROP low, ADD low TEXT"], set()),
        (["ALTER TABLE t MODIFY low TEXT", "DROP TABLE t", CREATE], set()),
        (["ALTER TABLE t MODIFY low TEXT", "ALTER TABLE t ADD up TEXT AS (UPPER(low))"], {"low", "up"}),
        (
            [
                "ALTER TABLE t ADD up TEXT AS (UPPER(low)) STORED, MODIFY low TEXT AS ('x')",
                "ALTER TABLE t MODIFY up TEXT",
                "ALTER TABLE t DROP low",
            ],
            {"up"},
        ),
        (["ALTER TABLE t ADD d TEXT DEFAULT (mail)", "ALTER TABLE t ALTER d DROP DEFAULT"], {"low", "d"}),
        (["ALTER TABLE t ADD d TEXT DEFAULT (mail)", "ALTER TABLE t ALTER d SET DEFAULT (1)"], {"low", "d"}),
        (["ALTER TABLE t MODIFY low TEXT, RENAME TO u", "RENAME TABLE u TO t"], {"low"}),
        (["CREATE TABLE u LIKE t", "ALTER TABLE u MODIFY low TEXT", "RENAME TABLE t TO v, u TO t"], {"low"}),
        (
            [
                "CREATE TABLE u (id INT, mail TEXT, low TEXT)",
                "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u",
            ],
            {"low"},
        ),
    ],
)
@pytest.mark.parametrize("server", SERVERS)
def test_values_that_were_computed_stay_so(statements, expected, server):
    made = played(COMPUTED, *statements, server=server)
    assert computed(made) == expected
    stored = Catalog(255)
    stored.load_schemas(json.loads(json.dumps(made.schemas_to_json())))
    stored.set(made.table("app", "t"))
    assert computed(stored) == computed(made.copy()) == expected


def test_partitions_take_their_computed_values_along():
    made = played(COMPUTED, "ALTER TABLE t MODIFY low TEXT", server="10.11.6-MariaDB")
    played("ALTER TABLE t CONVERT PARTITION p TO TABLE u", made=made, server="10.11.6-MariaDB")
    assert computed(made, "u") == {"low"}
    made = played(COMPUTED, "CREATE TABLE u (id INT, mail TEXT, low TEXT)")
    played("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u", made=made)
    assert computed(made, "u") == {"low"}


PLAIN = "CREATE TABLE t (id INT, mail TEXT, low TEXT)"


@pytest.mark.parametrize(
    "shown", [COMPUTED, COMPUTED.replace("AS (LOWER(mail)) STORED", "DEFAULT (LOWER(mail))")]
)
@pytest.mark.parametrize(
    "forget",
    [
        lambda made: made.forget([SourceName("app", "t")], (), (), "why"),
        lambda made: made.forget((), (), ["app"], "why"),
        lambda made: made.forget_all("why"),
        lambda made: made.apply(Statement("ALTER TABLE t SHRED", "app", SERVERS["9.7.4"])),
        lambda made: made.apply(Statement("ALTER TABLE t MODIFY low TEXT", "app", SERVERS["9.7.4"])),
        lambda _made: None,
    ],
)
def test_a_definition_that_is_learned_keeps_what_was_computed(forget, shown):
    made = played()
    made.set(ShownTable("app", "t", f"{shown} CHARSET=utf8mb4", SERVERS["9.7.4"]))
    forget(made)
    made.set(ShownTable("app", "t", f"{PLAIN} CHARSET=utf8mb4", SERVERS["9.7.4"]))
    assert computed(made) == {"low"}


def test_expressions_of_a_table_that_is_not_known_count():
    made = played()
    made.forget_all("why")
    played("ALTER TABLE t ADD low TEXT AS (LOWER(mail)) STORED", made=made)
    played(
        "ALTER TABLE t MODIFY low TEXT, ALTER id SET DEFAULT (mail)",
        "ALTER TABLE t CHANGE id n INT",
        made=made,
    )
    made.set(ShownTable("app", "t", f"{PLAIN.replace('id', 'n')} CHARSET=utf8mb4", SERVERS["9.7.4"]))
    assert computed(made) == {"low", "n"}


def test_the_columns_that_one_was_computed_of_are_bounded():
    reads = {"low": [f"c{number}" for number in range(READS_MAX + 9)]}
    assert len(Ancestry().reading(reads).reading({"low": ["x"]}).reads["low"]) == READS_MAX
