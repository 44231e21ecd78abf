"""Dumps of a source one after another: what lasts from one to the next."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import pytest
from support.binlog.archived import SERVER, options_of
from support.defaults import address_of

from canal_group.binlog.dump_server.dumping import Dumping, _Opened
from canal_group.merge.errors import UsageError
from canal_group.merge.values.resets.reset import refused_again


def test_two_processes_never_write_a_folder_that_was_made_again(tmp_path: Path) -> None:
    """1. The folder is removed. 2. Another process makes it again, before the first one looks."""
    options = options_of(tmp_path / "archive")
    first, other = _Opened(options, SERVER), _Opened(options, SERVER)
    assert first.archive() is first.archive()
    shutil.rmtree(tmp_path / "archive")
    other.archive()
    with pytest.raises(UsageError, match=f"Process {os.getpid()} writes to the archive already"):
        first.archive()
    other.close()
    first.archive()
    first.close()


def test_a_reset_is_remembered_until_a_dump_has_begun(tmp_path: Path) -> None:
    """1. A reset is noticed. 2. Nobody answers at the source for a while."""
    address = address_of("s1", "127.0.0.1", port=1, archive=options_of(tmp_path))
    dumping = Dumping(address, SERVER, "mysql-bin.000001", 4, lambda: None)
    with contextlib.closing(dumping):
        dumping.failed(refused_again("mysql-bin.000001", 1, 2), 0.0)
        assert dumping.begin(60.0) is None
        assert "reset" not in dumping.why
        assert dumping._anew
