"""Topics, partitions and hash codes equal those of a model that follows canal's rules word by word."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from support.soak import cases

from canal_group.conf.relay.relay_settings import RouteSettings
from canal_group.merge.rows.envelope import ENVELOPE
from canal_group.programs.output.routing.router import Router, java_hash, java_modulus

SPECIAL = set("*?+|(){}[]\\$^")
TABLES = ["shop.orders", "shop.orders_1", "Shop.Items", "crm.people", "crm.orders"]
COLUMNS = ["id", "Name", "note"]
#: texts that hash to the least integer of 32 bits, whose absolute value is itself
LEAST = "polygenelubricants"


# ---- the model: one text, one row, one rule at a time


def hash_code(text):
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[index : index + 2], "big")) % 2**32
    return value - 2**32 if value >= 2**31 else value


def java_abs(value):
    return value if value == -(2**31) else abs(value)


def remainder(value, count):
    return value % count if value >= 0 else -(-value % count)


def partition_by(hashed, count):
    return java_abs(remainder(java_abs(hashed), count))


def matches(expression, name):
    if SPECIAL & set(expression):
        return re.fullmatch(expression, name, re.IGNORECASE) is not None
    return expression.lower() == name.lower()


def model_topic(rules, default, schema, table):
    if not rules:
        return default
    if schema and table:
        for name in (f"{schema}.{table}", schema):
            for topic, expression in rules:
                if SPECIAL & set(expression) and ("\\." in expression) != ("." in name):
                    continue
                if matches(expression, name):
                    return (topic or name.lower()).replace(".", "_")
    return default.replace(".", "_")


def model_partition(rules, fixed, count, schema, table, row, key, *, database_hash):
    """Return the partition; `row` is None for a statement."""
    if not rules:
        return fixed
    if row is None:
        return 0
    for expression, columns in rules:
        if not matches(expression, f"{schema}.{table}"):
            continue
        if columns == []:
            return partition_by(hash_code(table), count)
        hashed = hash_code(schema) if database_hash else 0
        by_name = {name.lower(): value for name, value in row.items()}
        for name in key if columns is None else columns:
            hashed ^= hash_code(by_name.get(name.lower()) or "")
        return partition_by(hashed, count)
    return 0


# ---- cases

texts = st.text(max_size=12) | st.sampled_from(["", LEAST, "😀", "日本"])
texts = texts.map(lambda text: text.encode("utf-8", "ignore").decode())
expressions = st.sampled_from(
    [
        "shop",
        "SHOP.orders",
        r"shop\.orders",
        r".*\..*",
        r"shop\.orders_\d+",
        "s.*",
        "crm",
        r"CRM\..*",
        "(shop|crm)",
    ]
)
topic_rules = st.lists(st.tuples(st.sampled_from(["", "all", "a.b"]), expressions), max_size=3)
partition_rules = st.lists(
    st.tuples(
        expressions,
        st.none() | st.just([]) | st.lists(st.sampled_from([*COLUMNS, "NAME"]), min_size=1, max_size=2),
    ),
    max_size=3,
)
images = st.fixed_dictionaries({name: st.none() | texts for name in COLUMNS})


@st.composite
def changes(draw):
    """Rows of the envelope: row changes of each kind and statements, of several tables."""
    rows = []
    for _ in range(draw(st.integers(0, 8))):
        schema, _, table = draw(st.sampled_from(TABLES)).partition(".")
        op = draw(st.sampled_from(["INSERT", "UPDATE", "DELETE", "READ", "CREATE"]))
        is_row = op != "CREATE"
        before = draw(images) if op in {"UPDATE", "DELETE"} else None
        after = draw(images) if op in {"INSERT", "UPDATE", "READ"} else None
        image = before if op == "DELETE" else after
        key = {"id": image["id"]} if is_row else {}
        sql = None if is_row else "CREATE TABLE t (id INT)"
        rows.append((schema, table, op, key, before, after, sql))
    return rows


def table_of(rows):
    columns = {name: [None] * len(rows) for name in ENVELOPE.names}
    columns |= dict(
        zip(
            ("schema", "table", "op", "key", "before", "after", "sql"),
            map(list, zip(*rows, strict=True)) if rows else [[]] * 7,
            strict=True,
        )
    )
    maps = {"key", "before", "after"}
    return pa.table(
        {
            name: pa.array(
                [None if v is None else list(v.items()) for v in columns[name]]
                if name in maps
                else columns[name],
                ENVELOPE.field(name).type,
            )
            for name in ENVELOPE.names
        }
    )


def written(rule):
    expression, columns = rule
    return expression + (":$pk$" if columns is None else f":{'^'.join(columns)}" if columns else "")


@settings(max_examples=cases(400))
@given(st.lists(st.none() | texts, max_size=20))
def test_hash_codes_are_javas(values):
    found = java_hash(pa.array(["x", *values], pa.utf8())[1:])
    assert found.tolist() == [hash_code(value or "") for value in values]


@given(st.integers(-(2**31), 2**31 - 1) | st.just(-(2**31)), st.integers(1, 1000))
def test_partitions_of_hash_codes_are_javas(hashed, count):
    assert java_modulus(np.array([hashed], np.int32), count).tolist() == [partition_by(hashed, count)]


@settings(max_examples=cases(600))
@given(changes(), topic_rules, partition_rules, st.integers(1, 7), st.integers(0, 3), st.booleans())
def test_routes_are_canals(rows, by_topic, by_partition, count, fixed, database_hash):
    rules = RouteSettings(
        topic="my.topic",
        dynamic_topic=";".join(f"{topic}:{rule}" if topic else rule for topic, rule in by_topic),
        partition=fixed,
        partitions=count,
        partition_hash=",".join(map(written, by_partition)),
        database_hash=database_hash,
    )
    routes = Router(rules).routes(table_of(rows))
    for index, (schema, table, op, key, before, after, _) in enumerate(rows):
        assert routes.topics[routes.topic[index]] == model_topic(by_topic, "my.topic", schema, table)

        def partition(image, where=(schema, table), key=key):
            return model_partition(
                by_partition, fixed, count, *where, image, list(key), database_hash=database_hash
            )

        now = partition(before if op == "DELETE" else after)
        assert routes.partition[index] == now
        moved = op == "UPDATE" and partition(before) != now
        assert routes.moved_from[index] == (partition(before) if moved else -1)
