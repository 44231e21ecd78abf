"""The commands of docs/operating.md that back up, restore and move a server; machines are folders."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from integration.serve_process import Serve
from integration.shop import DEADLINE_S, Shop
from support.instance.program import PROGRAM
from support.readme import ROOT, blocks
from support.soak import patient

import canal_group
from playground.database.child_process import free_port

OPERATING = blocks((ROOT / "docs/operating.md").read_text())["Backup, restore and moving"]
BACK_UP, RESTORE, MOVE = OPERATING
SERVER_FILE = next(
    each for each in blocks((ROOT / "docs/deploying.md").read_text())["systemd"] if "preset: file" in each
)
#: where the service has its instance files
INSTANCES = "etc/canal-group/instances"


class Machine:
    """A folder in the place of a machine's root, and the service there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.service: Serve | None = None

    def systemctl(self, verb: str) -> None:
        if verb == "start":
            assert self.service is None
            self.service = Serve("-c", str(self.root / INSTANCES))
            self.service.says("shards stream")
        elif self.service is not None:
            assert verb == "stop"
            assert self.service.end() == 0
            self.service = None


class Machines:
    """The machine where commands are typed, and the other one; one of them serves.

    Args:
        folder: an empty one.
        shop: what they serve.
    """

    def __init__(self, folder: Path, shop: Shop) -> None:
        self.here, self.other = Machine(folder / "here"), Machine(folder / "other")
        self._folder, self._shop, self._port = folder, shop, free_port()
        instances = self.here.root / INSTANCES
        instances.mkdir(parents=True)
        for machine in (self.here, self.other):
            (machine.root / "var/lib/canal-group").mkdir(parents=True)
        shared = self._at(self.here, SERVER_FILE)
        (instances / "server.yaml").write_text(
            f"{shared}gateway: {{port: {self._port}}}\nray: {{num_cpus: 2}}\n"
        )
        (instances / "password").write_text(shop.servers[0].address().password)
        (instances / "password").chmod(0o600)
        login = "user: canal, password_file: password"
        shards = "".join(
            f"- {{name: s{index}, host: 127.0.0.1, port: {server.port}, {login}}}\n"
            for index, server in enumerate(shop.servers)
        )
        (instances / "shop.yaml").write_text(f"destination: {shop.destination}\nshards:\n{shards}")

    def _at(self, machine: Machine, text: str) -> str:
        """Return a text with a machine's paths."""
        return re.sub(r"(?<![\w/])/(etc|var|backup)\b", rf"{machine.root}/\1", text)

    def type(self, block: str) -> None:
        """Type the lines of a block on this machine."""
        for line in block.splitlines():
            first, *words = shlex.split(line, comments=True)
            if first == "systemctl":
                self.here.systemctl(words[0])
            elif first == "ssh":
                assert words[:2] == ["other", "systemctl"]
                # The folders that the settings name are those of another root.
                file = self.other.root / INSTANCES / "server.yaml"
                file.write_text(file.read_text().replace(str(self.here.root), str(self.other.root)))
                self.other.systemctl(words[2])
            elif first == "rsync":
                options, source, (host, _, target) = words[0], words[1], words[2].partition(":")
                assert (options, host) == ("-a", "other")
                to = self._at(self.other, target)
                subprocess.run(
                    f"mkdir -p {to} && cp -a {self._at(self.here, source)}. {to}", shell=True, check=True
                )
            else:
                self._shell(line)

    def _shell(self, line: str) -> None:
        typed = self._at(self.here, line).partition("#")[0]
        typed = typed.replace("-d shop", f"-d {self._shop.destination}").replace(
            "other:11113", "127.0.0.1:11113"
        )
        if "status" in typed and " -g " not in typed:
            typed = typed.replace("status", "status -g grpc://127.0.0.1:11113")
        typed = typed.replace("127.0.0.1:11113", f"127.0.0.1:{self._port}")
        typed = re.sub(r"^canal-group", shlex.join(PROGRAM), typed)
        subprocess.run(["bash", "-ec", typed], cwd=self._folder, check=True, timeout=DEADLINE_S)

    @contextmanager
    def connected(self) -> Iterator[canal_group.Consumer]:
        who = {"destination": self._shop.destination, "client_id": "mirror", "wait_s": DEADLINE_S}
        with canal_group.connect(f"grpc://127.0.0.1:{self._port}", **who) as consumer:
            yield consumer

    def ids(self, count: int) -> list[int]:
        """Read so many rows and acknowledge them; return their ids. No more of them are there."""
        found: list[int] = []
        with self.connected() as consumer:
            while len(found) < count:
                batch = consumer.get_without_ack(timeout=DEADLINE_S)
                assert batch is not None
                found += [int(dict(row["after"])["id"]) for row in batch.envelope().to_pylist()]
                consumer.ack(batch.batch_id)
            assert consumer.get_without_ack(timeout=0.5) is None
        return sorted(found)


@pytest.mark.soak
@pytest.mark.timeout(patient(300))
def test_a_server_is_backed_up_restored_and_moved_as_printed(offline: Shop, tmp_path: Path):
    """1. rows 0 and 1 are acknowledged, then it is backed up; 2. 2 and 3 are acknowledged; 3. it is restored:
    2 and 3 come again, and nothing else; 4. it is moved: only what was written since comes.
    """
    machines = Machines(tmp_path, offline)
    machines.here.systemctl("start")
    try:
        with machines.connected():
            offline.write_everywhere(1)
        assert machines.ids(2) == [0, 1]
        machines.type(BACK_UP)
        offline.write_everywhere(1)
        assert machines.ids(2) == [2, 3]
        machines.type(RESTORE)
        assert machines.ids(2) == [2, 3]
        machines.type(MOVE)
        (client,) = json.loads((tmp_path / "before.json").read_text())["group"]["clients"]
        with machines.connected() as consumer:
            assert consumer.cursor.to_json() == client["cursor"]
        offline.write_everywhere(1)
        assert machines.ids(2) == [4, 5]
    finally:
        machines.here.systemctl("stop")
        machines.other.systemctl("stop")
