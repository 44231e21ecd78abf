"""Images that lack columns, and JSON that is stored as differences: rows events made by hand."""

from __future__ import annotations

import json
import struct

import pytest
from support.binlog.binlog_bytes import File
from support.rows import row_images, rows_corpus
from support.rows.row_images import (
    INSERT,
    REMOVE,
    REPLACE,
    bitmap,
    difference,
    differences,
    image,
    integer,
    rows_body,
    sized,
)

from canal_group.binlog.columns.rows import RowsBuilder
from canal_group.binlog.columns.types.column import Column
from canal_group.binlog.files.binlog_files import BinlogFiles
from canal_group.binlog.formats.event_types import EventType
from canal_group.merge.errors import CorruptEvent, UnsupportedEvent
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.rows.absent import absent_in, absent_names
from canal_group.merge.values.types.table import ColumnType

INT, TEXT = Column(ColumnType.LONG), Column(ColumnType.VARCHAR, size=200, collation=255)
VECTOR, JSON = Column(ColumnType.VECTOR, size=4), Column(ColumnType.JSON, size=4)
COLUMNS = [INT, TEXT, VECTOR, JSON, *[INT] * 6]
UPDATES = (EventType.UPDATE_ROWS_V1, EventType.UPDATE_ROWS, EventType.PARTIAL_UPDATE_ROWS)
NAMES = [f"c{index}" for index in range(len(COLUMNS))]
FULL = {
    0: (7, integer(7, 4)),
    1: ("é", sized("é".encode(), 1)),
    2: ([1.5], sized(b"\0\0\xc0\x3f", 4)),
    3: ('{"a": 1}', sized(row_images.json_binary({"a": 1}), 4)),
    9: (9, integer(9, 4)),
}


def stored(*indexes):
    """Return the image that has only the columns at these indexes."""
    return image([FULL[index][1] for index in indexes])


def said(batch, which):
    """Return for each row a dict of what its image says; None: it has no such image."""
    absent = absent_names(absent_in(batch, which), NAMES, len(batch)).to_pylist()
    return [
        row and {int(name[1:]): value for name, value in row.items() if name not in (gone or ())}
        for row, gone in zip(batch.column(which).to_pylist(), absent, strict=True)
    ]


def values(*indexes):
    return {index: FULL[index][0] for index in indexes}


@pytest.mark.parametrize("event_type", UPDATES)
def test_an_image_after_has_what_the_one_before_says(event_type):
    """Text, vectors and JSON too, one row after the other; null bits count the columns that are there."""
    first = [stored(0, 1, 2, 3), image([None, FULL[9][1]])]
    second = [image([FULL[0][1], None, None, FULL[3][1]]), image([FULL[0][1], None])]
    body = rows_body(
        event_type, 10, [*first, *second, *first], before=bitmap([0, 1, 2, 3], 10), after=bitmap([0, 9], 10)
    )
    batch, _ = row_images.rows_of(COLUMNS, [(event_type, body)])
    assert said(batch, "before") == [
        values(0, 1, 2, 3),
        {**values(0, 3), 1: None, 2: None},
        values(0, 1, 2, 3),
    ]
    changed = {**values(1, 2, 3, 9), 0: None}
    assert said(batch, "after") == [changed, {**values(0, 3), 1: None, 2: None, 9: None}, changed]


@pytest.mark.parametrize("event_type", UPDATES)
def test_full_nodup(event_type):
    """The image before is whole, the one after has what changed: together they say everything."""
    columns = [INT, TEXT, VECTOR, JSON]
    before, after = [stored(0, 1, 2, 3)], [image([None])]
    body = rows_body(event_type, 4, [*before, *after], after=bitmap([1], 4))
    batch, _ = row_images.rows_of(columns, [(event_type, body)])
    assert said(batch, "before") == [values(0, 1, 2, 3)]
    assert said(batch, "after") == [{**values(0, 2, 3), 1: None}]
    assert absent_in(batch, "after") is None


