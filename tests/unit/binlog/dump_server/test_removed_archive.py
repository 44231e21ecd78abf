"""An archive whose folder is removed while a dump server holds its lock."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from support.binlog.archived import SERVER, options_of

from canal_group.binlog.dump_server.dumping import _Opened
from canal_group.merge.errors import UsageError


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
