"""The data source on a real Spark, over real shards: the same ranges again, whatever died in between."""

from __future__ import annotations

import json
import os
import random
import re
import runpy
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from integration.shop import DEADLINE_S, Shop, kill

from actors.launch import Instance

pytestmark = pytest.mark.timeout(180)
CLIENT = "pipeline"
ROOT = Path(__file__).parents[2]


class Died(Exception):  # noqa: N818  what happened to the driver
    """What a test's sink raises to end a query in the middle of a micro-batch."""


class Sink:
    """What every micro-batch held; the same number must be the same rows in the same order."""

    def __init__(self) -> None:
        self.batches: dict[int, list[str]] = {}
        #: how often a micro-batch came again
        self.again = 0
        self.at: Callable[[int], None] = lambda _: None

    def __call__(self, rows: Any, number: int) -> None:
        self.take(number, [json.dumps(row.asDict(), default=str) for row in rows.collect()])
        self.at(number)

    def take(self, number: int, lines: list[str]) -> None:
        if number in self.batches:
            self.again += 1
            assert self.batches[number] == lines, f"micro-batch {number} came again as another one"
        self.batches[number] = lines

    @property
    def rows(self) -> list[dict[str, Any]]:
        return rows_of(self.batches)

    def check(self, shop: Shop) -> None:
        """Applied in order, the rows are what the shards' tables hold; nothing is twice or out of order."""
        sequences = [row["_seq"] for row in self.rows]
        assert sequences == sorted(set(sequences)), "_seq is unique and grows"
        state: dict[int, tuple[str, str]] = {}
        for row in self.rows:
            if row["_change_type"] in ("delete", "update_preimage"):
                before = row["note"], row["price"]
                assert state.pop(row["id"]) == before, "a change is of what was there"
            else:
                assert row["id"] not in state, "nothing is inserted twice"
                state[row["id"]] = row["note"], row["price"]
        assert state == tables(shop)


def rows_of(batches: dict[int, list[str]]) -> list[dict[str, Any]]:
    return [json.loads(line) for _, lines in sorted(batches.items()) for line in lines]


