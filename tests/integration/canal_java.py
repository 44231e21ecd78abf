"""canal's Java client for tests, unchanged: the program that drives it, compiled and run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from integration.canal_clients import ClientProcess, running

from benchmarks._canal_server import CanalMissingError, jdk

#: what `scripts/get-brokers.sh` resolves
JARS = Path(__file__).parents[2] / ".cache" / "canal-client"
_SOURCE = Path(__file__).parent / "canal" / "CanalClient.java"
#: megabytes of a client's heap
_HEAP_MB = 256


class CanalJava(ClientProcess):
    """canal's Java client: one connector, of one server or of ZooKeeper; see `CanalClient.java`."""

    def open(self, address: str, destination: str, table_filter: str = "", **more: Any) -> None:
        """Connect to one server, and subscribe."""
        host, _, port = address.rpartition(":")
        login = {"username": "", "password": "", **more}
        self.connect_to(host=host, port=int(port), destination=destination, **login)
        self.subscribe(filter=table_filter)

    def open_by_zookeeper(self, hosts: str, destination: str, **more: Any) -> None:
        """Connect to whichever server is active, and subscribe."""
        login = {"username": "", "password": "", **more}
        self.connect_by_zookeeper(hosts=hosts, destination=destination, **login)
        self.subscribe(filter="")


#: begins another process with a client
Java: TypeAlias = Callable[[], AbstractContextManager[CanalJava]]


@pytest.fixture(scope="session")
def canal_java(tmp_path_factory: pytest.TempPathFactory) -> Java:
    """Run processes with canal's Java client."""
    try:
        java, javac = jdk()
    except CanalMissingError as error:
        pytest.skip(str(error))
    if not JARS.is_dir():
        pytest.skip("canal's Java client is not here: scripts/get-brokers.sh gets it")
    classes = tmp_path_factory.mktemp("classes")
    path = f"{classes}{os.pathsep}{JARS}/*"
    subprocess.run([javac, "-d", str(classes), "-cp", path, str(_SOURCE)], check=True)
    # It takes the bytes of a password in the charset of its locale.
    options = [f"-Xmx{_HEAP_MB}m", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8"]
    command = [java, *options, "-cp", path, "CanalClient"]

    @contextmanager
    def start() -> Iterator[CanalJava]:
        with running(command, os.environ) as process:
            yield CanalJava(process)

    return start
