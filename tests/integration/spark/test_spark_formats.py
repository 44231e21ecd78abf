"""What a query may ask for, what its rows look like, and what is refused; on a real Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from integration.shared_servers import SharedShop
from integration.shop import Shop
from integration.spark_sink import CLIENT, Sink, options, run, serving, show_a_row

pytestmark = pytest.mark.timeout(180)


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
                spark.readStream.format("canal_group").options(**options(shop, instance, **wrong)).load()
        frame = (
            spark.readStream.format("canal_group").options(**options(shop, instance, token="right")).load()
        )
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
