"""A stream that is read again has the same pages at the same positions, however its chunks are cut."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.defaults import ring_of
from support.group.builders import Tx, chunk_of
from support.sources.pages import page

from canal_group.actors.snapshot.page_chunk import PageAt
from canal_group.actors.snapshot.page_folder import KeptPage, PageFolder
from canal_group.actors.snapshot.pages_again import PagesAgain
from canal_group.actors.store.ring import RingStore
from canal_group.merge.values.position import Position

FILE = "bin.000001"
STREAM = chunk_of(Tx(1), Tx(2, (1, 1)), Tx(3))


@pytest.fixture
def folder(tmp_path):
    """Two pages after the first transaction, and one at the beginning of a file without a transaction."""
    made, at = PageFolder(tmp_path), PageAt(Position(FILE, 104), 1)
    for ids in ((1,), (2, 3)):
        chunk, at = page(at, *ids)
        made.add([KeptPage(chunk, ())])
    made.add([KeptPage(page(PageAt(Position("bin.000002", 4), 3), 4)[0], ())])
    return made


def stored(folder, start, stream=STREAM):
    """Return the end and the first ordinal of each header, in the ring's order."""
    again, ring = PagesAgain(folder, start), RingStore(ring_of("items", 16, 1))
    for part in again.parts(stream):
        ring.put(stream, part.begin, part.end)
        for each in part.pages:
            ring.put(each)
    for each in again.up_to("bin.000002", 4):
        ring.put(each)
    run = ring.get_within(0)
    return [(run.names[h["file"]][-1], int(h["end_offset"]), int(h["row_begin"])) for h in run.headers]


def test_pages_enter_where_they_did(folder):
    assert stored(folder, Position(FILE, 4)) == [
        ("1", 104, 0),
        ("1", 104, 0),
        ("1", 104, 1),
        ("1", 105, 0),
        ("1", 204, 1),
        ("1", 304, 0),
        ("2", 4, 0),
    ]


def test_a_page_that_a_position_has_does_not_enter_again(folder):
    again = PagesAgain(folder, Position(FILE, 104, page_rows=1))
    assert [int(each.headers["row_begin"][0]) for each in again.up_to(FILE, 104)] == [1]
    assert [(each.begin, each.end, each.pages) for each in again.parts(STREAM)] == [(0, 4, ())]


@pytest.mark.parametrize("fragments", [1, 2])
def test_a_page_where_a_file_begins_is_before_its_transactions(folder, fragments):
    """Also before one whose end is in another chunk."""
    stream = chunk_of(Tx(1), Tx(2), Tx(3), Tx(4, (1,) * fragments))
    found = stored(folder, Position(FILE, 204), replace(stream, headers=stream.headers[:4]))
    assert found[-3:] == [("1", 304, 0), ("2", 4, 0), ("2", 104 if fragments == 1 else 5, 0)]