def test_rows_of_an_xa_transaction_lack_columns(tmp_path):
    """Held at the PREPARE and handed over at the COMMIT, they still lack what was not logged."""
    columns = [(ColumnType.LONG, b"")] * 3
    body = rows_body(
        EventType.UPDATE_ROWS_V1,
        3,
        [image([integer(1, 4)]), image([integer(5, 4), None])],
        before=bitmap([0], 3),
        after=bitmap([1, 2], 3),
    )
    file = File("5.7.44-log", checksum=False)
    file.query("XA START X'01',X'',1").table_map(columns, number=0).add(EventType.UPDATE_ROWS_V1, body)
    file.query("XA END X'01',X'',1").add(EventType.XA_PREPARE, struct.pack("<BIII", 0, 1, 1, 0) + b"\1")
    file.query("XA COMMIT X'01',X'',1")
    (chunk,) = BinlogFiles([file.write(tmp_path / "mysql-bin.000001")], TableName)
    assert [int(header["rows"]) for header in chunk.headers] == [0, 1]
    (table,) = chunk.tables
    assert table.rows.column("_header").to_pylist() == [1]
    names = ["@1", "@2", "@3"]
    gone = {
        which: absent_names(absent_in(table.rows, which), names, 1).to_pylist()
        for which in ("before", "after")
    }
    assert gone == {"before": [["@2", "@3"]], "after": [None]}
    assert table.rows.column("after").to_pylist() == [{"@1": 1, "@2": 5, "@3": None}]


@pytest.mark.parametrize(
    ("event_type", "image_name"),
    [
        (EventType.WRITE_ROWS_V1, "after"),
        (EventType.WRITE_ROWS, "after"),
        (EventType.DELETE_ROWS_V1, "before"),
        (EventType.DELETE_ROWS, "before"),
    ],
)
def test_images_of_rows_that_come_and_go(event_type, image_name):
    some = bitmap([1, 9], 10)
    body = rows_body(event_type, 10, [stored(1, 9), image([None, FULL[9][1]])], before=some, after=some)
    batch, _ = row_images.rows_of(COLUMNS, [(event_type, body)])
    assert said(batch, image_name) == [values(1, 9), {1: None, **values(9)}]
    assert said(batch, {"before": "after", "after": "before"}[image_name]) == [None, None]


def test_whole_and_partial_rows_in_one_chunk():
    """Only rows that lack columns are marked, also where some were taken back between them."""
    builder = RowsBuilder(row_images.schema_of([INT, INT]), row_images.Losses())
    whole = rows_body(EventType.WRITE_ROWS, 2, [image([integer(1, 4)] * 2)] * 2)
    partial = rows_body(EventType.WRITE_ROWS, 2, [image([integer(2, 4)])] * 3, after=bitmap([1], 2))
    options = {"post_header_size": 10, "row_begin": 0}
    builder.add(EventType.WRITE_ROWS, whole, header=0, **options)
    builder.add(EventType.WRITE_ROWS, partial, header=1, **options)
    builder.discard(1)
    with pytest.raises(CorruptEvent):
        builder.add(EventType.WRITE_ROWS, partial[:-1], header=1, **options)
    builder.add(EventType.WRITE_ROWS, partial, header=1, skip=1, **options)
    builder.add(EventType.WRITE_ROWS, whole, header=2, **options)
    batch = builder.finish()
    batch.validate(full=True)
    assert [list(row.values()) for row in said(batch, "after")] == [[1, 1]] * 2 + [[2]] * 2 + [[1, 1]] * 2


def test_whole_rows_bear_no_marks():
    """Neither those that are logged whole, nor those that are whole once the image after is filled in."""
    whole = row_images.rows_of(
        [INT], [(EventType.WRITE_ROWS, rows_body(EventType.WRITE_ROWS, 1, [image([integer(1, 4)])]))]
    )[0]
    images = [image([integer(1, 4), integer(2, 4)]), image([integer(3, 4)])]
    body = rows_body(EventType.UPDATE_ROWS, 2, images, after=bitmap([1], 2))
    filled = row_images.rows_of([INT, INT], [(EventType.UPDATE_ROWS, body)])[0]
    assert whole.schema.names == filled.schema.names == ["_header", "_row", "_op", "before", "after"]
    assert filled.column("after").to_pylist() == [{"c0": 1, "c1": 3}]


def test_rows_without_bytes_are_refused():
    body = rows_body(EventType.WRITE_ROWS, 2, [b"\0"], after=bytes(1))
    with pytest.raises(CorruptEvent, match="contradict"):
        row_images.rows_of([INT, INT], [(EventType.WRITE_ROWS, body)])


# ---- JSON differences --------------------------------------------------------------------------------------


