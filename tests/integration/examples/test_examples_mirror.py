"""examples/mirror.py: replicas in Parquet and in MySQL are the shards' tables, whatever died in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import pymysql
import pytest
from integration.shop import DEADLINE_S, Shop
from integration.spark_examples import (
    definitions,
    example,
    line_of,
    tables,
)
from integration.spark_fixtures import JAVA_OPTIONS
from integration.spark_sink import CLIENT, ROOT, change, serving
from support.security.certificates import Authority
from support.security.rogue_server import rogue
from support.soak import patient

from canal_group.actors.driver.instance import Instance

pytestmark = pytest.mark.timeout(patient(180))


def arguments(shop: Shop, instance: Instance, folder: Path, target: object) -> list[object]:
    """Return arguments of a mirror of the orders."""
    where = ["--gateway", instance.uri, "--destination", shop.destination, "--client", CLIENT]
    what = ["--table", "shop.orders", "--keys", "id", "--target", target]
    return [*where, *what, "--checkpoint", folder / "checkpoint", "--option", "maxRowsPerBatch=60"]


def replica(spark: Any, folder: Path) -> list[tuple[Any, ...]]:
    found = definitions("mirror.py")["ParquetTable"](folder, ["id"]).read(spark)
    return sorted(tuple(row) for row in found.select("id", "note", "price").collect())


def forget_last_commit(checkpoint: Path) -> int:
    """Let a query believe that it died before its last micro-batch was done; return that one's number."""
    newest = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    return int(newest.name)