def place(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what names a change, however often and between which others it comes."""
    return tuple(row[name] for name in ("_shard", "_file", "_pos", "_row", "_change_type", "id", "note"))


def changes(lines: list[str]) -> int:
    """Return how many row changes a micro-batch has; an update's two rows are one."""
    return sum(json.loads(line)["_change_type"] != "update_preimage" for line in lines)


def tables(shop: Shop) -> dict[int, tuple[str, str]]:
    found: dict[int, tuple[str, str]] = {}
    for index, server in enumerate(shop.servers):
        connection = server.connect(f"shop_{index}")
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT id, note, price FROM orders")
                found |= {number: (note, str(price)) for number, note, price in cursor.fetchall()}
        finally:
            connection.close()
    return found


def change(shop: Shop) -> None:
    """Write to all shards: inserts, updates, changes of keys, deletes."""
    shop.write_everywhere(12, rows=3)
    for index, server in enumerate(shop.servers):
        server.execute(
            f"UPDATE shop_{index}.orders SET note = CONCAT(note, '!') ORDER BY id DESC LIMIT 5",
            f"UPDATE shop_{index}.orders SET id = id + {1_000_000 * (index + 1)} WHERE id < 1000000 LIMIT 1",
            f"DELETE FROM shop_{index}.orders ORDER BY id LIMIT 4",
        )


def options(shop: Shop, instance: Instance, **changes: Any) -> dict[str, str]:
    chosen = {
        "gateway": instance.uri,
        "destination": shop.destination,
        "client": CLIENT,
        "table": "shop.orders",
        **changes,
    }
    return {name: str(value) for name, value in chosen.items() if value is not None}


def run(spark: Any, chosen: dict[str, str], sink: Any, checkpoint: Path, schema: str | None = None) -> None:
    """Read what is there now; raise what the query fails with."""
    reader = spark.readStream.format("canal_group").options(**chosen)
    frame = (reader if schema is None else reader.schema(schema)).load()
    writing = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    query = writing.trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(DEADLINE_S), "AvailableNow ends"
    finally:
        query.stop()


@contextmanager
def serving(shop: Shop, token: str | None = None, **settings: Any) -> Iterator[Instance]:
    """Run an instance whose gateway has seen a row of the table already."""
    with shop.serve(**settings) as instance:
        with shop.connect(instance, client_id=CLIENT, token=token) as first:
            shop.write_everywhere(1)
            assert first.get_without_ack() is not None
        yield instance


def test_every_micro_batch_comes_again_as_it_was(spark: Any, shop: Shop, tmp_path: Path) -> None:
    """1. The driver dies in the middle of micro-batches, and is started again, with other partitions.
    2. Writers write meanwhile. 3. The order and the rows of each micro-batch stay, and all are the tables.
    """
    chance, sink = random.Random(5), Sink()

    def die_somewhere(number: int) -> None:
        if chance.random() < 0.6:
            raise Died(f"in micro-batch {number}")

    sink.at = die_somewhere
    with serving(shop) as instance:
        change(shop)
        died = 0
        for _ in range(4):
            chosen = options(shop, instance, partitions=chance.randint(1, 3), maxRowsPerBatch=30)
            writer = threading.Thread(target=change, args=(shop,))
            writer.start()
            try:
                run(spark, chosen, sink, tmp_path / "checkpoint")
            except Exception as error:  # noqa: BLE001  Spark's, with ours in its text
                assert "Died" in str(error)  # noqa: PT017
                died += 1
            writer.join()
        sink.at = lambda _: None
        run(spark, options(shop, instance, partitions=2, maxRowsPerBatch=30), sink, tmp_path / "checkpoint")
        assert died
        assert sink.again >= died
        sink.check(shop)
        assert max(map(changes, sink.batches.values())) <= 30


def test_what_a_killed_driver_had_planned_is_read_by_the_next_one(
    spark: Any, shop: Shop, tmp_path: Path
) -> None:
    """1. A driver, with its JVM, is killed between a micro-batch's plan and its commit, at the second one.
    2. Another one goes on from the checkpoint: it reads the same micro-batch, and no row twice or never.
    """
    sink, folder = Sink(), tmp_path / "killed"
    folder.mkdir()
    with serving(shop) as instance:
        change(shop)
        chosen = options(shop, instance, maxRowsPerBatch=25)
        settings = {
            "options": chosen,
            "checkpoint": str(tmp_path / "checkpoint"),
            "folder": str(folder),
            "kill_at": 1,
        }
        ended = subprocess.run(
            [sys.executable, str(Path(__file__).parent / "spark_driver.py"), json.dumps(settings)],
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
            start_new_session=True,
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert ended.returncode == -9, ended.stderr.decode()
        for number in (0, 1):
            sink.take(number, (folder / f"{number}.jsonl").read_text().splitlines())
        change(shop)
        run(spark, chosen, sink, tmp_path / "checkpoint")
        assert sink.again == 1
        sink.check(shop)


def test_a_query_goes_on_when_gateway_shard_and_group_are_killed(
    spark: Any, shop: Shop, tmp_path: Path
) -> None:
    """1. Between micro-batches gateway, shard and group are killed. 2. The query waits, and goes on.
    3. Another query begins where the first one did: it has the same rows, read again from the sources.
    """
    sink, other = Sink(), Sink()
    with serving(shop) as instance:
        change(shop)
        change(shop)

        with shop.connect(instance, client_id="beside") as beside:
            status = beside.status()
        victims = {1: status["gateway"], 2: status["shards"][0], 3: status["group"]}
        sink.at = lambda number: kill(victims[number]["pid"]) if number in victims else None
        chosen = options(shop, instance, maxRowsPerBatch=30, partitions=2)
        run(spark, chosen, sink, tmp_path / "checkpoint")
        assert len(sink.batches) > 4
        sink.check(shop)
        first = json.loads((tmp_path / "checkpoint/offsets/0").read_text().splitlines()[-1])
        chosen |= {"startingPosition": json.dumps(first)}
        run(spark, chosen, other, tmp_path / "again")
        # It cuts its own micro-batches, which says what stands in which order; equal keys are many here.
        rest = {number: lines for number, lines in sink.batches.items() if number}
        assert sorted(map(place, other.rows)) == sorted(place(row) for row in rows_of(rest))
        other.batches = {-1: sink.batches[0], **other.batches}
        other.check(shop)


def test_a_second_query_is_refused_by_name(spark: Any, shop: Shop, tmp_path: Path) -> None:
    with (
        serving(shop) as instance,
        shop.connect(instance, client_id=CLIENT) as holder,
        pytest.raises(Exception, match=f"Client {CLIENT} is held by {holder.holder}"),
    ):
        run(spark, options(shop, instance, waitSeconds=0.5), Sink(), tmp_path / "checkpoint")


def test_a_wrong_token_and_wrong_options_are_told_in_a_sentence(
    spark: Any, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY_TOKEN", "right")
    with serving(shop, "right", gateway={"port": 0, "token_env": "GATEWAY_TOKEN"}) as instance:
        for wrong, sentence in (
            ({"token": "wrong"}, "its token is missing or wrong"),
            ({"token": "right", "table": "shop.nothing"}, "has a table that is called shop.nothing"),
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


def test_other_formats_have_all_tables(spark: Any, shop: Shop, tmp_path: Path) -> None:
    with serving(shop) as instance:
        shop.servers[0].execute(
            "UPDATE shop_0.orders SET note = 'x', price = NULL", "DELETE FROM shop_0.orders"
        )
        found: dict[str, list[Any]] = {}
        for shape in ("debezium", "canal"):
            chosen = options(shop, instance, table=None, format=shape, client=shape, filter=r"shop\..*")
            rows: list[Any] = found.setdefault(shape, [])
            run(
                spark,
                chosen | {"startingPosition": _oldest(shop, instance)},
                lambda frame, _, rows=rows: rows.extend(frame.collect()),
                tmp_path / shape,
            )
        number = shop.written["s0"][0]
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


def _oldest(shop: Shop, instance: Instance) -> str:
    """Return where the first client stands, which has acknowledged nothing."""
    with shop.connect(instance, client_id=CLIENT) as consumer:
        return consumer.cursor.to_json()


def test_the_readmes_query_writes_parquet(
    spark: Any, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (snippet,) = re.findall(
        r"<!-- a test runs this on Spark -->\n```python\n(.*?)```",
        (ROOT / "README.md").read_text(),
        re.DOTALL,
    )
    assert len([line for line in snippet.splitlines() if line]) <= 10
    with serving(shop) as instance:
        chosen = options(shop, instance)
        for name, value in (
            ("gateway", "grpc://127.0.0.1:11113"),
            ("destination", "shop"),
            ("client", "revenue"),
        ):
            snippet = snippet.replace(f'"{value}"', repr(chosen[name]))
        for folder in ("orders", "checkpoint"):
            snippet = snippet.replace(f'"{folder}"', repr(str(tmp_path / folder)))
        exec(snippet, {})
    assert spark.read.parquet(str(tmp_path / "orders")).count() == shop.rows


def test_the_mirror_is_the_tables_also_where_a_micro_batch_is_applied_again(
    spark: Any, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. It mirrors what is there, twice. 2. It forgets the last time, and does it again. 3. And goes on."""
    target = shop.servers[0]
    target.execute(
        "DROP DATABASE IF EXISTS replica",
        "CREATE DATABASE replica",
        "CREATE TABLE replica.orders (id BIGINT PRIMARY KEY, note VARCHAR(200), price DECIMAL(10,2))",
        f"GRANT ALL ON replica.* TO {target.address().user}@127.0.0.1",
    )
    address = target.address()
    monkeypatch.setenv("MIRROR_PASSWORD", address.password)
    where = f"mysql://{address.user}@{address.host}:{address.port}/replica.orders"
    with serving(shop) as instance:
        arguments = [
            "--client",
            CLIENT,
            "--table",
            "shop.orders",
            "--keys",
            "id",
            "--target",
            where,
            "--once",
        ]
        arguments += ["--checkpoint", str(tmp_path / "checkpoint")]
        for round_ in range(4):
            if round_ != 2:
                change(shop)
            else:
                newest = max(
                    (tmp_path / "checkpoint/commits").glob("[0-9]*"), key=lambda path: int(path.name)
                )
                newest.unlink()
                newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
            example("mirror.py", shop, instance, *arguments)
            rows = target.execute("SELECT id, note, price FROM replica.orders")
            assert {number: (note, str(price)) for number, note, price in rows} == tables(shop)


def test_revenue_is_that_of_the_tables(
    spark: Any, shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(shop) as instance:
        change(shop)
        arguments = ["--client", CLIENT, "--table", "shop.orders", "--sum", "price"]
        example("revenue.py", shop, instance, *arguments, "--checkpoint", str(tmp_path / "c"), "--once")
        minutes = {line.split("  ")[0]: line.split() for line in capsys.readouterr().out.splitlines()}
        total = sum(Decimal(words[2]) for words in minutes.values())
        assert total == sum(Decimal(price) for _, price in tables(shop).values())
        assert {words[4] for words in minutes.values()} <= {"1", "2"}


def example(name: str, shop: Shop, instance: Instance, *arguments: str) -> None:
    """Run an example in this process, on the tests' Spark."""
    before = sys.argv
    sys.argv = [name, "--gateway", instance.uri, "--destination", shop.destination, *arguments]
    try:
        runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
    finally:
        sys.argv = before
