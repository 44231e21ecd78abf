import socket

import pytest

from canal_group.actors.coordination import embedded
from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from canal_group.merge.errors import ConfigError


def test_a_missing_java_names_the_package(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(ConfigError, match="default-jre-headless"):
        EmbeddedZooKeeper().start()


def test_a_missing_pyspark_is_named(monkeypatch):
    monkeypatch.setattr(embedded, "_find_java", lambda: "java")
    monkeypatch.setattr(embedded.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pyspark is not installed.*canal-group\[spark\].*default-jre"):
        EmbeddedZooKeeper().start()


def test_a_taken_port_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(embedded, "_find_java", lambda: "java")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"Port {port} .* is taken"):
            EmbeddedZooKeeper(port, tmp_path).start()
