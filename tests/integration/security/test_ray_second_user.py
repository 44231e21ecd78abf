"""A Ray of our own, as other users of the machine meet it."""

from __future__ import annotations

import json
import os
import secrets
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from integration.processes import family, listening
from support.security.second_user import as_nobody, folder_for_all

import canal_group

START_S = 120

_OURS = """
import json, os, sys
import ray
from canal_group.actors.driver import local_ray
local_ray.start("test", 1)
node = ray._private.worker._global_node

@ray.remote
def loaded():
    import canal_group, os, sys
    return {"path": sys.path, "ours": canal_group.__path__[0], "nice": os.nice(0)}

said = {"address": node.gcs_address, "session": node.get_session_dir_path(), "nice": os.nice(0)}
print(json.dumps({**said, "worker": ray.get(loaded.remote())}), flush=True)
sys.stdin.read()
ray.shutdown()
"""
_JOIN = """
import sys
from canal_group.actors.driver import local_ray
local_ray.join(sys.argv[1], "test")
print("joined")
"""
_READ = "print(open(sys.argv[1]).read())"
_LIST = "import os\nprint(os.listdir(sys.argv[1]))"
#: asks each port for metrics, and prints the ports that answer
_SCRAPE = """
for port in map(int, sys.argv[1:]):
    try:
        connection = socket.socket()
        connection.settimeout(5)
        connection.connect(('127.0.0.1', port))
        connection.sendall(b'GET /metrics HTTP/1.0' + bytes([13, 10, 13, 10]))
        if b' 200 ' in connection.recv(20):
            print(port)
    except OSError:
        pass
"""
#: of the autoscaler and of the dashboard's process: Ray has no option to close them (docs/security.md)
_OPEN_METRICS = {44217, 44227}
_CALL = "import socket\nsocket.socket(socket.AF_UNIX).connect(sys.argv[1])\nprint('connected')"


@dataclass(frozen=True)
class Ours:
    """A Ray that `canal_group.actors.driver.local_ray` started."""

    address: str
    session: Path
    #: of the user whose it is
    home: Path
    #: for temporary files, of all users
    temporary: Path
    #: where it was started
    working: Path
    #: what a worker has on its path, where it has our package from, and its niceness
    worker: dict[str, Any]
    #: niceness of the process that started it
    nice: int
    pid: int

    @property
    def private(self) -> Path:
        return self.temporary / f"canal-group-{os.geteuid()}"

    @property
    def token(self) -> Path:
        return self.home / ".ray" / "auth_token"


def environment(home: Path, temporary: Path) -> dict[str, str]:
    """Return that of a user with a home of its own, whom nobody told anything of Ray's settings."""
    ours = ("RAY_AUTH", "RAY_ADD", "RAY_worker")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "HOME": str(home), "RAY_TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture(scope="module")
def ours() -> Iterator[Ours]:
    with folder_for_all() as shared:
        home, temporary, working = shared / "home", shared / "t", shared / "w"
        for folder, allowed in ((home, 0o755), (temporary, 0o1777), (working, 0o1777)):
            folder.mkdir()
            folder.chmod(allowed)
        (working / "canal_group.py").write_text("raise SystemExit('taken for ours')")
        with subprocess.Popen(
            [sys.executable, "-P", "-c", _OURS],
            env=environment(home, temporary),
            cwd=working,
            umask=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                found = json.loads(process.stdout.readline())
                session, worker, nice = Path(found["session"]), found["worker"], found["nice"]
                yield Ours(found["address"], session, home, temporary, working, worker, nice, process.pid)
            finally:
                process.stdin.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_its_folder_and_its_token_are_its_user_s_alone(ours: Ours):
    assert ours.session.is_relative_to(ours.private)
    assert (mode(ours.private), mode(ours.token)) == (0o700, 0o600)


def test_workers_import_nothing_from_the_working_folder(ours: Ours):
    """Whoever may write there would run code beside the sources' passwords."""
    assert str(ours.working) not in ours.worker["path"]
    assert Path(ours.worker["ours"]).is_relative_to(Path(canal_group.__path__[0]))


def test_workers_have_the_priority_of_the_process_that_started_ray(ours: Ours):
    """Ray's own default lets every other process of the machine go first."""
    assert ours.worker["nice"] == ours.nice


def test_another_user_reads_nothing_and_comes_to_no_socket(ours: Ours):
    sockets = [path for path in ours.session.rglob("*") if path.is_socket()]
    assert sockets
    attempts = [(_LIST, ours.private), (_LIST, ours.session), (_READ, ours.token)]
    for attempt, path in (*attempts, *((_CALL, path) for path in sockets)):
        assert as_nobody(attempt, str(path)) == "PermissionError", path


def test_another_user_reads_no_metrics_of_its_processes(ours: Ours):
    ports = {port for _, port in listening(family(ours.pid))}
    assert len(ports) > 5, "the processes of Ray listen"
    answering = {int(port) for port in as_nobody(_SCRAPE, *map(str, ports)).split()}
    assert answering <= _OPEN_METRICS


@pytest.mark.parametrize("token", [None, secrets.token_hex(32)], ids=["none", "another"])
def test_a_process_without_the_token_does_not_join_the_cluster(token: str | None, ours: Ours, tmp_path: Path):
    stranger = tmp_path / "stranger"
    (stranger / ".ray").mkdir(parents=True)
    if token is not None:
        (stranger / ".ray" / "auth_token").write_text(token)
    refused = joined(ours, stranger, mode="disabled" if token is None else "token")
    assert refused.returncode
    assert "joined" not in refused.stdout
    assert "InvalidAuthToken" in refused.stderr, refused.stderr


def test_a_process_with_the_token_joins_the_cluster(ours: Ours):
    let_in = joined(ours, ours.home, mode="token")
    assert let_in.stdout.strip() == "joined", let_in.stderr


def joined(ours: Ours, home: Path, mode: str) -> subprocess.CompletedProcess[str]:
    """Join it from another process, of a user with that home, who tries once."""
    return subprocess.run(
        [sys.executable, "-c", _JOIN, ours.address],
        env={
            **environment(home, ours.temporary),
            "RAY_AUTH_MODE": mode,
            "RAY_NUM_REDIS_GET_RETRIES": "1",
        },
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )
