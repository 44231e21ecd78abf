"""Processes that wait to become dump servers: none is left over, and one that is gone is not used."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from support.deadline import await_true
from support.sources.marked import MARK, marked

from canal_group.binlog.server.dump_server.spare import Spare


def has_ended(pid: int) -> bool:
    """Return whether a process has closed its files: it loses its environment before that."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_one_that_is_not_needed_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(MARK, f"{tmp_path}/first")
    spare = Spare()
    spare.prepare()
    spare.prepare()
    await_true(lambda: len(marked(f"{tmp_path}/first")) == 1, "one waits")
    spare.drop()
    await_true(lambda: not marked(f"{tmp_path}/first"), "it ends")
    spare.drop()


def test_one_that_was_killed_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(MARK, f"{tmp_path}/first")
    spare = Spare()
    spare.prepare()

    killed = set[int]()

    def is_gone() -> bool:
        found = marked(f"{tmp_path}/first")
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        killed.update(found)
        return not found and all(map(has_ended, killed))

    await_true(lambda: len(marked(f"{tmp_path}/first")) == 1, "one waits")
    await_true(is_gone, "it is gone")
    monkeypatch.setenv(MARK, f"{tmp_path}/second")
    taken = spare.take()
    try:
        await_true(lambda: len(marked(f"{tmp_path}/second")) == 1, "another one starts")
    finally:
        taken.close()
    await_true(lambda: not marked(f"{tmp_path}/second"), "it ends")
