"""What files prove that a source has begun its binlog anew."""

from __future__ import annotations

import pytest

from canal_group.merge.errors import DataError
from canal_group.merge.values.resets.reset import (
    Absence,
    absence,
    begun_anew,
    created_again,
    refused_again,
    tells_reset,
)


@pytest.mark.parametrize(
    ("before_s", "now_s", "again"),
    [(10, 20, True), (20, 10, True), (10, 10, False), (0, 10, False), (10, 0, False), (0, 0, False)],
)
def test_a_file_was_created_again_if_both_times_are_known_and_differ(before_s, now_s, again):
    assert created_again(before_s, now_s) is again
    assert begun_anew(("bin.000002", before_s), ("bin.000002", now_s)) is again


@pytest.mark.parametrize(
    ("now", "anew"),
    [
        (("bin.000001", 30), True),
        (("bin.000001", 20), False),
        (("bin.000001", 0), False),
        (("bin.000003", 30), False),
        (("bin.000003", 10), False),
        (("other.000001", 30), False),
    ],
)
def test_a_lower_number_that_was_created_later_is_of_a_new_binlog(now, anew):
    assert begun_anew(("bin.000002", 20), now) is anew
    assert not begun_anew(("bin.000002", 0), now)


@pytest.mark.parametrize(
    ("oldest", "why"),
    [
        ("bin.000010", Absence.PURGED),
        ("bin.000009", Absence.PURGED),
        ("bin.000008", Absence.RESET),
        ("mysql-bin.000010", Absence.UNKNOWN),
    ],
)
def test_a_file_that_is_not_there_was_purged_only_if_it_is_old(oldest, why):
    assert absence("bin.000009", oldest) is why


def test_a_refusal_says_when_both_files_were_created():
    refused = refused_again("bin.000002", 86_400, 90_000)
    assert "bin.000002 was created at 1970-01-02 01:00:00 UTC" in refused.message
    assert "at 1970-01-02 00:00:00 UTC" in refused.message
    assert refused.details == {"created_s": 90_000, "expected_created_s": 86_400}
    assert tells_reset(refused)
    assert not tells_reset(DataError("No."))
