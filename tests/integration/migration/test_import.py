"""Two of canal's instances become one group: imported, checked, served, and read from canal's cursor on."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from integration.canal_clients import RawClient, inserted_ids
from integration.shop import Reading, Shop
from typer.testing import CliRunner
from unit.migration.canal_files import Conf

from canal_group.actors.driver.launch import launch
from canal_group.canal_protocol import entry_pb2
from canal_group.conf.load import load_instance
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.operator import Operator, calls
from canal_group.programs.command.cli import app
from playground.database.server_process import DatabaseServer

#: transactions of each shard before the one that canal's cursor is inside
BEFORE = 2


@pytest.fixture
def conf(shop: Shop, tmp_path: Path) -> Conf:
    """canal's files for the shop, two instances, with cursors in ZooKeeper."""
    made = Conf(tmp_path / "conf")
    made.folder.mkdir()
    made.server(
        zkServers=shop.zookeeper_hosts,
        destinations="s0,s1",
        instance__global__spring__xml="classpath:spring/default-instance.xml",
        instance__filter__dml__delete="true",
        instance__filter__transaction__entry="true",
    )
    for index, server in enumerate(shop.servers):
        address = server.address()
        made.instance(
            f"s{index}",
            master__address=f"{address.host}:{address.port}",
            dbUsername=address.user,
            dbPassword=address.password,
            filter__regex=rf"shop_{index}\\..*",
            filter__field=f"shop_{index}.orders:id/note",
        )
    return made


def run(*arguments: str) -> str:
    """Run a command, and return its stdout."""
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, done.output
    return done.stdout


def canal_cursor(server: DatabaseServer, which: int) -> dict[str, object]:
    """Return a cursor of canal, whose client has acknowledged a transaction: its last event begins there."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        file = cursor.fetchall()[-1][0]
        cursor.execute(f"SHOW BINLOG EVENTS IN '{file}'")
        ends = [(row[1], row[4]) for row in cursor.fetchall() if row[2] == "Xid"]
    # canal looks the name of the address up.
    host, port = socket.getfqdn("127.0.0.1"), server.address().port
    return {
        "identity": {"slaveId": -1, "sourceAddress": {"address": host, "port": port}},
        "postion": {
            "gtid": "",
            "included": False,
            "journalName": file,
            "position": ends[which][0],
            "timestamp": 1,
        },
    }


def end_of(server: DatabaseServer) -> Position:
    """Return where a MariaDB server's binlog ends."""
    file, offset, *_ = server.execute("SHOW MASTER STATUS")[0]
    return Position(file, offset)


def test_two_imported_instances_are_served_from_canals_cursor(shop: Shop, conf: Conf) -> None:
    begin = GroupPosition({f"s{index}": end_of(server) for index, server in enumerate(shop.servers)})
    shop.write_everywhere(BEFORE + 2)
    metas = []
    for index, server in enumerate(shop.servers):
        metas.append(conf.folder / f"s{index}.1001.cursor")
        metas[-1].write_text(json.dumps(canal_cursor(server, -2)))
    text = run(
        "import",
        *map(str, conf.files),
        "--destination",
        shop.destination,
        "--secrets",
        str(conf.secrets),
        *(word for meta in metas for word in ("--meta", str(meta))),
    )
    file = conf.folder / "shop.yaml"
    assert "\ncanal:\n  transaction_entries: false\n" in text
    file.write_text(text.replace("\ncanal:\n", "\ncanal:\n  port: 0\n") + "gateway: {port: 0}\n")
    run("check", "-c", str(file))
    # The transaction that the cursor is inside comes once more: it is at most one for each shard.
    shop.written = {shard: ids[-2:] for shard, ids in shop.written.items()}
    with launch(load_instance(file)) as instance:
        with shop.connect(instance) as consumer:
            shop.write_everywhere(2)
            shop.servers[0].execute("DELETE FROM shop_0.orders WHERE id = 0")
            shop.write(0, 1)
            reading = Reading(consumer)
            reading.until(shop.rows)
            reading.check(shop)
            rows = [row for run in reading.runs for table in run for row in table.to_pylist()]
            assert {row["op"] for row in rows} == {"INSERT"}, "deletes are filtered"
            assert {tuple(name for name, _ in row["after"]) for row in rows} == {("id", "note")}
            assert consumer.get_without_ack(timeout=0.2) is None
        # A client id that is not known yet is given its own start; begins and ends are left out for it.
        moved = Operator(instance.uri, shop.destination).ask(calls.Rewind("1002", begin.to_json(), new=True))
        assert moved["from"] is None
        with RawClient(instance.canal_address, shop.destination, "1002").log_in().subscribe() as client:
            ids = list[int]()
            while len(ids) < shop.rows + BEFORE * len(shop.servers):
                batch_id, entries = client.get()
                assert {entry.entryType for entry in entries} <= {entry_pb2.ROWDATA}
                ids += inserted_ids(entries)
                client.ack(batch_id)
            assert client.get(timeout=-1) == (-1, [])
