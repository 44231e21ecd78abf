"""Where a client id begins on a whole instance: at a start that it chooses, or where an operator moves it."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest
from integration.shared_servers import SharedShop
from integration.shop import Reading
from typer.testing import CliRunner

import canal_group
from canal_group.operator import Operator, calls
from canal_group.programs.command.cli import app
from playground.database.secret_file import secret_file

pytestmark = pytest.mark.usefixtures("served")


def command(served: SharedShop, *words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, [*words, "-d", served.destination, "-g", served.instance.uri])
    assert result.exit_code == code, result.output or result.exception
    return result.output


def test_a_new_client_at_earliest_reads_what_others_acknowledged(served: SharedShop):
    with served.connect(client_id="first") as first:
        served.write_everywhere(5)
        Reading(first).until(served.rows)
        with served.connect(client_id="second", start="earliest") as second:
            # The sources are shared: rows that earlier tests have written come first.
            reading = Reading(second)
            while (
                not set(served.written["s0"]) <= set(reading.ids.values()) or len(reading.ids) < served.rows
            ):
                reading.until(len(reading.ids) + 1)
            reading.check_runs()
        with served.connect(client_id="second", start="earliest") as again:
            served.write_everywhere(2)
            later = Reading(again)
            later.until(2 * len(served.servers))
            assert len(later.runs[-1]) > 0, "it continues at its cursor"
            assert sum(map(len, later.runs)) < served.rows


def test_a_new_client_begins_at_a_time(served: SharedShop):
    """Whole seconds pass, because the sources stamp those."""
    with served.connect(client_id="first") as first:
        served.write_everywhere(3)
        Reading(first).until(served.rows)
        began_s = int(time.time()) + 1
        while time.time() < began_s:
            Reading(first).until(0)
        served.write_everywhere(4)
        moment = datetime.fromtimestamp(began_s, UTC).isoformat()
        with served.connect(client_id="second", start=moment) as second:
            reading = Reading(second)
            reading.until(4 * len(served.servers))
            commits = [row["commit_us"] for table in reading.runs[-1] for row in table.to_pylist()]
            assert min(commits) >= began_s * 1_000_000


def test_a_malformed_start_is_refused_with_a_sentence(served: SharedShop):
    with pytest.raises(canal_group.ConfigError, match=r"'soon' is not a start\."):
        served.connect(client_id="second", start="soon")


def test_an_operator_moves_a_cursor_and_the_client_reads_from_there(served: SharedShop):
    with served.connect(client_id="app") as consumer:
        start = consumer.cursor
        served.write_everywhere(5)
        Reading(consumer).until(served.rows)
        with pytest.raises(canal_group.ConsumerActive):
            Operator(served.instance.uri, served.destination).ask(calls.Rewind("app", "earliest"))
    said = command(served, "rewind", "--client", "app", "--to", start.to_json(), "--yes")
    assert said.splitlines()[0] == "from:"
    assert "to:" in said
    with served.connect(client_id="app") as consumer:
        reading = Reading(consumer)
        reading.until(served.rows)
        reading.check(served)


def test_a_move_asks_first_and_needs_a_client(served: SharedShop):
    consumed_nothing = CliRunner().invoke(
        app,
        ["rewind", "--client", "app", "--to", "latest", "-d", served.destination, "-g", served.instance.uri],
        input="n\n",
    )
    assert consumed_nothing.exit_code == 1
    with pytest.raises(canal_group.UsageError, match="has no client nobody"):
        Operator(served.instance.uri, served.destination).ask(calls.Rewind("nobody", "latest"))


def test_position_shows_where_a_start_is(served: SharedShop, tmp_path):
    served.write_everywhere(1)
    file = tmp_path / "shop.yaml"
    secret_file(tmp_path / "password", served.servers[0].address().password)
    shards = "".join(
        f"  - {{name: s{index}, host: 127.0.0.1, port: {server.port}, user: {server.address().user}, "
        "password_file: password}\n"
        for index, server in enumerate(served.servers)
    )
    file.write_text(f"preset: group\ndestination: shop\nshards:\n{shards}")
    result = CliRunner().invoke(app, ["position", "-c", str(file), "--at", "latest", "--json"])
    assert result.exit_code == 0, result.output
    shown = [json.loads(line) for line in result.output.splitlines()]
    assert [each["shard"] for each in shown] == ["s0", "s1"]
    ends = [tuple(server.execute("SHOW MASTER STATUS")[0][:2]) for server in served.servers]
    assert [(each["file"], each["offset"]) for each in shown] == ends
    result = CliRunner().invoke(app, ["position", "-c", str(file), "--at", "-1h"])
    assert "s0  " in result.output
