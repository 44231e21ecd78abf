"""Pages on the disk: the same ones, in order, after a position; none that every cursor has passed."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from support.sources.pages import page

from canal_group.actors.snapshot.page_chunk import PageAt, mark_chunk
from canal_group.actors.snapshot.page_folder import KeptPage, PageFolder
from canal_group.binlog.archive.forms.key import Key, Keys
from canal_group.merge.errors import DataError, ShardUnavailable
from canal_group.merge.values.marks.snapshot_mark import OVER, SnapshotMark
from canal_group.merge.values.position import Position


@pytest.fixture
def pages(tmp_path):
    """Pages in an order that no order of names is, and the folder that has them: two of them in one file."""
    first = PageAt(Position("bin.000009", 900), 7)
    found = []
    for enters, *parts in ((first, (1, 2), (), (3,)), (PageAt(Position("bin.000010", 4), 8), (4,))):
        at = enters
        for part in parts:
            chunk, at = page(at, *part)
            found.append(chunk)
    folder = PageFolder(tmp_path / "pages")
    for group in (found[3:], found[2:3], found[:2]):
        folder.add([KeptPage(each, ()) for each in group])
    return found, folder


def ids(chunks):
    return [
        [row["after"]["id"] for table in each.tables for row in table.rows.to_pylist()] for each in chunks
    ]


def test_a_page_is_read_as_it_was_written(pages):
    for written, read in zip(*(pages[0], pages[1].after(Position("bin.000009", 4))), strict=True):
        assert np.array_equal(read.headers, written.headers)
        assert (read.names, read.snapshot) == (written.names, written.snapshot)
        for was, now in zip(written.tables, read.tables, strict=True):
            assert (now.name, now.source) == (was.name, was.source)
            assert now.rows.schema.equals(was.rows.schema, check_metadata=True)
            assert now.rows.equals(was.rows)


@pytest.mark.parametrize(
    ("position", "after"),
    [
        (Position("bin.000009", 900), [[1, 2], [], [3], [4]]),
        (Position("bin.000009", 900, page_rows=2), [[], [3], [4]]),
        (Position("bin.000009", 900, page_rows=3), [[3], [4]]),
        (Position("bin.000009", 900, page_rows=4), [[4]]),
        (Position("bin.000010", 4), [[4]]),
        (Position("bin.000010", 5), []),
    ],
)
def test_a_position_says_which_pages_follow(pages, position, after, tmp_path):
    folder = pages[1]
    assert ids(folder.after(position)) == after
    folder.remove_before(position)
    assert ids(folder.after(position)) == after
    # A file is removed when all of its pages were passed.
    assert len(list(tmp_path.rglob("*.page"))) == {4: 3, 3: 3, 2: 2, 1: 1, 0: 0}[len(after)]
    assert ids(PageFolder(tmp_path / "pages").after(position)) == after


def test_a_damaged_page_is_named(pages, tmp_path):
    file = min((tmp_path / "pages").glob("*.page"))
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"bin\.000009-.*cannot be read"):
        list(pages[1].after(Position("bin.000009", 4)))


def test_a_page_with_a_damaged_end_of_a_snapshot_is_named(tmp_path):
    chunk, _ = page(PageAt(Position("bin.000009", 4), 7), 1)
    PageFolder(tmp_path).add([KeptPage(replace(chunk, snapshot=OVER + "[]"), ())])
    with pytest.raises(DataError, match="cannot be read"):
        list(PageFolder(tmp_path).after(Position("bin.000009", 4)))


def test_pages_that_are_written_together_are_there_or_not(tmp_path, monkeypatch):
    """Were the second one there without the first, its cursor would say that the first was read."""
    folder, at = PageFolder(tmp_path), PageAt(Position("bin.000001", 4), 7)
    (one, at), (two, _) = (found := page(at, 1)), page(found[1], 2)

    def fails(_fd):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="No space left"):
            folder.add([KeptPage(one, ()), KeptPage(two, ())])
    assert ids(PageFolder(tmp_path).after(Position("bin.000001", 4))) == []
    PageFolder(tmp_path).add([KeptPage(one, ()), KeptPage(two, ())])
    assert ids(PageFolder(tmp_path).after(Position("bin.000001", 4))) == [[1], [2]]


def test_fenced_server_writes_page(tmp_path):
    at = PageAt(Position("bin.000001", 4), 7)
    old, new = PageFolder(tmp_path), PageFolder(tmp_path)
    with pytest.raises(ShardUnavailable, match="another lane's by now"):
        old.add([KeptPage(page(at, 1)[0], ())])
    new.add([KeptPage(page(at, 2)[0], ())])
    assert ids(PageFolder(tmp_path).after(at.boundary)) == [[2]]


def test_the_lane_that_opened_a_folder_last_removes_pages(pages, tmp_path):
    """The one before may be further: its client went back."""
    old, new = pages[1], PageFolder(tmp_path / "pages")
    old.remove_before(None)
    assert ids(new.after(Position("bin.000009", 4))) == [[1, 2], [], [3], [4]]
    new.remove_before(None)
    assert not list(tmp_path.rglob("*.page"))


def test_pages_are_encrypted_if_the_archive_is(tmp_path):
    at, keys = PageAt(Position("bin.000001", 4), 7), [Key(bytes([number] * 32)) for number in (1, 2)]
    for number, each in enumerate((keys[0], keys[1], None)):
        chunk, at = page(at, number)
        PageFolder(tmp_path, Keys() if each is None else Keys((each,))).add([KeptPage(chunk, ())])
    both = PageFolder(tmp_path, Keys((keys[1], keys[0])))
    assert ids(both.after(Position("bin.000001", 4))) == [[0], [1], [2]]
    contents = [each.read_bytes() for each in sorted(tmp_path.glob("*.page"))]
    assert [b"state" in each for each in contents] == [False, False, True]
    first = min(tmp_path.glob("*.page"))
    first.write_bytes(contents[0][:-1] + bytes([contents[0][-1] ^ 1]))
    with pytest.raises(DataError, match="cannot be read"):
        list(both.after(Position("bin.000001", 4)))


def test_a_mark_is_read_as_it_was_written(tmp_path):
    at = PageAt(Position("bin.000001", 4, page_rows=7), 9)
    mark = SnapshotMark("s0", "app", "", at.boundary, {"app.t": "why"}, 1)
    written = replace(mark_chunk(mark.to_sql(), at), snapshot="")
    PageFolder(tmp_path).add([KeptPage(written, ("before", "moved"))])
    (read,) = PageFolder(tmp_path).after(at.boundary)
    assert PageFolder(tmp_path).follows(at.boundary) == ("before", "moved")
    assert np.array_equal(read.headers, written.headers)
    assert (read.names, read.snapshot, read.tables) == (written.names, "", ())
    assert read.statements.equals(written.statements)
    assert read.statement_sources == written.statement_sources


@pytest.mark.parametrize("name", ["x.page", "a-1-2-3.page", "a'.000001-1-2-3-4.page", "a.1-1-2-3-x.page"])
def test_a_file_that_is_not_named_as_pages_are_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(DataError, match=r"is not a file of a snapshot's pages"):
        PageFolder(tmp_path)
