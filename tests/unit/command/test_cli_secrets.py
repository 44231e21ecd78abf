"""Commands that open no source, as processes whose environment has no source's password."""

import subprocess
import sys
from pathlib import Path

import pytest

MISSING = "CANAL_GROUP_TEST_NOT_SET"


def run(*arguments: str, status: int) -> str:
    """Return the output of a command, on both of its outputs."""
    command = [sys.executable, "-m", "canal_group.programs.command.cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == status, said
    assert "Traceback" not in said
    return said


@pytest.fixture(params=[f"password_env: {MISSING}", "password_file: secrets/missing"])
def instance_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An instance whose source's password and whose client's token are nowhere."""
    file = tmp_path / "shop.yaml"
    file.write_text(
        "preset: memory\n"
        "destination: shop\n"
        f"shards: [{{name: s1, host: 127.0.0.1, user: canal, {request.param}}}]\n"
        f"gateway: {{clients: [{{name: mirror, token_env: {MISSING}}}]}}\n"
        "coordination: {kind: local, folder: state}\n"
    )
    return file


def test_stop_and_start_need_no_password_of_a_source(instance_file: Path):
    config = ["-c", str(instance_file)]
    assert "shop is stopped by" in run("stop", "shop", *config, "--reason", "moving house", status=0)
    assert "may be served again; it was stopped by" in run("start", "shop", *config, status=0)


def test_a_shard_is_added_by_the_server_s_secrets_and_not_by_the_command_s(instance_file: Path):
    """No gateway answers, which is all that is wrong: the definition was read."""
    where = ["-d", "shop", "-g", "grpc://127.0.0.1:1"]
    said = run("shard", "add", *where, "-c", str(instance_file), "s1", status=3)
    assert "ServerUnavailable" in said
    assert "password" not in said


@pytest.mark.parametrize("command", ["check", "serve"])
def test_commands_that_open_sources_name_a_missing_secret_at_once(instance_file: Path, command: str):
    said = run(command, "-c", str(instance_file), status=1)
    assert "`shards[0].password_" in said
    assert "not set" in said or "cannot be read" in said
