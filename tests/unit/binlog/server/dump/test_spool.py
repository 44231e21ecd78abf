"""Spools: what is put in comes out, from memory and from a file without a name, up to a limit."""

from __future__ import annotations

import os
import random
import resource
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from canal_group.binlog.server.dump.spool import MEMORY_BYTES, AheadEndsError, Spool


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def files_in(folder):
    """The descriptors of files in a folder, whether or not they have a name."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        try:
            if str(each.readlink()).startswith(str(folder)):
                found.append(int(each.name))
        except FileNotFoundError:  # the listing's own
            continue
    return found


def pieces(total, seed=1):
    chance = random.Random(seed)
    while total > 0:
        size = min(total, chance.choice((1, 100, 65_536, 400_000)))
        yield chance.randbytes(size)
        total -= size


def read(spool, sizes=(7, 100_000, 1 << 20)):
    out, turn = [], 0
    while spool.unread:
        room = bytearray(sizes[turn % len(sizes)])
        out.append(bytes(room[: spool.read_into(room)]))
        turn += 1
    return b"".join(out)


@pytest.mark.parametrize("total", [0, 1, MEMORY_BYTES - 1, MEMORY_BYTES, 5 * MEMORY_BYTES + 3])
def test_what_is_put_in_comes_out(folder, total):
    spool, data = Spool(1 << 30), list(pieces(total))
    for each in data:
        spool.put(each)
    if total < MEMORY_BYTES:
        assert files_in(folder) == [], "little needs no file"
    assert read(spool) == b"".join(data)
    assert files_in(folder) == [], "what was read is freed"


def test_its_file_has_no_name_and_is_its_owners(folder):
    spool = Spool(1 << 30)
    spool.put(bytes(MEMORY_BYTES))
    (file,) = files_in(folder)
    assert list(folder.iterdir()) == []
    assert stat.S_IMODE(os.fstat(file).st_mode) == 0o600
    assert os.fstat(file).st_nlink == 0
    spool.close()
    assert files_in(folder) == []


def put_all(spool, data):
    """Put pieces into a spool until it is full; return how many it holds, and why."""
    for count, each in enumerate(data, start=1):
        try:
            spool.put(each)
        except AheadEndsError as full:
            return count, str(full)
    raise AssertionError("it takes all")


@contextmanager
def files_of_at_most(size):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_spool_holds_all_that_was_put_in(folder):
    data = list(pieces(6 * MEMORY_BYTES))
    spool = Spool(3 * MEMORY_BYTES)
    count, why = put_all(spool, data)
    assert why == f"{3 * MEMORY_BYTES:,} bytes are the limit"
    assert 2 * MEMORY_BYTES < sum(map(len, data[:count])) < 5 * MEMORY_BYTES
    assert read(spool) == b"".join(data[:count])


def test_a_disk_that_takes_no_more_makes_it_full(folder):
    """A write stops in the middle: what was written of it does not count."""
    data = list(pieces(6 * MEMORY_BYTES))
    spool = Spool(1 << 30)
    with files_of_at_most(2 * MEMORY_BYTES + MEMORY_BYTES // 2):
        count, why = put_all(spool, data)
    assert why == "no temporary file takes more (File too large)"
    assert read(spool) == b"".join(data[:count])


def test_without_a_folder_it_is_full_at_once(folder):
    folder.rmdir()
    spool = Spool(1 << 30)
    _, why = put_all(spool, [bytes(MEMORY_BYTES)])
    assert why == "no temporary file takes more (No such file or directory)"
    assert read(spool) == bytes(MEMORY_BYTES)


def test_a_part_of_the_disk_stays_free(folder):
    """All of it here: the first write is refused."""
    data = list(pieces(3 * MEMORY_BYTES))
    spool = Spool(1 << 30, free_min=1.0)
    count, why = put_all(spool, data)
    assert why == "100% of the disk of temporary files stays free"
    assert sum(map(len, data[:count])) < 2 * MEMORY_BYTES
    assert read(spool) == b"".join(data[:count])
