"""What Spark writes down of a query's secrets: nothing, in plans, event logs, checkpoints and logs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyarrow import flight

from canal_group.merge.values.position import GroupPosition

TOKEN = "spark-s3cret-1"
ROOT = Path(__file__).parents[3]


class Gateway(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow is untyped
    """An instance in which nothing happens."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.tokens: set[str] = set()
        position = GroupPosition().to_json()
        group = {"active": True, "merging": True, "watermark_us": 1 << 61, "pid": 1, "generation": 1}
        self._answers: dict[str, Any] = {
            "subscribe": {"epoch": 1, "cursor": position, "lease_s": 60},
            "locate": position,
            "status": {"now_us": 1, "shards": [], "group": {**group, "held_by": None, "clients": []}},
        }

    def do_action(self, _context: Any, action: flight.Action) -> list[bytes]:
        return [json.dumps({"value": self._answers.get(action.type)}).encode()]


@pytest.mark.soak
def test_a_token_is_in_nothing_that_spark_writes(tmp_path: Path):
    """1. a bounded read and a stream are planned, explained and run; 2. neither printed nor written is a
    secret, though all that Spark can be made to write is there."""
    with Gateway() as gateway:
        done = subprocess.run(
            [
                sys.executable,
                str(Path(__file__).parents[1] / "spark_secrets.py"),
                str(tmp_path),
                f"grpc://127.0.0.1:{gateway.port}",
            ],
            env={**os.environ, "PYTHONPATH": str(ROOT), "SECRETS": json.dumps({"token": TOKEN})},
            capture_output=True,
            text=True,
            timeout=220,
            check=True,
        )
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    written = {str(file): file.read_bytes() for file in files}
    assert "Physical Plan" in done.stdout
    assert any("SparkListenerSQLExecutionStart" in text.decode(errors="replace") for text in written.values())
    assert any("checkpoint" in name for name in written)
    assert [name for name, text in written.items() if TOKEN.encode() in text] == []
    for stream in (done.stdout, done.stderr):
        assert [line[:300] for line in stream.splitlines() if TOKEN in line] == []
