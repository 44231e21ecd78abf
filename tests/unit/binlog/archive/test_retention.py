"""What a retention removes, by its rules in their order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from canal_group.binlog.archive.manifest import FileEntry, Form, Manifest, State
from canal_group.binlog.archive.operating.retention import (
    ArchivedHistory,
    DiskMarks,
    Limits,
    removals,
)
from canal_group.merge.values.position import Position
from canal_group.merge.values.retention.kept_position import KeptPosition

HOUR_S = 3600
NOW_US = 100 * HOUR_S * 1_000_000


def history(server="a", hours=(0, 10, 20, 30), stored=100, begin=1):
    files = [
        FileEntry(f"b.{begin + n:06}", at * HOUR_S, State.CLOSED, Form.ZSTD, size=300, stored=stored)
        for n, at in enumerate(hours)
    ]
    return ArchivedHistory(f"{server}@{hours[0]}", Manifest(server, hours[0], tuple(files)))


def kept(offset_file, server="a", created_s=0):
    return KeptPosition("mirror", Position(offset_file, 4, server=server, created_s=created_s))


def removed(histories, limits, positions=()):
    return [
        (each.history, each.entry.name, each.losers)
        for each in removals(histories, limits, positions, NOW_US)
    ]


def test_without_limits_nothing_goes():
    assert removed([history()], Limits(None, None)) == []


@pytest.mark.parametrize(("hours", "gone"), [(91, []), (89, [1]), (79, [1, 2]), (1, [1, 2, 3])])
def test_a_file_goes_when_all_of_it_is_older(hours, gone):
    """A file ended when the next one was created; the newest stays."""
    found = removed([history()], Limits(None, hours))
    assert [name for _, name, _ in found] == [f"b.{number:06}" for number in gone]


def test_a_kept_position_is_stronger_than_hours():
    assert [name for _, name, _ in removed([history()], Limits(None, 1), [kept("b.000002")])] == ["b.000001"]
    other = kept("b.000002", server="b")
    assert len(removed([history()], Limits(None, 1), [other])) == 3
    earlier = kept("b.000002", created_s=77)
    assert len(removed([history()], Limits(None, 1), [earlier])) == 3, "it is of another history"


def test_bytes_are_stronger_than_a_kept_position_and_name_it():
    found = removals([history()], Limits(250, None), [kept("b.000002")], NOW_US)
    assert [(each.entry.name, each.losers) for each in found] == [("b.000001", ()), ("b.000002", ("mirror",))]
    assert str(found[1]).endswith("is 50 bytes over its limit; lost to mirror")


def test_moved_files_free_no_bytes_of_the_disk():
    first, *others = history().manifest.files
    moved = Manifest("a", 0, (replace(first, state=State.MOVED, remote="a@0/b.e1"), *others))
    found = removed([ArchivedHistory("a@0", moved)], Limits(250, None))
    assert [name for _, name, _ in found] == ["b.000001", "b.000002"], "200 bytes stay"


def test_the_oldest_of_all_servers_goes_first():
    histories = [history("a", (0, 10, 20)), history("b", (5, 8, 30))]
    found = removed(histories, Limits(300, None))
    assert [(name, file) for name, file, _ in found] == [
        ("b@5", "b.000001"),
        ("a@0", "b.000001"),
        ("a@0", "b.000002"),
    ]


def test_the_newest_file_of_a_server_stays():
    histories = [history("a", (0, 10)), history("a", (50, 60))]
    assert [file for _, file, _ in removed(histories, Limits(1, None))] == [
        "b.000001",
        "b.000002",
        "b.000001",
    ]


def test_an_archive_stops_at_the_high_mark_and_goes_on_at_the_low_one():
    marks = DiskMarks(high=0.9, low=0.8)
    used = [0.5, 0.89, 0.9, 0.85, 0.8, 0.79, 0.85]
    assert [marks.may_write(round((1 - each) * 1000), 1000) for each in used] == [
        True,
        True,
        False,
        False,
        False,
        True,
        True,
    ]