def partial_json(document, *each, before=None, after=None, options=b"\1\1"):
    """Return an update whose image after has differences of the second JSON column, not the first."""
    columns, kept = [JSON, INT, JSON], sized(row_images.json_binary("kept"), 4)
    old = None if document is None else sized(document, 4)
    olds = [kept, integer(1, 4), old] if before is None else [kept, integer(1, 4)]
    body = rows_body(
        EventType.PARTIAL_UPDATE_ROWS,
        3,
        [image(olds), image([integer(2, 4), differences(*each)])],
        before=before,
        after=bitmap([1, 2], 3) if after is None else after,
        options=options,
    )
    batch, _ = row_images.rows_of(columns, [(EventType.PARTIAL_UPDATE_ROWS, body)])
    assert batch.column("after").to_pylist()[0]["c0"] == '"kept"'
    return batch


def applied(document, *each):
    batch = partial_json(row_images.json_binary(document), *each, options=b"\1\2")
    return batch.column("after").to_pylist()[0]["c2"]


DOCUMENT = {"a": 1, "b": [1, {"x": "y"}, 3], "n m": None, "long": "x" * 300}


@pytest.mark.parametrize(
    ("each", "expected"),
    [
        ((), DOCUMENT),
        ([difference(REPLACE, "$.a", 1.5)], {**DOCUMENT, "a": 1.5}),
        ([difference(REPLACE, "$.b[1].x", [])], {**DOCUMENT, "b": [1, {"x": []}, 3]}),
        ([difference(REPLACE, "$.b[last]", None)], {**DOCUMENT, "b": [1, {"x": "y"}, None]}),
        ([difference(REMOVE, "$.b[last-2]")], {**DOCUMENT, "b": [{"x": "y"}, 3]}),
        ([difference(INSERT, "$.b[0]", 0)], {**DOCUMENT, "b": [0, 1, {"x": "y"}, 3]}),
        ([difference(INSERT, "$.b[9]", 0)], {**DOCUMENT, "b": [1, {"x": "y"}, 3, 0]}),
        ([difference(INSERT, "$.b[last-9]", 0)], {**DOCUMENT, "b": [0, 1, {"x": "y"}, 3]}),
        ([difference(REMOVE, '$."n m"')], {key: DOCUMENT[key] for key in ("a", "b", "long")}),
        ([difference(REPLACE, "$.long", "z" * 70_000)], {**DOCUMENT, "long": "z" * 70_000}),
        (
            [difference(INSERT, '$."\\u0001\\"\\\\\\u00e9\\u65e5\\n"', 0)],
            {"a": 1, "b": DOCUMENT["b"], "n m": None, "long": "x" * 300, '\x01"\\é日\n': 0},
        ),
        (
            [
                difference(REPLACE, "$.b", {"p": {}}),
                difference(INSERT, "$.b.p.q", [1]),
                difference(INSERT, "$.b.p.q[1]", 2),
                difference(INSERT, "$.b.p.c", 0),
            ],
            {**DOCUMENT, "b": {"p": {"c": 0, "q": [1, 2]}}},
        ),
    ],
)
def test_differences_are_applied(each, expected):
    assert json.loads(applied(DOCUMENT, *each)) == expected


def test_members_stand_in_the_servers_order():
    """Shorter names first, then by their bytes; also an inserted member."""
    added = [difference(INSERT, f"$.{name}", 0) for name in ("a", "c", "ab", "aaa")]
    text = applied({"b": 1, "aa": 2}, *added)
    assert list(json.loads(text)) == ["a", "b", "c", "aa", "ab", "aaa"]
    assert text == '{"a": 0, "b": 1, "c": 0, "aa": 2, "ab": 0, "aaa": 0}'


@pytest.mark.parametrize(
    "each",
    [
        difference(REPLACE, "$", 1),
        difference(REMOVE, ""),
        difference(REMOVE, "a"),
        difference(REMOVE, "$.none"),
        difference(REPLACE, "$.none", 1),
        difference(INSERT, "$.a", 1),
        difference(INSERT, "$.none.x", 1),
        difference(INSERT, "$.a.x", 1),
        difference(INSERT, "$.b.x", 1),
        difference(INSERT, "$[0]", 1),
        difference(REMOVE, "$.b[3]"),
        difference(REMOVE, "$.b[last-3]"),
        difference(REMOVE, "$.b[4294967296]"),
        *(
            difference(REMOVE, f"$.b{path}")
            for path in (
                "[",
                "[]",
                "[x]",
                "[1",
                "[last",
                "[last-",
                "[last-]",
                "[-1]",
                "[1 to 2]",
                ".",
                '."',
                "x",
            )
        ),
        *(difference(REMOVE, f'$."{path}"') for path in ("\\", "\\u12", "\\ud800\\udc00", "\\x", "\\u00g0")),
        b"\3" + difference(REMOVE, "$.a")[1:],
        b"\2",
        b"\2\xfb",
        b"\2\xff",
        b"\2\xfc\1",
        b"\2\xfe\xff\xff\xff\xff\xff\xff\xff\xff$.a",
        difference(REPLACE, "$.a", 5)[:-1],
        b"\0\3$.a",
        b"\0\3$.a\0",
        b"\0\3$.a\xfe" + b"\xff" * 8,
    ],
)
def test_differences_that_do_not_fit_are_corrupt(each):
    with pytest.raises(CorruptEvent, match="JSON difference"):
        applied(DOCUMENT, each)
    with pytest.raises(CorruptEvent, match="JSON difference"):
        applied(DOCUMENT, difference(REPLACE, "$.a", 2), each)


