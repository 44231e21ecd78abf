"""The data folder that new servers begin with a copy of: who makes it, and for whom."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from playground.database.server_process import DataTemplate


class Maker:
    """Makes data folders while others wait, and notes how many; the first ones fail."""

    def __init__(self, failures: int = 0) -> None:
        self.made, self._failures = 0, failures

    def make(self, datadir: Path) -> None:
        self.made += 1
        datadir.mkdir()
        for held in datadir.parents[1].glob("x.lock"):
            with held.open() as lock, pytest.raises(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if self.made <= self._failures:
            raise OSError("no room")


def test_processes_with_one_folder_make_it_once(tmp_path: Path):
    maker = Maker()
    one, other = (DataTemplate("x", maker.make, str(tmp_path)) for _ in range(2))
    assert one.path() == other.path() == one.path()
    assert one.path().is_dir()
    assert maker.made == 1


def test_without_a_folder_each_has_its_own():
    maker = Maker()
    one, other = (DataTemplate("x", maker.make, None) for _ in range(2))
    assert one.path() == one.path() != other.path()
    assert maker.made == 2


def test_what_could_not_be_made_is_made_by_the_next(tmp_path: Path):
    maker = Maker(failures=1)
    one, other = (DataTemplate("x", maker.make, str(tmp_path)) for _ in range(2))
    with pytest.raises(OSError, match="no room"):
        one.path()
    assert other.path().is_dir()
    assert maker.made == 2
