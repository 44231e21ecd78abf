"""Where a transaction is, told from its commit to its acknowledgement."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from typing import Any

import pytest
from integration.shared_servers import SharedShop
from typer.testing import CliRunner

import canal_group
from canal_group.operator import Operator, calls
from canal_group.programs.command.cli import app
from canal_group.programs.command.trace_command import key_lines, lines


def last_gtid(shop: SharedShop, shard: int) -> str:
    return str(shop.servers[shard].execute("SELECT @@global.gtid_binlog_pos")[0][0])


def test_a_transaction_is_followed_from_its_commit_to_its_acknowledgement(served: SharedShop):
    token = served.instance.address.operator_token
    operator = Operator(served.instance.uri, served.destination, token)
    with closing(operator), served.connect() as consumer:

        def state(gtid: str) -> dict[str, object]:
            found = operator.ask(calls.Trace(gtid))
            (mine,) = [each for each in found["clients"] if each["client_id"] == "reader"]
            return {"found": found["found"], **{key: mine[key] for key in mine if key != "client_id"}}

        served.write(0, 1, rows=3)
        gtid = last_gtid(served, 0)
        batch = consumer.get_without_ack(timeout=60)
        assert state(gtid) == {"found": "merged", "state": "outstanding", "batch_id": batch.batch_id}
        said = lines(operator.ask(calls.Trace(gtid)), operator.status())
        assert "on shard s0 at" in said[0]
        assert said[0].endswith(": 3 rows.")
        assert f"client reader: outstanding in batch {batch.batch_id}" in said
        consumer.ack(batch.batch_id)
        assert state(gtid)["state"] == "acknowledged"
        later = f"{gtid.rpartition('-')[0]}-{int(gtid.rpartition('-')[2]) + 1_000_000}"
        found = operator.ask(calls.Trace(later))
        assert (found["found"], found["read_by"]) == (None, [])
        assert lines(found, operator.status())[0] == f"{later} was not read by any shard yet."
        assert operator.ask(calls.Trace(gtid, "s0")) == operator.ask(calls.Trace(gtid))
        for wrong, shard in (("nonsense", None), ("0-1-42,1-1-3", None), ("", None), (gtid, "s9")):
            with pytest.raises(canal_group.UsageError):
                operator.ask(calls.Trace(wrong, shard))


def test_a_transaction_waits_for_the_shard_that_holds_the_group(served: SharedShop):
    operator = Operator(served.instance.uri, served.destination, served.instance.address.operator_token)
    with closing(operator), served.connect():
        pid = served.servers[1].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            found = {"found": "merged"}
            # What was committed before the pause, or in the same second, goes out.
            while found["found"] == "merged":
                served.write(0, 1)
                gtid = last_gtid(served, 0)
                found = operator.ask(calls.Trace(gtid))
                while not found["found"]:
                    found = operator.ask(calls.Trace(gtid))
            said = lines(found, operator.status())
        finally:
            os.kill(pid, signal.SIGCONT)
        assert found["found"] == "waiting"
        assert said[1].startswith("It waits to be merged. It waits for shard s1: ")
        assert found["read_by"] == ["s0"]


def test_the_last_changes_of_a_row_are_found_and_followed(served: SharedShop):
    operator = Operator(served.instance.uri, served.destination, served.instance.address.operator_token)
    within = 64 << 20
    with closing(operator), served.connect() as consumer:
        served.write(0, 1)
        (number,) = served.written["s0"]
        inserted, key = last_gtid(served, 0), f"shop.orders:{number}"
        batch = consumer.get_without_ack(timeout=60)

        def reader(change: dict[str, Any]) -> str:
            (state,) = [each["state"] for each in change["trace"]["clients"] if each["client_id"] == "reader"]
            return str(state)

        changes = operator.ask(calls.TraceKey(key, within))["changes"][-1:]
        assert [(each["shard"], each["op"], each["gtid"]) for each in changes] == [("s0", "INSERT", inserted)]
        assert reader(changes[0]) == "outstanding"
        consumer.ack(batch.batch_id)
        served.servers[0].execute(
            f"UPDATE shop_0.orders SET note = 'y' WHERE id = {number}",
            f"DELETE FROM shop_0.orders WHERE id = {number}",
        )
        told = operator.ask(calls.TraceKey(key, within, "s0"))
        assert [each["op"] for each in told["changes"]][-3:] == ["INSERT", "UPDATE", "DELETE"]
        assert reader(told["changes"][-3]) == "acknowledged"
        said = key_lines(told, "64MiB", operator.status())
        position = f"s0 at {told['changes'][-1]['file']}:{told['changes'][-1]['offset']}"
        # Other tests had a row of this id on these servers: theirs are listed before.
        last = max(index for index, line in enumerate(said) if f"{key}: DELETE " in line)
        assert said[last].endswith(f" on shard {position} by {last_gtid(served, 0)}")
        assert said[last + 1].startswith(f"  {last_gtid(served, 0)} was ")
        never = key_lines(operator.ask(calls.TraceKey("shop.orders:-1", within)), "64MiB", operator.status())
        assert never[0] == "shop.orders:-1 was not changed in the last 64MiB of any binlog that was searched."
        # Tables of that name that other tests had on these servers may have no primary key.
        assert all("could not be compared" in line for line in never[1:])
        for wrong, bytes_max, shard in (("orders", within, None), (key, 1 << 40, None), (key, within, "s9")):
            with pytest.raises(canal_group.UsageError):
                operator.ask(calls.TraceKey(wrong, bytes_max, shard))


def test_top_prints_a_running_instance_without_a_terminal(served: SharedShop):
    with served.connect() as consumer:
        served.write(0, 1)
        batch = consumer.get_without_ack(timeout=60)
        token = served.instance.address.operator_token
        where = ["-d", served.destination, "-g", served.instance.uri, "--token-env", "TOP_TOKEN"]
        top = ["top", *where, "--every", "0.2", "--times", "2"]
        shown = CliRunner().invoke(app, top, env={"TOP_TOKEN": token, "COLUMNS": "120"})
        assert shown.exit_code == 0, shown.output
        assert shown.output.count("reader") == 2, "once a look"
        assert {name for name in ("s0", "s1") if shown.output.count(name) >= 2} == {"s0", "s1"}
        assert "\x1b" not in shown.output
        consumer.ack(batch.batch_id)