def test_values_of_differences_that_cannot_be_read_are_corrupt():
    with pytest.raises(CorruptEvent, match="JSON value"):
        applied(DOCUMENT, b"\0\3$.a\2\x63\0")


def test_a_size_beyond_the_event_is_corrupt():
    body = rows_body(
        EventType.PARTIAL_UPDATE_ROWS,
        1,
        [image([sized(row_images.json_binary({}), 4)]), b"\0\xff\xff\xff\xff"],
        options=b"\1\1",
    )
    for size in (len(body), len(body) - 1):
        with pytest.raises(CorruptEvent, match="end inside"):
            row_images.rows_of([JSON], [(EventType.PARTIAL_UPDATE_ROWS, body[:size])])


@pytest.mark.parametrize("document", [None, b""])
def test_differences_to_no_document_are_corrupt(document):
    """The column was NULL, or JSON null stored as nothing, which no difference at all leaves as it is."""
    with pytest.raises(CorruptEvent, match="JSON difference"):
        partial_json(document, difference(REMOVE, "$.a"), options=b"\1\2")
    if document is not None:
        assert partial_json(document, options=b"\1\2").column("after").to_pylist()[0]["c2"] == "null"


def test_a_difference_without_its_document_is_refused():
    """An empty one says that the document is as it was: absent, like any column that was not changed."""
    without = bitmap([0, 1], 3)
    with pytest.raises(UnsupportedEvent, match="lack the document") as caught:
        partial_json(b"", difference(REMOVE, "$.a"), before=without, options=b"\1\2")
    assert "binlog_row_value_options" in caught.value.hint
    batch = partial_json(b"", before=without, options=b"\1\2")
    assert absent_names(absent_in(batch, "after"), ["c0", "c1", "c2"], 1).to_pylist() == [["c2"]]


def test_value_options_that_are_not_known_are_refused():
    with pytest.raises(UnsupportedEvent, match="binlog_row_value_options"):
        partial_json(b"", options=b"\2")


def test_a_value_is_not_printed_more_often_than_it_has_bytes():
    """Entries that all point at one long value: neither a path through them nor printing multiplies it."""
    value = row_images.json_binary("x" * 2000)
    count = 400
    at = 4 + 3 * count
    entries = b"".join(bytes([12]) + at.to_bytes(2, "little") for _ in range(count))
    size = at + len(value) - 1
    document = b"\2" + count.to_bytes(2, "little") + size.to_bytes(2, "little") + entries + value[1:]
    with pytest.raises(CorruptEvent, match="JSON value"):
        partial_json(document, difference(REMOVE, "$[0]"), options=b"\1\2")


def test_damaged_differences_are_refused_or_read_as_rows():
    each = [
        difference(INSERT, '$.b[1]."\\u0041 b"', {"k": [1, "two"]}),
        difference(REPLACE, "$.b[last]", 7),
        difference(REMOVE, "$.a"),
    ]
    old = sized(row_images.json_binary({**DOCUMENT, "long": "x" * 9}), 4)
    body = rows_body(
        EventType.PARTIAL_UPDATE_ROWS,
        2,
        [image([integer(1, 4), old]), image([differences(*each)])],
        after=bitmap([1], 2),
        options=b"\1\1",
    )
    schema = row_images.schema_of([INT, JSON])
    assert rows_corpus.decode(schema, EventType.PARTIAL_UPDATE_ROWS, body).num_rows == 1
    for damaged in rows_corpus.damaged(body):
        rows_corpus.decode(schema, EventType.PARTIAL_UPDATE_ROWS, damaged)
