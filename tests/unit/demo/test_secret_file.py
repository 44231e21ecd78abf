"""Files with the passwords of servers that we start."""

from __future__ import annotations

import os

import pytest

from playground.database.engine import Engine
from playground.database.secret_file import secret_file
from playground.database.server_process import CANAL_PASSWORD
from playground.database.servers import make
from playground.instance import settings_for


@pytest.fixture
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_only_its_owner_can_read_a_secret_file(tmp_path):
    file = secret_file(tmp_path / "secret", "hush")
    assert file.read_text() == "hush"
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_readable_file_becomes_private_with_its_secret(tmp_path):
    file = tmp_path / "secret"
    file.write_text("a longer text")
    file.chmod(0o644)
    assert secret_file(file, "hush").read_text() == "hush"
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("open_umask")
def test_the_demo_keeps_its_password_and_nodes_private(tmp_path):
    (server,) = make(Engine.MARIADB, 1)
    settings = settings_for([server], tmp_path, zookeeper=True)
    server.close()
    assert len(CANAL_PASSWORD) == 32
    assert settings.coordination.user == "canal"
    assert settings.coordination.password.get_secret_value() == CANAL_PASSWORD
    assert (tmp_path / "password").read_text() == CANAL_PASSWORD
    assert (tmp_path / "password").stat().st_mode & 0o777 == 0o600
    assert CANAL_PASSWORD not in repr(settings)
