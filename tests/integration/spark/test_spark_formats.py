"""What a query may ask for, what its rows look like, and what is refused; on a real Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from integration.shared_servers import SharedShop
from integration.shop import Shop
from integration.spark_sink import CLIENT, Sink, options, run, serving, show_a_row
from pyspark.sql.types import StringType, StructField, StructType
from support.soak import patient

from canal_group.merge.errors import SchemaMismatch
from canal_group.spark import read_stream, run_evolving
from canal_group.spark.shapes import CHANGE

pytestmark = pytest.mark.timeout(patient(180))


def test_a_second_query_is_refused_by_name(spark: Any, served: SharedShop, tmp_path: Path) -> None:
    show_a_row(served, served.instance)
    with (
        served.connect(client_id=CLIENT) as holder,
        pytest.raises(Exception, match=f"Client {CLIENT} is held by {holder.holder}"),
    ):
        run(spark, options(served, served.instance, waitSeconds=0.5), Sink(), tmp_path / "checkpoint")


def test_a_wrong_token_and_wrong_options_are_told_in_a_sentence(
    spark: Any, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY_TOKEN", "right")
    with serving(shop, "right", gateway={"port": 0, "token_env": "GATEWAY_TOKEN"}) as instance:
        for wrong, sentence in (
            ({"token": "wrong"}, "token is missing or wrong"),
            ({"token": "right", "table": "shop.nothing"}, "has a table shop.nothing"),
            ({"token": "right", "maxRows": 5}, "canal_group has no option maxrows"),
        ):
            with pytest.raises(Exception, match=sentence):
                read_stream(spark, options(shop, instance, **wrong))
        right = options(shop, instance, token="right")
        for frame in (
            spark.readStream.format("canal_group").options(**right).load(),
            read_stream(spark, right),
        ):
            assert "right" not in frame._jdf.queryExecution().toString()


def test_a_new_column_ends_the_query_and_is_there_after_a_restart(
    spark: Any, shop: Shop, tmp_path: Path
) -> None:
    sink = Sink()
    with serving(shop) as instance:
        chosen = options(shop, instance)
        frame = spark.readStream.format("canal_group").options(**chosen).load()
        for index, server in enumerate(shop.servers):
            server.execute(
                f"ALTER TABLE shop_{index}.orders ADD COLUMN colour VARCHAR(10)",
                f"INSERT INTO shop_{index}.orders VALUES ({900 + index}, 'new', 1, 'red')",
            )
        with pytest.raises(
            Exception, match=r"shop\.orders has a column colour that the query's schema does not"
        ):
            run(spark, chosen, sink, tmp_path / "checkpoint", schema=frame.schema)
        run(spark, chosen, sink, tmp_path / "checkpoint")
        assert {row["id"]: row["colour"] for row in sink.rows} == {0: None, 1: None, 900: "red", 901: "red"}


@pytest.mark.soak
def test_an_evolving_query_continues_over_columns_added_by_shard(
    spark: Any, served: SharedShop, tmp_path: Path
) -> None:
    """1. A query's schema is known. 2. One shard's table gains a column, and later the other's, and then a
    second one. 3. The query is started again twice, between micro-batches, and has every row once.
    """
    show_a_row(served, served.instance)
    sink, schemas = Sink(), list[list[str]]()
    numbers: list[int] = []
    expected: dict[int, tuple[str | None, int | None]] = {
        ids[-1]: (None, None) for ids in served.written.values()
    }

    def take(rows: Any, number: int) -> None:
        numbers.append(number)
        sink(rows, number)

    def insert(shard: int, number: int, colour: str | None, size: int | None) -> None:
        values = [number, "n", 1, *([] if colour is None else [colour]), *([] if size is None else [size])]
        written = ", ".join(repr(each) for each in values)
        served.servers[shard].execute(f"INSERT INTO shop_{shard}.orders VALUES ({written})")
        expected[number] = colour, size

    def alter(shard: int, column: str) -> None:
        served.servers[shard].execute(f"ALTER TABLE shop_{shard}.orders ADD COLUMN {column}")

    def start(frame: Any) -> Any:
        schemas.append(frame.schema.names[: -len(CHANGE)])
        if len(schemas) == 1:
            insert(0, 901, None, None)
            alter(0, "colour VARCHAR(10)")
            insert(0, 902, "red", None)
            insert(1, 903, None, None)
            alter(1, "colour VARCHAR(10)")
            insert(1, 904, "blue", None)
        elif len(schemas) == 2:
            alter(1, "size INT")
            insert(0, 905, "grey", None)
            insert(1, 906, "pink", 7)
        writing = frame.writeStream.foreachBatch(take).option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        )
        return writing.trigger(availableNow=True).start()

    run_evolving(spark, options(served, served.instance, maxRowsPerBatch=2), start)
    before = ["id", "note", "price"]
    assert schemas == [before, [*before, "colour"], [*before, "colour", "size"]]
    assert sorted(row["id"] for row in sink.rows) == sorted(expected), "every row is there once"
    assert {row["id"]: (row.get("colour"), row.get("size")) for row in sink.rows} == expected
    sequences = [row["_seq"] for row in sink.rows]
    assert sequences == sorted(set(sequences))
    assert numbers == sorted(set(numbers)), "no micro-batch was begun and not finished"


@pytest.mark.soak
def test_a_column_dropped_before_it_was_read_is_named_and_can_be_given(
    spark: Any, served: SharedShop, tmp_path: Path
) -> None:
    """1. A column is added, written to and dropped. 2. No schema of the sources has it: the query ends with a
    sentence and is not started again. 3. With the column as an argument it goes on, and no row is missing.
    """
    show_a_row(served, served.instance)
    sink, starts = Sink(), list[int]()

    def start(frame: Any) -> Any:
        if not starts:
            served.servers[0].execute(
                "ALTER TABLE shop_0.orders ADD COLUMN colour VARCHAR(10)",
                "INSERT INTO shop_0.orders VALUES (901, 'n', 1, 'red')",
                "ALTER TABLE shop_0.orders DROP COLUMN colour",
                "INSERT INTO shop_0.orders VALUES (902, 'n', 1)",
            )
        starts.append(len(starts))
        writing = frame.writeStream.foreachBatch(sink).option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        )
        return writing.trigger(availableNow=True).start()

    chosen = options(served, served.instance)
    with pytest.raises(
        SchemaMismatch, match=r"Rows of shop\.orders have a column that neither the query nor"
    ):
        run_evolving(spark, chosen, start)
    assert starts == [0]
    run_evolving(spark, chosen, start, schema=StructType([StructField("colour", StringType())]))
    first = {ids[-1]: None for ids in served.written.values()}
    assert {row["id"]: row["colour"] for row in sink.rows} == first | {901: "red", 902: None}
    assert len(sink.rows) == 4


def test_other_formats_have_all_tables(spark: Any, served: SharedShop, tmp_path: Path) -> None:
    show_a_row(served, served.instance)
    served.servers[0].execute(
        "UPDATE shop_0.orders SET note = 'x', price = NULL", "DELETE FROM shop_0.orders"
    )
    with served.connect(client_id=CLIENT) as first:
        begin = first.cursor.to_json()
    found: dict[str, list[Any]] = {}
    for shape in ("debezium", "canal"):
        chosen = options(served, served.instance, table=None, format=shape, client=shape, filter=r"shop\..*")
        rows: list[Any] = found.setdefault(shape, [])
        run(
            spark,
            chosen | {"startingPosition": begin},
            lambda frame, _, rows=rows: rows.extend(frame.collect()),
            tmp_path / shape,
        )
    number = served.written["s0"][0]
    first, *_, update, delete = [row for row in found["debezium"] if row.source.name == "s0"]
    assert (first.op, first.before, first.after["note"]) == ("c", None, f"note {number}")
    assert (update.op, update.before["note"], update.after["note"]) == ("u", f"note {number}", "x")
    assert (delete.op, delete.before["note"], delete.after) == ("d", "x", None)
    update, delete = [row for row in found["canal"] if row.type != "INSERT"][-2:]
    assert (update.old, update.data[0]["note"]) == (
        [{"note": f"note {number}", "price": f"{number / 4:.2f}"}],
        "x",
    )
    assert (delete.pkNames, delete.data[0]["note"], delete.old, delete.isDdl) == (
        ["id"],
        "x",
        None,
        False,
    )


def test_a_versioned_table_with_a_hashed_key_is_what_select_shows(
    spark: Any, served: SharedShop, tmp_path: Path
) -> None:
    show_a_row(served, served.instance)
    with served.connect(client_id=CLIENT) as first:
        begin = first.cursor.to_json()
    for index, server in enumerate(served.servers):
        table = f"shop_{index}.kept"
        server.execute(
            f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT, t TEXT UNIQUE) WITH SYSTEM VERSIONING",
            f"INSERT INTO {table} VALUES ({index}1, 1, 'x'), ({index}2, 2, 'y'), ({index}3, 3, NULL)",
            f"UPDATE {table} SET a = a + 10, t = CONCAT(t, '!')",
            f"DELETE FROM {table} WHERE id = {index}1",
            f"REPLACE INTO {table} VALUES ({index}2, 5, 'z')",
        )
    sink = Sink()
    chosen = options(served, served.instance, table="shop.kept", client="kept", startingPosition=begin)
    run(spark, chosen, sink, tmp_path / "checkpoint")
    mirror: dict[int, tuple[int, str]] = {}
    for row in sink.rows:
        assert list(row)[: -len(CHANGE)] == ["id", "a", "t"]
        if row["_change_type"] in ("delete", "update_preimage"):
            assert mirror.pop(row["id"]) == (row["a"], row["t"]), "a change is of what was there"
        else:
            assert row["id"] not in mirror, "nothing is inserted twice"
            mirror[row["id"]] = row["a"], row["t"]
    select = [server.execute(f"SELECT * FROM shop_{i}.kept") for i, server in enumerate(served.servers)]
    assert mirror == {number: (a, t) for rows in select for number, a, t in rows}
    chosen = options(
        served, served.instance, table=None, format="canal", client="canal", filter=r"shop\.kept"
    )
    messages: list[Any] = []
    run(
        spark,
        chosen | {"startingPosition": begin},
        lambda frame, _: messages.extend(frame.collect()),
        tmp_path / "canal",
    )
    changed = [message for message in messages if not message.isDdl]
    assert len(changed) == 2 * 9, "three inserts, three updates, a delete, a replaced row"
    for message in changed:
        assert (message.pkNames, set(message.data[0])) == (["id"], {"id", "a", "t"})
