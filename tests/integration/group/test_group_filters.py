"""Rows and columns that a filter leaves out, on real servers: they never leave the process of their shard."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from integration.shop import DEADLINE_S, Shop
from integration.zookeeper_fixtures import eventually

from canal_group.actors.driver.instance import Instance
from canal_group.actors.shard.wiring import source_address
from canal_group.programs.command.check.filter_check import check_filter

#: the server puts the first one together from the second: no other process gets it from us
SECRET, TERCES = b"marker-of-a-dropped-value", "eulav-deppord-a-fo-rekram"
PUBLIC = b"marker-of-a-kept-value"
SALT = "pepper"
TABLES = [
    {
        "match": r"shop_\d+\.people",
        "where": "id < 100 AND country = 'CH'",
        "black_columns": ["note"],
        "rename": [{"column": "mail", "to": "mail_hash"}],
        "masks": [
            {"column": "mail", "kind": "hash"},
            {"column": "card", "kind": "last", "last": 2},
            {"column": "phone", "kind": "constant", "value": "hidden"},
        ],
        "computed": [{"name": "twice", "expression": "id * 2"}],
        "keep": ["insert", "update", "delete"],
        "drop_unchanged": True,
    }
]
CONSUMER = """
import json, sys
import canal_group
with canal_group.connect(sys.argv[1], destination=sys.argv[2], client_id="reader", wait_s=60) as consumer:
    rows, held = [], []
    print("ready", flush=True)
    while len(rows) < int(sys.argv[3]):
        batch = consumer.get_without_ack(1000, timeout=60)
        held.append(batch.envelope())
        rows += [row for row in held[-1].to_pylist() if row["table"] == "people"]
    wanted = ("op", "before", "after", "gtid", "row", "seq")
    print(json.dumps([[row[name] for name in wanted] for row in rows]), flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def filtered(shop: Shop, tmp_path: Path) -> dict[str, Any]:
    """The filter's settings, and a table with a column of each treatment."""
    salt = tmp_path / "salt"
    salt.write_text(f"{SALT}\n")
    shop.servers[0].execute(
        "CREATE TABLE shop_0.people (id INT PRIMARY KEY, country CHAR(2), note VARCHAR(99), mail VARCHAR(99),"
        " card VARCHAR(99), phone VARCHAR(99), public VARCHAR(99))"
    )
    chosen = {"white": r"shop_\d+\..*", "tables": TABLES, "salt_file": str(salt)}
    return {"filter": chosen}


def write(shop: Shop) -> None:
    secret = f"REVERSE('{TERCES}')"
    hidden = ", ".join([secret] * 4)
    left_out, kept = f"(100, 'CH', {hidden}, 'left out')", f"(1, 'CH', {hidden}, '{PUBLIC.decode()}')"
    rows = f"{left_out}, {kept}, (2, 'DE', {hidden}, {secret})"
    connection = shop.servers[0].connect("shop_0")
    try:
        with connection.cursor() as cursor:
            for statement in (
                "BEGIN",
                f"INSERT INTO people VALUES {rows}",
                "UPDATE people SET note = 'unseen' WHERE id = 1",
                "UPDATE people SET country = 'CH', public = 'enters' WHERE id = 2",
                "UPDATE people SET country = 'DE', public = REVERSE('" + TERCES + "') WHERE id = 1",
                "COMMIT",
                f"INSERT INTO people VALUES (200, 'CH', {hidden}, {secret})",
                "DELETE FROM people WHERE id = 2",
                "TRUNCATE TABLE people",
                f"INSERT INTO people VALUES (3, 'CH', {hidden}, NULL)",
            ):
                cursor.execute(statement)
    finally:
        connection.close()


def consume(shop: Shop, instance: Instance, count: int) -> subprocess.Popen[str]:
    """Start a consumer that prints so many rows, acknowledges none and waits."""
    return subprocess.Popen(
        [sys.executable, "-c", CONSUMER, instance.uri, shop.destination, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def printed(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def holds(pid: int, text: bytes) -> bool:
    """Return whether a process has a text in memory that it wrote, or shares with a process that did."""
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, rights, _, _, inode, *path = line.split(maxsplit=5)
            if not rights.startswith("r") or not (inode == "0" or "canal-group" in "".join(path)):
                continue
            begin, end = (int(each, 16) for each in span.split("-"))
            rest = b""
            for at in range(begin, end, 16 << 20):
                try:
                    block = os.pread(memory.fileno(), min(16 << 20, end - at), at)
                except OSError:  # a page that nobody may read
                    break
                if text in rest + block:
                    return True
                rest = block[-len(text) :]
    return False


@pytest.mark.soak
def test_what_is_left_out_is_in_no_process_but_the_shards(shop: Shop, filtered: dict[str, Any]):
    """1. a transaction has rows of every treatment; 2. a consumer gets what the rules leave of it;
    3. a value that they removed is neither in its memory nor in the gateway's; 4. another server delivers
    the same
    rows with the same ordinals.
    """
    mail = hmac.new(SALT.encode(), SECRET, hashlib.sha256).hexdigest()
    shown = {"mail_hash": mail, "card": "ue", "phone": "hidden"}
    first = {"id": "1", "country": "CH", **shown, "public": PUBLIC.decode(), "twice": "2"}
    second = {"id": "2", "country": "CH", **shown, "public": "enters", "twice": "4"}
    with shop.serve(**filtered) as instance, consume(shop, instance, 5) as process:
        assert printed(process) == "ready\n"
        write(shop)
        rows = json.loads(printed(process))
        with shop.connect(instance, client_id="other") as other:
            gateway = other.status()["gateway"]["pid"]
        found = [(op, before and dict(before), after and dict(after)) for op, before, after, *_ in rows]
        last = {"id": "3", "country": "CH", **shown, "public": None, "twice": "6"}
        assert found == [
            ("INSERT", None, first),
            ("INSERT", None, second),
            ("DELETE", first, None),
            ("DELETE", second, None),
            ("INSERT", None, last),
        ]
        assert [row[4] for row in rows] == [1, 4, 5, 0, 0], "ordinals count what was left out"
        for pid in (gateway, process.pid):
            assert holds(pid, PUBLIC), "the search finds what is there"
            assert not holds(pid, SECRET)
        process.kill()
    with shop.serve(**filtered) as instance, consume(shop, instance, 5) as process:
        assert printed(process) == "ready\n"
        assert json.loads(printed(process)) == rows
        process.kill()


def test_check_names_the_column_that_a_table_lacks(shop: Shop, filtered: dict[str, Any]):
    """1. rules that fit; 2. an unknown column; 3. a condition that does not take the column's type."""
    for changed, failures in (
        ({}, []),
        ({"black_columns": ["notes"]}, ["names column notes of shop_0.people"]),
        ({"where": "id = 'x'"}, ["cannot be applied to shop_0.people"]),
    ):
        tables = [{**TABLES[0], **changed}]
        settings = shop.settings(filter={**filtered["filter"], "tables": tables})
        *failed, last = check_filter(settings.filter, source_address(settings, *settings.shards[:1] * 2))
        assert [any(each in one.found for one in failed) for each in failures] == [True] * len(failed)
        assert (last.ok, last.found) == (True, f"fits {1 - len(failed)} tables")


def test_a_column_that_a_table_lacks_stops_the_shard_with_its_name(shop: Shop, filtered: dict[str, Any]):
    wrong = [{**TABLES[0], "black_columns": ["notes"]}]
    chosen = {"filter": {**filtered["filter"], "tables": wrong}}
    with shop.serve(**chosen) as instance, shop.connect(instance) as consumer:
        write(shop)

        def error() -> str:
            return str(consumer.status()["shards"][0]["error"])

        eventually(
            lambda: "names column notes of shop_0.people" in error(),
            "the shard says why",
            within_s=DEADLINE_S,
        )
        assert SECRET.decode() not in error()
