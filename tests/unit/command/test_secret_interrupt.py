"""Ctrl-C while a secret is read: the command ends, and nothing of the secret is anywhere."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SHARD = "  - {name: s0, host: 127.0.0.1, port: 1, user: u, %s}\n"
#: of a source, and of ZooKeeper, which is all that `stop` and `start` read
SOURCES = "destination: shop\nshards:\n" + SHARD % "password_file: %s"
ZOOKEEPERS = (
    "destination: shop\n"
    "coordination: {kind: zookeeper, hosts: '127.0.0.1:1', user: u, password_file: %s}\n"
    "shards:\n" + SHARD % "password_env: UNSET"
)


@pytest.mark.parametrize(
    ("command", "instance"),
    [("check", SOURCES), ("serve", SOURCES), ("stop shop", ZOOKEEPERS), ("start shop", ZOOKEEPERS)],
)
def test_an_interrupt_while_a_secret_is_read_leaves_no_traceback(command: str, instance: str, tmp_path: Path):
    pipe, file = tmp_path / "password", tmp_path / "shop.yaml"
    os.mkfifo(pipe)
    file.write_text(instance % pipe)
    # A shell's job in the background ignores Ctrl-C, and so would its children.
    heard = ["env", "--default-signal=INT"]
    process = subprocess.Popen(
        [*heard, sys.executable, "-m", "canal_group.programs.command.cli", *command.split(), "-c", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    # Returns when it is opened there: the secret is being read from now on, and does not end.
    with pipe.open("w") as secret:
        secret.write("half-s3cret")
        secret.flush()
        # Again if it was not heard: what comes just before a read begins is noticed when that returns.
        for _ in range(60):
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                said, _ = process.communicate(timeout=2)
                break
    assert process.returncode == 130
    assert "s3cret" not in said
    assert "Traceback" not in said
