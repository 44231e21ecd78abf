"""Instances of files: beside a server, whose rows go on when they end, and with one to look tables up."""

from __future__ import annotations

import uuid

from integration.shop import DEADLINE_S, Shop, kill
from support.deadline import await_true

import canal_group
from canal_group.actors.driver.launch import launch
from canal_group.conf.load import build_instance
from canal_group.programs.demo.recorded_shards import recorded_shards
from playground.database.secret_file import secret_file


def test_files_are_a_shard_beside_a_server(shop: Shop, tmp_path):
    """1. All of the files, then the server's rows; 2. the files' shard dies; 3. the rest comes, once."""
    recorded = recorded_shards()[1]
    server = shop.servers[0].address()
    secret_file(tmp_path / "password", server.password)
    settings = build_instance(
        {
            "preset": "file",
            "destination": shop.destination,
            "shards": [
                {
                    "name": "s0",
                    "host": server.host,
                    "port": server.port,
                    "user": server.user,
                    "password_file": str(tmp_path / "password"),
                },
                {"name": "files", "files": f"{recorded.folder}/mysql-bin.*"},
            ],
            "filter": {"white": r"shop_\d+\..*"},
            "cursor": {"kind": "file", "folder": str(tmp_path / "cursors")},
            "coordination": {"kind": "local", "folder": str(tmp_path / "epochs")},
            "gateway": {"port": 0},
            "start": "latest",
        }
    )
    read = {"s0": 0, "files": 0}

    def until(consumer, shard, rows, batch_size=100):
        while read[shard] < rows:
            try:
                batch = consumer.get_without_ack(batch_size, timeout=DEADLINE_S)
                assert batch is not None
                found = batch.envelope().column("shard").to_pylist()
                consumer.ack(batch.batch_id)
            except canal_group.RolledBack:
                continue
            for each in found:
                read[each] += 1

    with launch(settings) as instance:
        options = {"destination": shop.destination, "client_id": "c", "wait_s": DEADLINE_S}
        with canal_group.connect(instance.uri, **options) as consumer:
            until(consumer, "files", recorded.record.rows // 2, batch_size=10)
            kill(consumer.status()["shards"][1]["pid"])
            until(consumer, "files", recorded.record.rows)
            shop.write(0, 5)
            until(consumer, "s0", 5)
            await_true(lambda: consumer.status()["shards"][1]["state"] == "finished", "the files are read")
            group = consumer.status()["group"]
    assert read == {"s0": 5, "files": recorded.record.rows}
    assert group["held_by"] is None
    assert group["shards"][1]["frontier_us"] is None


def test_a_server_says_what_the_files_do_not(one_ray: None, own_mariadb, tmp_path):
    """The columns' names, and which bytes are a UUID: of files whose table maps say neither."""
    server = own_mariadb
    server.execute(
        "SET GLOBAL binlog_row_metadata = NO_LOG",
        "CREATE TABLE app.t (id INT UNSIGNED PRIMARY KEY, u UUID, e ENUM('a', 'b'))",
    )
    server.execute("INSERT INTO app.t VALUES (4000000000, '6ccd780c-baba-4026-9564-5b8c65600000', 'b')")
    where = server.address("root")
    password = secret_file(tmp_path / "password", where.password)
    settings = build_instance(
        {
            "preset": "file",
            "destination": f"files-{uuid.uuid4().hex[:8]}",
            "shards": [
                {
                    "name": "files",
                    "files": f"{server.folder}/data/mysql-bin.*",
                    "lookup": {
                        "host": where.host,
                        "port": where.port,
                        "user": where.user,
                        "password_file": str(password),
                    },
                }
            ],
            "filter": {"white": r"app\..*"},
            "cursor": {"kind": "file", "folder": str(tmp_path / "cursors")},
            "coordination": {"kind": "local", "folder": str(tmp_path / "epochs")},
            "gateway": {"port": 0},
        }
    )
    found = []
    with launch(settings) as instance:
        options = {"destination": settings.destination, "client_id": "c", "wait_s": DEADLINE_S}
        with canal_group.connect(instance.uri, **options) as consumer:
            while not found:
                batch = consumer.get_without_ack(100, timeout=DEADLINE_S)
                assert batch is not None
                found += [row for row in batch.envelope().to_pylist() if row["op"] == "INSERT"]
                consumer.ack(batch.batch_id)
    (row,) = found
    assert dict(row["after"]) == {
        "id": "4000000000",
        "u": "6ccd780c-baba-4026-9564-5b8c65600000",
        "e": "b",
    }
