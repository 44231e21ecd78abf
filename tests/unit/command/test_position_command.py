"""`canal-group position` on shards that read files, where a start is found without a server."""

from __future__ import annotations

import json
import time

import pytest
from typer.testing import CliRunner

from canal_group.programs.command.cli import app
from canal_group.programs.demo.recorded_shards import recorded_shards


@pytest.fixture
def instance(tmp_path):
    file = tmp_path / "shop.yaml"
    folder = recorded_shards()[0].folder
    file.write_text(f"preset: memory\ndestination: shop\nshards:\n  - {{name: s0, files: {folder}}}\n")
    return file


def asked(instance, at, *options):
    return CliRunner().invoke(app, ["position", "-c", str(instance), "--at", at, *options])


def test_a_time_is_found_in_files(instance, monkeypatch):
    """This machine's clock may be before the recording: `-0s` is after it in any case."""
    monkeypatch.setattr(time, "time_ns", lambda: 2_000_000_000 * 10**9)
    found = asked(instance, "earliest", "--json")
    assert (found.exit_code, json.loads(found.stdout)["offset"]) == (0, 4)
    found = asked(instance, "-0s", "--json")
    position = json.loads(found.stdout)
    assert (found.exit_code, position["file"], position["shard"]) == (0, "mysql-bin.000003", "s0")


def test_what_files_do_not_say_is_an_error(instance):
    found = asked(instance, "latest")
    assert found.exit_code == 1
    assert "Shard s0 reads files, where latest cannot be found." in " ".join(found.output.split())
