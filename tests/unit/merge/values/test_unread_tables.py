"""The tables that snapshots could not read: their bounds, and what the end of the next one makes of them."""

from __future__ import annotations

import pytest

from canal_group.merge.values.marks.snapshot_mark import (
    NAMED_MAX,
    REASON_BYTES_MAX,
    FailedTables,
    SnapshotEnd,
    unread_of_json,
    unread_to_json,
)

BEFORE = FailedTables.of({"shop.a": "denied", "shop.b": "denied"})


@pytest.mark.parametrize(
    ("wanted", "failed", "left"),
    [
        (("shop.a",), {}, ["shop.b"]),
        (("shop.a",), {"shop.a": "no key"}, ["shop.a", "shop.b"]),
        (("shop.c",), {}, ["shop.a", "shop.b"]),
        (("shop.a", "shop.b"), {}, []),
        (None, {"shop.c": "denied"}, ["shop.c"]),
        (None, {}, []),
    ],
)
def test_an_end_takes_out_the_tables_that_its_snapshot_has_read(wanted, failed, left):
    end = SnapshotEnd.of_text(SnapshotEnd(wanted, FailedTables.of(failed)).to_text())
    assert end is not None
    after = end.after(BEFORE)
    assert (sorted(after.reasons), after.count) == (left, len(left))
    assert after.reasons.get("shop.a", failed.get("shop.a")) == failed.get(
        "shop.a", after.reasons.get("shop.a")
    )


def test_names_and_reasons_are_bounded_and_the_rest_is_counted():
    many = FailedTables.of({f"shop.t{number:04}": "ü" * 1_000 for number in range(NAMED_MAX + 7)})
    assert (len(many.reasons), many.count, many.unnamed) == (NAMED_MAX, NAMED_MAX + 7, 7)
    assert {len(reason.encode()) for reason in many.reasons.values()} == {REASON_BYTES_MAX}
    end = SnapshotEnd(tuple(many.reasons))
    after = end.after(many)
    assert (after.reasons, after.count) == ({}, 7), "which tables these are is not known: they stay"
    assert SnapshotEnd().after(after) == FailedTables()


def test_a_text_is_that_of_a_cursor_or_of_an_end():
    assert SnapshotEnd.of_text('{"id":"copy-1-1"}') is None
    end = SnapshotEnd(("shop.ä",), FailedTables.of({"shop.ä": "denied"}))
    assert SnapshotEnd.of_text(end.to_text()) == end
    assert unread_of_json(unread_to_json({"s0": BEFORE})) == {"s0": BEFORE}


@pytest.mark.parametrize(
    "text", ["over ", "over []", 'over {"reasons":{},"count":-1}', 'over {"reasons":{"t":""},"count":0}']
)
def test_a_damaged_end_is_refused(text):
    with pytest.raises((KeyError, TypeError, ValueError)):
        SnapshotEnd.of_text(text)
