"""Prometheus's programs for tests: where they are, and a server of the test's own."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

ROOT = Path(__file__).parents[3]
#: seconds that a server may take to answer
STARTED_S = 30.0


def program(name: str) -> str:
    """Return the path of a program; skip the test where it is not installed."""
    unpacked = ROOT / ".cache" / "prometheus" / "usr" / "bin" / name
    found = str(unpacked) if unpacked.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: scripts/get-test-tools.sh gets it")
    return found


class Prometheus:
    """A server that scrapes."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the result of an expression now; fail if it is wrong."""
        answer = requests.get(f"{self.url}/api/v1/query", params={"query": expression}, timeout=10).json()
        assert answer["status"] == "success", (expression, answer)
        return list(answer["data"]["result"])


@contextmanager
def scraping(folder: Path, *targets: str) -> Iterator[Prometheus]:
    """Run a server that scrapes each `host:port` every second, with the alerts of `deploy/`."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    (folder / "prometheus.yaml").write_text(
        f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n"
        f"rule_files: [{ROOT / 'deploy' / 'prometheus' / 'alerts.yaml'}]\n"
        f"scrape_configs: [{{job_name: canal-group, static_configs: [{{targets: {list(targets)}}}]}}]\n"
    )
    command = [
        program("prometheus"),
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        _await_ready(url, process, folder / "prometheus.log")
        yield Prometheus(url)
    finally:
        process.terminate()
        process.wait(30)


def _await_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = time.monotonic() + STARTED_S
    while time.monotonic() < deadline_s and process.poll() is None:
        try:
            if requests.get(f"{url}/-/ready", timeout=1).ok:
                return
        except requests.ConnectionError:
            time.sleep(0.05)
    raise AssertionError(f"prometheus did not start: {log.read_text()[-2000:]}")
