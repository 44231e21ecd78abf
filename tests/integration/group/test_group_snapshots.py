"""Clients that begin with the rows that there are: a copy made of the stream equals what SELECT shows."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from integration.shop import Reading, Shop, kill
from integration.zookeeper_fixtures import eventually
from support.instance.shop_copy import Copy, changing
from support.soak import patient
from typer.testing import CliRunner

from canal_group.actors.driver.instance import Instance
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.calls.consumers import Status
from canal_group.merge.calls.operators import StopSnapshot
from canal_group.programs.command.cli import app


def options(tmp_path: Path, **more: Any) -> dict[str, Any]:
    return {"archive": {"folder": str(tmp_path / "archive")}, **more}


def snapshots_of(instance: Instance, shop: Shop) -> dict[str, Any]:
    with contextlib.closing(GatewayClient(instance.uri, shop.destination)) as gateway:
        status = gateway.ask(Status())
    return {each["client_id"]: each for each in status["group"]["clients"]}


@pytest.mark.parametrize(
    ("transactions", "seed"),
    [(40, 1), *(pytest.param(400, seed, marks=pytest.mark.soak) for seed in range(2, 6))],
)
def test_a_copy_of_full_tables_equals_what_select_shows(
    readable: Shop, tmp_path: Path, transactions: int, seed: int
) -> None:
    """1. Tables are full; 2. a client begins with a snapshot while rows are changed, and another one waits;
    3. its copy equals SELECT; 4. it joins the other, which was not rolled back.
    """
    readable.write_everywhere(transactions, 50)
    with contextlib.ExitStack() as open_, readable.serve(**options(tmp_path)) as instance:
        other = Reading(open_.enter_context(readable.connect(instance, client_id="other")))
        copy = Copy(open_.enter_context(readable.connect(instance, client_id="copy", snapshot="initial")))
        with changing(readable, seed):
            for _ in range(patient(5)):
                copy.read(0.2)
            copy.complete(readable)
        copy.check(readable)
        assert copy.reads > 0
        assert not any(mark.failed for mark in copy.marks)
        eventually(lambda: snapshots_of(instance, readable)["copy"]["replay"] is None, "it has joined")
        assert not other.rollbacks
        readable.write_everywhere(2)
        copy.check(readable)


def test_crash_between_pages(readable: Shop, tmp_path: Path) -> None:
    """1. Of full tables a part is acknowledged; 2. a shard's process is killed, and the group's; 3. the rest
    comes, and no row that was acknowledged is read again but what was in flight.
    """
    readable.write_everywhere(60, 50)
    slow = {"snapshot": {"rows_per_s": 3_000}}
    with contextlib.ExitStack() as open_, readable.serve(**options(tmp_path, **slow)) as instance:
        copy = Copy(open_.enter_context(readable.connect(instance, client_id="copy", snapshot="initial")))
        with changing(readable, 7):
            copy.until(lambda: copy.reads > 500)
            kill(copy.consumer.status()["shards"][0]["pid"])
            copy.until(lambda: copy.reads > 1_000)
            kill(copy.consumer.status()["group"]["pid"])
            copy.complete(readable)
        copy.check(readable)


def test_status_tells_of_a_snapshot_and_of_a_table_that_may_not_be_read(shop: Shop, tmp_path: Path) -> None:
    """1. One shard's rows may be selected; 2. `status` says how far it is, and which statement lets it read
    the other's; 3. so does the mark.
    """
    shop.write_everywhere(20, 250)
    account = f"`{shop.servers[0].address().user}`@`127.0.0.1`"
    shop.servers[0].execute(f"GRANT SELECT ON shop_0.* TO {account}")
    shop.servers[1].execute(
        f"GRANT SELECT ON shop_1.* TO {account}", f"REVOKE SELECT ON shop_1.* FROM {account}"
    )
    # Of two pages at least, with a pause between them.
    slow = {"snapshot": {"rows_per_s": 1_000}}
    with (
        shop.serve(**options(tmp_path, **slow)) as instance,
        shop.connect(instance, client_id="copy", snapshot="initial") as consumer,
    ):
        copy, said, unread = Copy(consumer), {}, {}

        def told() -> bool:
            client = snapshots_of(instance, shop)["copy"]
            said.update(client["snapshot"] or {})
            unread.update(client["unread"] or {})
            return bool(unread) and copy.reads > 0

        copy.until(told)
        (why,) = unread["reasons"].values()
        assert list(unread["reasons"]) == ["s1 shop_1.orders"]
        assert "SELECT is not granted (1142)" in why
        assert why.endswith(f"GRANT SELECT ON `shop_1`.* TO {account};")
        assert re.fullmatch(r"snapshot: tables read: [01] of 2, rows: .*", said["words"])
        assert unread["words"].startswith("tables that a snapshot could not read: 1;")
        assert [part["shard"] for part in said["shards"]] == ["s0", "s1"]
        copy.complete(shop)
        assert {mark.shard: dict(mark.failed) for mark in copy.marks} == {
            "s0": {},
            "s1": {"shop_1.orders": why},
        }
        eventually(lambda: snapshots_of(instance, shop)["copy"]["snapshot"] is None, "it is over")


@pytest.mark.parametrize("kind", ["mixed", "file"])
def test_only_the_rows_that_there_are_and_stop(readable: Shop, tmp_path: Path, kind: str) -> None:
    """Nothing is written meanwhile, so nothing but pages has to be in the archive."""
    readable.write_everywhere(10, 10)
    with readable.serve(**options(tmp_path, store={"kind": kind})) as instance:
        with readable.connect(instance, client_id="once", snapshot="only") as consumer:
            rows = sum(batch.envelope().num_rows for batch in consumer.batches())
        assert rows == readable.rows + len(readable.servers)
        with readable.connect(instance, client_id="once", snapshot="only") as consumer:
            assert list(consumer.batches()) == []
        with readable.connect(instance, client_id="part", snapshot="only") as consumer:
            batches = consumer.batches(1)
            next(batches)
            token = instance.address.operator_token
            with contextlib.closing(GatewayClient(instance.uri, readable.destination, token)) as operator:
                operator.ask(StopSnapshot("part"))
            assert list(batches) == []
        readable.write_everywhere(1)
        where = ["-d", readable.destination, "-g", instance.uri]
        words = ["consume", *where, "--client", "once", "--ack", "--snapshot", "only"]
        done = CliRunner().invoke(app, words)
        assert (done.exit_code, done.stdout) == (0, ""), "changes that came later are not read"


@pytest.mark.parametrize("mode", ["initial", "only"])
def test_consume_ends_with_1_and_names_tables_that_failed(shop: Shop, tmp_path: Path, mode: str) -> None:
    """1. One shard's rows may not be selected; 2. the command names table, reason, GRANT and the next step;
    3. the same command after the GRANT says that the client id has begun; 4. the next step reads the table.
    """
    shop.write_everywhere(1, 3)
    account = f"`{shop.servers[0].address().user}`@`127.0.0.1`"
    shop.servers[0].execute(f"GRANT SELECT ON shop_0.* TO {account}")
    grant = f"GRANT SELECT ON `shop_1`.* TO {account};"
    shop.servers[1].execute(grant, f"REVOKE SELECT ON shop_1.* FROM {account}")
    with shop.serve(**options(tmp_path)) as instance:
        where = ["-d", shop.destination, "-g", instance.uri]
        words = ["consume", *where, "--client", "copy", "--ack", "--timeout", "3", "--snapshot", mode]
        again = f"canal-group snapshot again -d {shop.destination} copy shop_1.orders"
        first = CliRunner().invoke(app, words)
        assert first.exit_code == 1
        (line,) = [line for line in first.stderr.splitlines() if "shop_1" in line]
        assert line.startswith("Shard s1: the snapshot has not read shop_1.orders: ")
        assert "SELECT is not granted (1142)" in line
        assert line.endswith(f"{grant} Then run: {again}")
        shop.servers[1].execute(grant)
        second = CliRunner().invoke(app, words)
        assert (second.exit_code, second.stdout) == (0, "")
        assert second.stderr.startswith("Client copy has begun")
        secrets = {"CANAL_GROUP_TOKEN": instance.address.operator_token or ""}
        command = [*again.split()[1:], "-g", instance.uri, "--token-env", "CANAL_GROUP_TOKEN"]
        assert CliRunner(env=secrets).invoke(app, command).exit_code == 0
        third = CliRunner().invoke(app, words)
        read = [row for row in map(json.loads, third.stdout.splitlines()) if row["op"] == "READ"]
        assert [row["shard"] for row in read] == ["s1"] * 3
        assert "has begun" not in third.stderr
        assert third.exit_code == 0, "shard s0 lacks the table, and s1 has read it"
        command[command.index("shop_1.orders")] = "shop_1.nowhere"
        assert CliRunner(env=secrets).invoke(app, command).exit_code == 0
        fourth = CliRunner().invoke(app, words)
        assert fourth.exit_code == 1
        assert fourth.stderr.endswith("No shard has shop_1.nowhere: the snapshot has no rows of it.\n")
