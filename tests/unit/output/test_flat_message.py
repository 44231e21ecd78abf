"""Flat messages, Debezium's envelopes and files of lines say what the rows say."""

from __future__ import annotations

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from canal_group.conf.relay.relay_settings import RouteSettings
from canal_group.merge.rows.envelope import DEFINITION, ENVELOPE, MAP
from canal_group.programs.output.formats import format_of
from canal_group.programs.output.routing.router import Router
from canal_group.shapes.changed import changed
from canal_group.shapes.flat_message import flat_messages
from canal_group.shapes.maps import tidied

#: as the gateway writes it: name, type, JDBC type, that of large values, and what large is
COLUMNS = [
    ["id", "bigint unsigned", -5, 3, 2**63 - 1],
    ["note", 'enum("a")', 1, 0, None],
    ["größe", "text", 2005, 0, None],
]
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ['"', "\\", "\n\t\x00\x1f", "日本", ""]
)
NUMBERS = st.integers(0, 2**64 - 1).map(str)
IMAGES = st.fixed_dictionaries({"id": NUMBERS, "note": st.none() | TEXTS, "größe": st.none() | TEXTS})


@st.composite
def changes(draw):
    rows = []
    for index in range(draw(st.integers(1, 6))):
        op = draw(st.sampled_from(["INSERT", "UPDATE", "DELETE", "READ", "ALTER"]))
        is_row = op != "ALTER"
        before = draw(IMAGES) if op in {"UPDATE", "DELETE"} else None
        after = draw(IMAGES) if op in {"INSERT", "UPDATE", "READ"} else None
        if op == "UPDATE" and draw(st.booleans()):
            after = {**before, "note": after["note"]}
        image = before if op == "DELETE" else after
        rows.append(
            {
                "seq": 100 + index,
                "shard": "s0",
                "schema": "shop",
                "table": "orders",
                "op": op,
                "commit_us": 1_700_000_000_123_456 + index,
                "key_us": 1_700_000_000_123_456 + index,
                "late": False,
                "gtid": draw(st.sampled_from(["", "0-1-7"])),
                "file": "mysql-bin.000001",
                "pos": 4,
                "row": index,
                "key": list({"id": image["id"]}.items()) if is_row and draw(st.booleans()) else [],
                "before": None if before is None else list(before.items()),
                "after": None if after is None else list(after.items()),
                "sql": None if is_row else draw(TEXTS),
                "ddl_schema": None if is_row else "app",
                "tables": None
                if is_row
                else [dict.fromkeys(("schema", "table", "role"), "") | {"kept": True}],
                "definition": json.dumps(COLUMNS, ensure_ascii=False) if is_row else None,
            }
        )
    return rows


def table_of(rows):
    schema = ENVELOPE.append(pa.field("definition", pa.utf8()))
    table = pa.table({name: [row[name] for row in rows] for name in schema.names}, schema=schema)
    definitions = table.column("definition").dictionary_encode()
    return tidied(table.set_column(table.schema.get_field_index("definition"), DEFINITION, definitions))


def model(row, made_ms):
    """The message of one row, made member by member."""
    is_row = row["sql"] is None
    before, after = (None if row[side] is None else dict(row[side]) for side in ("before", "after"))
    image = before if row["op"] == "DELETE" else after
    old = None
    if row["op"] == "UPDATE":
        old = [{name: value for name, value in before.items() if value != after[name]}]
    wide = is_row and int(image["id"]) > 2**63 - 1
    return {
        "data": [image] if is_row else None,
        "database": "shop",
        "es": row["commit_us"] // 1000,
        "gtid": row["gtid"],
        "id": row["seq"],
        "isDdl": not is_row,
        "mysqlType": {name: kind for name, kind, *_ in COLUMNS} if is_row else None,
        "old": old,
        "pkNames": [name for name, _ in row["key"]] or None,
        "sql": row["sql"] or "",
        "sqlType": {"id": 3 if wide else -5, "note": 1, "größe": 2005} if is_row else None,
        "table": "orders",
        "ts": made_ms,
        "type": "INSERT" if row["op"] == "READ" else row["op"],
    }


@given(changes())
def test_a_flat_message_says_what_its_row_says(rows):
    expected = [model(row, 17) for row in rows]
    assert all(list(each) == sorted(each) for each in expected)
    dumped = [json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in expected]
    assert flat_messages(table_of(rows), 17).to_pylist() == dumped


def test_each_column_has_the_type_of_its_own_value():
    names = [f"c{index}" for index in range(70)]
    columns = [[name, "bigint unsigned", -5, 3, 2**63 - 1] for name in names]
    # Of each row another column is above what a signed number holds, in the last two none and all.
    wide = [{name} for name in names] + [set(), set(names)]
    base = dict.fromkeys(ENVELOPE.names) | {"seq": 1, "op": "INSERT", "commit_us": 0, "key": []}
    rows = [
        base
        | {"after": [(name, str(2**63 - (name not in large))) for name in names]}
        | {"definition": json.dumps(columns)}
        for large in wide
    ]
    messages = [json.loads(text) for text in flat_messages(table_of(rows), 17).to_pylist()]
    assert [{name for name, kind in each["sqlType"].items() if kind == 3} for each in messages] == wide


@given(changes())
def test_a_debezium_message_says_what_its_row_says(rows):
    table = table_of(rows)
    messages = format_of("debezium").make(table, Router(RouteSettings(topic="t")).routes(table))
    changed_rows = [row for row in rows if row["sql"] is None]
    letters = {"INSERT": "c", "UPDATE": "u", "DELETE": "d", "READ": "r"}
    values = [json.loads(text) for text in messages.value.to_pylist()]
    assert [each["op"] for each in values] == [letters[row["op"]] for row in changed_rows]
    snapshots = ["incremental" if row["op"] == "READ" else "false" for row in changed_rows]
    assert [each["source"]["snapshot"] for each in values] == snapshots
    for side in ("before", "after"):
        assert [each[side] for each in values] == [
            None if row[side] is None else dict(row[side]) for row in changed_rows
        ]
    assert [each["source"]["sequence"] for each in values] == [row["seq"] for row in changed_rows]
    keys = [None if key is None else json.loads(key) for key in messages.key.to_pylist()]
    assert keys == [dict(row["key"]) or None for row in changed_rows], "nothing to compact by without a key"
    assert messages.headers["seq"].to_pylist() == [str(row["seq"]) for row in changed_rows]


@given(changes())
def test_streams_of_arrow_hold_the_rows_of_each_partition_in_order(rows):
    table = table_of(rows)
    router = Router(RouteSettings(topic="t", partitions=3, partition_hash=".*:$pk$"))
    routes = router.routes(table)
    messages = format_of("arrow").make(table, routes)
    by_partition = {}
    for partition, value in zip(messages.partition.tolist(), messages.value.to_pylist(), strict=True):
        by_partition.setdefault(partition, []).extend(pa.ipc.open_stream(value).read_all()["seq"].to_pylist())
    expected = {}
    for partition, row in zip(routes.partition.tolist(), rows, strict=True):
        expected.setdefault(partition, []).append(row["seq"])
    assert by_partition == expected


def test_old_has_its_rows_columns_and_those_missing_in_the_other_image():
    before = pa.array([[("a", "1"), ("b", "x")], [("a", "1"), ("b", "x")], [("a", None)], [("a", "1")]], MAP)
    after = pa.array([[("a", "2"), ("b", "x")], [("a", "1"), ("b", "y")], [("a", None)], []], MAP)
    assert changed(before, after).to_pylist() == [[("a", "1")], [("b", "x")], [], [("a", "1")]]
