"""A search goes on until it has seen what its source had written, although the source has sent all it had."""

from __future__ import annotations

import numpy as np
import pytest
from support.defaults import address_of

from canal_group.binlog.server.low_watermarks import CaughtUp
from canal_group.binlog.server.starts import up_to as module
from canal_group.binlog.server.starts.up_to import up_to
from canal_group.merge.errors import SourceUnavailable
from canal_group.merge.values.chunk import Chunk
from canal_group.merge.values.header import HEADER
from canal_group.merge.values.position import Position

ADDRESS = address_of("s1", "db0")
END = Position("bin.000003", 700)


class Steps:
    """A stream that is read step by step: a transaction's end as (file, offset), or caught up at one."""

    def __init__(self, *steps):
        self.steps = steps
        self.file_offset = None

    def __iter__(self):
        for kind, file, offset in self.steps:
            self.file_offset = file, offset
            if kind == "caught up":
                yield CaughtUp(0)
                continue
            headers = np.zeros(1, HEADER)
            headers["end_offset"] = offset
            yield Chunk(headers, (file,), ())


def ends(*steps, end=END, file=None):
    chunks = up_to(ADDRESS, Steps(*steps), end, file)
    return [(each.names[0], int(each.headers[0]["end_offset"])) for each in chunks]


def test_the_end_is_not_where_the_source_had_no_more():
    """What is written and not yet on the source's disk comes after that."""
    assert ends(
        ("chunk", "bin.000003", 600),
        ("caught up", "bin.000003", 600),
        ("chunk", "bin.000003", 700),
        ("chunk", "bin.000003", 800),
    ) == [("bin.000003", 600), ("bin.000003", 700)]


def test_the_end_may_be_after_the_last_transaction():
    steps = ("chunk", "bin.000003", 600), ("caught up", "bin.000003", 700), ("chunk", "bin.000003", 800)
    assert ends(*steps) == [("bin.000003", 600)]
    assert ends(*steps, end=None) == [("bin.000003", 600)]


def test_a_file_ends_where_the_next_one_begins():
    steps = ("chunk", "bin.000003", 600), ("caught up", "bin.000004", 4), ("chunk", "bin.000004", 800)
    assert ends(*steps, end=Position("bin.000005", 4), file="bin.000003") == [("bin.000003", 600)]


def test_a_source_that_never_sends_it_is_unavailable(monkeypatch):
    monkeypatch.setattr(module, "_SYNC_S", -1.0)
    with pytest.raises(SourceUnavailable, match=r"written its binlog up to bin\.000003:700"):
        ends(("chunk", "bin.000003", 600), ("caught up", "bin.000003", 600))
