"""The text of a snapshot's cursor gives the cursor back, and no other text gives one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.soak import cases

from canal_group.merge.errors import UsageError
from canal_group.merge.snapshot.cursor import KeyRange, SnapshotCursor, TableCursor

LITERALS = st.one_of(
    st.integers().map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(lambda number: format(number, "f")),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda number: f"{number:.17e}"),
    st.binary().map(lambda value: f"X'{value.hex()}'"),
    st.text().map(lambda text: f"_utf8mb4 X'{text.encode('utf-8', 'surrogatepass').hex()}'"),
    st.datetimes().map(lambda moment: f"'{moment:%Y-%m-%d %H:%M:%S.%f}'"),
)
KEYS = st.lists(LITERALS, min_size=1, max_size=3).map(tuple)
BOUNDS = st.none() | KEYS
RANGES = st.lists(st.builds(KeyRange, BOUNDS, BOUNDS), max_size=16).map(tuple)
TABLES = st.builds(TableCursor, st.text(), RANGES, st.lists(KEYS, max_size=3).map(tuple))
CURSORS = st.builds(SnapshotCursor, st.dictionaries(st.text(), TABLES, max_size=4))


@given(CURSORS)
@settings(max_examples=cases(300))
def test_a_cursor_is_read_as_it_was_written(cursor):
    text = cursor.to_json()
    assert SnapshotCursor.from_json(text) == cursor
    assert SnapshotCursor.from_json(text).to_json() == text


def test_nothing_stored_is_a_cursor_before_the_first_page():
    assert SnapshotCursor.from_json(None) == SnapshotCursor()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        '{"a.b": "done"}',
        '{"a.b": {"key": "id int", "state": "begun"}}',
        '{"a.b": {"key": 1, "state": "done"}}',
        '{"a.b": {"key": "id int", "ranges": [[[], null]]}}',
        '{"a.b": {"key": "id int", "ranges": [[[7], null]]}}',
        '{"a.b": {"key": "id int", "ranges": [null]}}',
        '{"a.b": {"key": "id int", "ranges": [[["1"], null]], "again": [null]}}',
        """{"a.b": {"key": "id int", "ranges": [[["1) OR (1=1"], null]]}}""",
        """{"a.b": {"key": "id int", "ranges": [[["'1' OR '1'"], null]]}}""",
    ],
)
def test_another_text_is_refused(text):
    with pytest.raises(UsageError, match="not a cursor of a snapshot"):
        SnapshotCursor.from_json(text)