@pytest.mark.soak
def test_a_killed_parquet_mirror_continues(
    spark: Any, shop: Shop, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """1. The documented `spark-submit` mirrors while shards are written to, and is killed in the middle.
    2. The replica is one that can be read. 3. More is written; started again, it is the tables.
    4. A micro-batch that is applied twice changes nothing. 5. A checkpoint that begins anew is refused.
    6. The progress of it all is drawn.
    """
    target, progress = tmp_path / "replica", tmp_path / "progress.jsonl"
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/spark-defaults.conf").write_text(
        "spark.ui.enabled false\nspark.driver.bindAddress 127.0.0.1\nspark.sql.shuffle.partitions 2\n"
        f"spark.driver.extraJavaOptions {JAVA_OPTIONS}\n"
    )
    (tmp_path / "conf/log4j2.properties").write_text("rootLogger.level = off\n")
    with serving(shop) as instance:
        change(shop)
        command = line_of(
            "spark-submit",
            {
                "spark-submit": str(Path(sys.executable).with_name("spark-submit")),
                "examples/mirror.py": str(ROOT / "examples/mirror.py"),
                "grpc://127.0.0.1:11113": instance.uri,
                "shop": shop.destination,
                "mirror": CLIENT,
                "replica/orders": str(target),
                "checkpoints/orders": str(tmp_path / "checkpoint"),
            },
        )
        submitted = subprocess.Popen(
            [*command, "--option", "maxRowsPerBatch=60"],
            env={
                **os.environ,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_CONF_DIR": str(tmp_path / "conf"),
                "PYSPARK_PYTHON": sys.executable,
            },
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        deadline = threading.Timer(2 * DEADLINE_S, os.killpg, (submitted.pid, signal.SIGKILL))
        deadline.start()
        said = []
        try:
            assert submitted.stdout is not None
            for line in submitted.stdout:
                said.append(line)
                if line.startswith("batch"):
                    change(shop)
                if line.startswith("batch 1:"):
                    break
        finally:
            os.killpg(submitted.pid, signal.SIGKILL)
            deadline.cancel()
            submitted.stdout.close()
        assert submitted.wait() == -signal.SIGKILL, "".join(said)
        assert replica(spark, target), "readers have a whole table at any time"
        change(shop)
        mirror = [*arguments(shop, instance, tmp_path, target), "--once", "--progress", progress]
        example("mirror.py", *mirror)
        assert replica(spark, target) == tables(shop)
        again = forget_last_commit(tmp_path / "checkpoint")
        change(shop)
        capfd.readouterr()
        example("mirror.py", *mirror)
        assert capfd.readouterr().out.startswith(f"batch {again}:")
        assert replica(spark, target) == tables(shop)
        # What no manifest names is gone: the newest, the one before, and the folders of the two.
        assert len(list(target.glob("manifest-*.json"))) == 2
    begun_anew = definitions("mirror.py")["ParquetTable"](target, ["id"])
    with pytest.raises(ValueError, match="Use the checkpoint that belongs to the folder, or an empty folder"):
        begun_anew.apply(None, 0)
    check_picture(progress, tmp_path / "progress.png", capfd)


def check_picture(progress: Path, picture: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Draw what the mirror wrote down of its progress; every shard is in it."""
    capfd.readouterr()
    example("plot.py", progress, picture)
    found = [json.loads(line) for line in progress.read_text().splitlines()]
    rows = sum(each["numInputRows"] for each in found)
    assert capfd.readouterr().out.endswith(f"micro-batches, {rows} rows\n")
    assert picture.read_bytes().startswith(b"\x89PNG")
    batches = [definitions("plot.py")["MicroBatch"].of(each) for each in found]
    assert {shard for each in batches for shard in each.lag_s} == {"s0", "s1"}
    assert all(lag_s > 0 for each in batches for lag_s in each.lag_s.values()), "nothing is from tomorrow"


@pytest.mark.soak
def test_a_mysql_mirror_has_composite_keys_times_bytes_and_nulls(
    spark: Any, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. It mirrors what is there. 2. Keys change, rows come back, a micro-batch is applied twice."""
    columns = (
        "(shop INT, line INT, at TIMESTAMP(6) NULL, due DATETIME NULL, code VARBINARY(9),"
        " PRIMARY KEY (shop, line))"
    )
    target = shop.servers[0]
    address = target.address()
    target.execute(
        "DROP DATABASE IF EXISTS replica",
        "CREATE DATABASE replica",
        f"CREATE TABLE replica.items {columns}",
        f"GRANT ALL ON replica.* TO {address.user}@127.0.0.1",
    )
    monkeypatch.setenv("MIRROR_PASSWORD", address.password)
    for index, server in enumerate(shop.servers):
        server.execute(f"CREATE TABLE shop_{index}.items {columns}")
    where = f"mysql://{address.user}@{address.host}:{address.port}/replica.items"
    with serving(shop) as instance:
        mirror = [*arguments(shop, instance, tmp_path, where), "--once"]
        mirror[mirror.index("shop.orders")], mirror[mirror.index("id")] = "shop.items", "shop,line"

        def check() -> None:
            example("mirror.py", *mirror)
            names = "shop, line, at, due, code"
            found = target.execute(f"SELECT {names} FROM replica.items ORDER BY shop, line")
            assert [tuple(row) for row in found] == tables(shop, names, "items")

        for index, server in enumerate(shop.servers):
            server.execute(
                f"INSERT INTO shop_{index}.items VALUES ({index}, 2, NULL, NULL, NULL),"
                f" ({index}, 1, '2026-03-01 12:00:00.25', '2026-03-01 12:00:00', x'00FF27')"
            )
        check()
        for index, server in enumerate(shop.servers):
            server.execute(
                f"UPDATE shop_{index}.items SET line = 3 WHERE line = 1",
                f"DELETE FROM shop_{index}.items WHERE line = 2",
                f"INSERT INTO shop_{index}.items VALUES ({index}, 4, NOW(6), NOW(), 'new')",
                f"INSERT INTO shop_{index}.items VALUES ({index}, 2, NULL, NULL, 'x')",
            )
        forget_last_commit(tmp_path / "checkpoint")
        check()
        (moved,) = target.execute("SELECT at, code FROM replica.items WHERE shop = 1 AND line = 3")
        assert tuple(moved) == (datetime(2026, 3, 1, 12, 0, 0, 250_000), b"\0\xff'")  # noqa: DTZ001  as it was written


@pytest.mark.parametrize("pair", ["none", "another's", "another host's"])
def test_a_server_that_does_not_prove_to_be_the_target_learns_no_password(pair: str, tmp_path: Path):
    (tmp_path / "other").mkdir()
    authority = Authority(tmp_path)
    pairs = {
        "none": None,
        "another's": Authority(tmp_path / "other").pair("server"),
        "another host's": authority.pair("elsewhere", "127.0.0.9"),
    }
    with rogue(lambda wire: wire.switch("mysql_clear_password", b""), pair=pairs[pair]) as server:
        where = f"mysql://mirror@127.0.0.1:{server.port}/shop.orders"
        table = definitions("mirror.py")["MySqlTable"](where, "s3cret", ["id"], str(authority.ca))
        with pytest.raises(pymysql.OperationalError):
            table._write(iter([]))
        assert not server.knows("s3cret")
        assert not server.knows("mirror"), "nor the account"


def test_a_server_that_does_is_written_to_by_tls(tmp_path: Path):
    authority = Authority(tmp_path)
    with rogue(pair=authority.pair("server")) as server:
        where = f"mysql://mirror@127.0.0.1:{server.port}/shop.orders"
        definitions("mirror.py")["MySqlTable"](where, "s3cret", ["id"], str(authority.ca))._write(iter([]))
        assert server.encrypted


def test_names_with_any_characters_are_quoted_as_names(two_servers: list[Any]):
    """A source may have columns that are called anything, and its schema becomes statements."""
    from pyspark.sql import Row

    evil = "x`) VALUES (1); DROP TABLE kept; -- %s"
    server = two_servers[0]
    name = evil.replace("`", "``")
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE `mir``ror`")
        cursor.execute("USE `mir``ror`")
        cursor.execute(f"CREATE TABLE `t``a%s` (`id``%` INT PRIMARY KEY, `{name}` TEXT)")
        host = f"mysql://root@127.0.0.1:{server.address().port}/mir%60ror.t%60a%25s"
        table = definitions("mirror.py")["MySqlTable"](host, server.password, ["id`%"])
        row = Row("id`%", evil, "_gone")
        table._write(iter([row(1, "one", False), row(2, "two", False)]))
        table._write(iter([row(1, "1", False), row(2, None, True)]))
        cursor.execute("SELECT * FROM `t``a%s`")
        assert cursor.fetchall() == ((1, "1"),)
        cursor.execute("DROP DATABASE `mir``ror`")
