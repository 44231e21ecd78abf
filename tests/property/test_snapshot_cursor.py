"""The text of a snapshot's cursor gives the cursor back, and no other text gives one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.soak import cases

from canal_group.merge.errors import UsageError
from canal_group.merge.snapshot.cursor import (
    DONE,
    SNAPSHOT_TEXT_MAX,
    KeyRange,
    SnapshotCursor,
    TableCursor,
    name_of_text,
    name_text,
)
from canal_group.merge.values.chunk import TableName

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
TABLES = st.builds(TableCursor, st.text(), RANGES, st.lists(KEYS, max_size=3).map(tuple)).map(
    lambda table: DONE if table.done else table
)
NAMES = st.builds(TableName, st.text(max_size=9), st.text(max_size=9))
TEXTS = NAMES.map(name_text)
CURSORS = st.builds(
    SnapshotCursor,
    st.from_regex(r"\A[a-z0-9_][a-zA-Z0-9._-]{0,20}\Z"),
    st.dictionaries(TEXTS, TABLES, max_size=4),
    st.none() | st.lists(TEXTS, max_size=3).map(tuple),
    st.dictionaries(TEXTS, st.text(), max_size=2),
    st.booleans(),
    st.lists(TEXTS, max_size=2).map(tuple),
    st.text(max_size=9),
)


@given(CURSORS)
@settings(max_examples=cases(300))
def test_a_cursor_is_read_as_it_was_written(cursor):
    text = cursor.to_json()
    assert SnapshotCursor.from_json(text) == cursor
    assert SnapshotCursor.from_json(text).to_json() == text


@given(NAMES, NAMES)
@settings(max_examples=cases(300))
def test_two_names_have_two_texts(one, other):
    assert name_of_text(name_text(one)) == one
    assert (name_text(one) == name_text(other)) == (one == other)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (TableName("app", "t"), "app.t"),
        (TableName("a.b", "c"), "`a.b`.c"),
        (TableName("a", "b.c"), "a.`b.c`"),
        (TableName("a`", ""), "`a```.``"),
    ],
)
def test_a_dot_in_a_name_is_quoted(name, text):
    assert name_text(name) == text
    assert name_of_text(text) == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        "{}",
        '{"id": ""}',
        '{"id": "../up"}',
        '{"id": ".hidden"}',
        '{"id": "a/b"}',
        '{"id": "a", "done": "app.t"}',
        '{"id": "a", "done": ["t"]}',
        '{"id": "a", "done": ["a.b.c"]}',
        '{"id": "a", "wanted": [7]}',
        '{"id": "a", "where": {"app.t": 7}}',
        '{"id": "a", "where": {"t": "1"}}',
        '{"id": "a", "paused": 1}',
        '{"id": "a", "tables": {"a.b": "done"}}',
        '{"id": "a", "tables": {"a.b": {"key": "id int", "ranges": []}}}',
        '{"id": "a", "tables": {"a.b": {"key": 1, "ranges": [[null, null]]}}}',
        '{"id": "a", "tables": {"a.b": {"key": "id int", "ranges": [[[], null]]}}}',
        '{"id": "a", "tables": {"a.b": {"key": "id int", "ranges": [[[7], null]]}}}',
        '{"id": "a", "tables": {"a.b": {"key": "id int", "ranges": [null]}}}',
        '{"id": "a", "tables": {"a.b": {"key": "", "ranges": [[["1"], null]], "again": [null]}}}',
        """{"id": "a", "tables": {"a.b": {"key": "", "ranges": [[["1) OR (1=1"], null]]}}}""",
        """{"id": "a", "tables": {"a.b": {"key": "", "ranges": [[["'1' OR '1'"], null]]}}}""",
        '{"id": "a", "where": {"a.b": "' + "x" * SNAPSHOT_TEXT_MAX + '"}}',
    ],
)
def test_another_text_is_refused(text):
    with pytest.raises(UsageError, match="not a cursor of a snapshot"):
        SnapshotCursor.from_json(text)
