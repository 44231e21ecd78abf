import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from integration.zookeeper_fixtures import eventually
from kazoo.client import KazooClient

from canal_group.actors.coordination.embedded import EmbeddedZooKeeper, running_in
from canal_group.merge.errors import ConfigError

OWNER = """
import sys, threading
from pathlib import Path
from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
server = EmbeddedZooKeeper(folder=Path(sys.argv[1]))
starter = threading.Thread(target=server.start)  # a thread that ends long before its process
starter.start()
starter.join()
print(server.pid, server.hosts, flush=True)
sys.stdin.read()
"""


def alive(pid):
    """Whether a process runs; an orphan that nobody has reaped yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def ask(hosts):
    client = KazooClient(hosts)
    client.start()
    try:
        client.ensure_path("/asked")
        return client.get_children("/")
    finally:
        client.stop()
        client.close()


@pytest.mark.parametrize("how", [signal.SIGKILL, None])
def test_it_lives_with_its_owner_and_ends_with_it(tmp_path, how):
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        pid, hosts = owner.stdout.readline().split()
        assert "asked" in ask(hosts)
        assert alive(pid)
        if how is None:
            owner.stdin.close()
        else:
            owner.send_signal(how)
        owner.wait()
        eventually(lambda: not alive(pid), "ZooKeeper to end with its owner")


def test_data_survives_in_a_given_folder_and_the_port_stays(tmp_path):
    server = EmbeddedZooKeeper(folder=tmp_path / "zk")
    server.start()
    hosts, pid = server.hosts, server.pid
    server.start()
    assert server.pid == pid
    ask(hosts)
    assert running_in(tmp_path / "zk") == hosts
    server.stop()
    server.stop()
    assert not alive(pid)
    assert running_in(tmp_path / "zk") is None
    server.start()
    assert server.hosts == hosts
    assert server.log_file == tmp_path / "zk/data/zookeeper.log"
    assert server.log_file.exists()
    client = KazooClient(hosts)
    client.start()
    assert client.exists("/asked")
    client.stop()
    client.close()
    server.stop()


def test_a_private_folder_goes_with_it():
    with EmbeddedZooKeeper() as server:
        folder = server.log_file.parent
        assert folder.is_dir()
    assert not folder.exists()
    assert server.pid is None


def test_a_paused_server_can_be_stopped():
    with EmbeddedZooKeeper() as server:
        pid = server.pid
        os.kill(pid, signal.SIGSTOP)
    assert not alive(pid)


def test_two_servers_do_not_share_a_port(tmp_path):
    with EmbeddedZooKeeper() as first:
        port = int(first.hosts.partition(":")[2])
        with pytest.raises(ConfigError, match="is taken"):
            EmbeddedZooKeeper(port).start()
        # What a folder says of a server that has ended is not taken for the one that has its port now.
        (tmp_path / "data").mkdir()
        (tmp_path / "data/zoo.cfg").write_text(f"clientPort={port}\n")
        assert running_in(tmp_path) is None
