"""Commands that are derived from calls: one for each call that none makes by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from click.testing import Result
from support.clients.odd_gateway import Gateway
from typer.testing import CliRunner

from canal_group.merge.calls.call import CALLS, operate, operator_calls
from canal_group.merge.calls.values import Flag, Named, Policing, ShardName, Whole
from canal_group.operator import calls
from canal_group.programs.command.call_commands import add_commands
from canal_group.programs.command.cli import GROUPS, app
from canal_group.programs.command.operator_command import COMMANDED


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with Gateway() as made:
        yield made


def run(gateway: Gateway, *words: str, commands: typer.Typer = app, **options: Any) -> Result:
    where = ["-g", gateway.uri, "-d", "shop", "--token-env", "TOKEN"]
    return CliRunner(env={"TOKEN": "t"}).invoke(commands, [*words, *where], **options)


def test_every_call_has_a_command():
    assert set(operator_calls().values()) == COMMANDED


def test_the_answer_is_one_line_of_json(gateway: Gateway):
    gateway.values["client_rollback"] = {"client_id": "app", "batches": 2}
    done = run(gateway, "client", "rollback", "app")
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"client_id": "app", "batches": 2})
    assert gateway.asked == ["client_rollback"]


def test_what_removes_something_asks_before(gateway: Gateway):
    gateway.values["client_remove"] = {"client_id": "app", "cursor": None}
    refused = run(gateway, "client", "remove", "app", input="n\n")
    assert (refused.exit_code, gateway.asked) == (1, [])
    assert "client remove app of shop?" in refused.output
    assert run(gateway, "client", "remove", "app", input="y\n").exit_code == 0
    assert run(gateway, "client", "remove", "app", "--yes").exit_code == 0
    assert gateway.asked == ["client_remove"] * 2


def test_a_value_that_cannot_be_one_is_not_sent(gateway: Gateway):
    refused = run(gateway, "client", "rollback", "a$b")
    assert "is not a client id" in str(refused.exception)
    assert gateway.asked == []


def test_a_new_call_has_a_command_with_its_fields_and_texts(gateway: Gateway):
    @operate("shard_refresh", "POST /shards/{shard}/refresh", audited=("shard",))
    class RefreshShard(calls.Operation[dict[str, int]]):
        """Refresh a shard.

        Args:
            shard: The shard's name.
            policy: What to do then.
            rows_max: How many rows.
            note: A remark.
            now: At once.
        """

        shard: ShardName
        policy: Policing
        rows_max: Whole = 5
        note: Named | None = None
        now: Flag = False

    try:
        made = typer.Typer()
        made.command()(lambda: None)
        group = typer.Typer()
        made.add_typer(group, name="shard")
        group.command()(lambda: None)
        add_commands(made, {"shard": group})
    finally:
        del CALLS["shard_refresh"]
        COMMANDED.discard(RefreshShard)
    gateway.values["shard_refresh"] = {"rows": 4}
    words = ["shard", "refresh", "s0", "--policy", "hold", "--rows-max", "7", "--now"]
    done = run(gateway, *words, commands=made)
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"rows": 4}), done.output
    (body,) = gateway.bodies
    assert body == {"destination": "shop", "shard": "s0", "policy": "hold", "rows_max": 7, "now": True}
    told = " ".join(
        CliRunner(env={"COLUMNS": "200"}).invoke(made, ["shard", "refresh", "--help"]).stdout.split()
    )
    for text in ("Refresh a shard.", "The shard's name.", "What to do then.", "How many rows.", "A remark."):
        assert text in told, text


def test_no_command_is_derived_where_one_is_made_by_hand():
    for kind, group, name in (
        (calls.AddShard, "shard", "add"),
        (calls.GivePolicy, "shard", "policy"),
        (calls.Resolve, "schema", "resolve"),
    ):
        assert kind in COMMANDED
        named = [each.name or each.callback.__name__ for each in GROUPS[group].registered_commands]  # type: ignore[union-attr]
        assert named.count(name) == (name != "policy")
