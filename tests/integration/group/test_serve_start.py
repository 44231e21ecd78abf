"""What `serve` says if an instance cannot be started."""

from __future__ import annotations

import sys

import pytest
import ray
from support.deadline import await_true

from canal_group.actors.driver import gateway_process
from canal_group.programs.command import cli
from canal_group.programs.command.options.exit_code import ExitCode
from canal_group.programs.demo.recorded_shards import recorded_shards


def test_a_ray_that_is_too_slow_is_a_sentence_and_leaves_nothing(
    one_ray: None, tmp_path, monkeypatch, capsys
):
    file = tmp_path / "slow.yaml"
    file.write_text(
        "preset: memory\ndestination: slow\ngateway: {port: 0}\n"
        f"shards: [{{name: a, files: '{recorded_shards()[1].folder}/mysql-bin.*'}}]\n"
    )
    monkeypatch.setattr(gateway_process, "START_TIMEOUT_S", 0.0)
    monkeypatch.setattr(sys, "argv", ["canal-group", "serve", "-c", str(file), "--http", "off"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr().err
    assert ended.value.code == ExitCode.UNAVAILABLE
    assert "ServerUnavailable: Ray did not start the gateway of slow within 0 s." in said
    assert "Traceback" not in said
    await_true(
        lambda: not any(name.startswith("slow/") for name in ray.util.list_named_actors()), "its actors ended"
    )
