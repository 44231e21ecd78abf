"""Images that lack columns say what whole ones do of those they have; differences lead to documents."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.rows import row_images
from support.rows.json_model import json_text
from support.rows.random_rows import JSON, expected, tables
from support.soak import cases

from canal_group.binlog.columns.rows import RowsBuilder
from canal_group.binlog.columns.types.column import Column
from canal_group.binlog.formats.event_types import UPDATES, WRITES, EventType
from canal_group.merge.errors import CorruptEvent
from canal_group.merge.values.chunk import Op
from canal_group.merge.values.rows.absent import absent_in, absent_names
from canal_group.merge.values.types.table import ColumnType

#: absent
NO = "(absent)"


def partial_body(event_type, count, rows, before, after):
    """Return an event whose images have the columns in `before` and `after` only."""
    kept = [after] if event_type in WRITES else [before, after]
    stored = [
        row_images.image([image[index][1] for index in indexes])
        for row in rows
        for image, indexes in zip(row, kept, strict=False)
    ]
    bitmaps = {
        "before": row_images.bitmap(before, count),
        "after": row_images.bitmap(after, count),
    }
    return row_images.rows_body(event_type, count, stored, **bitmaps)


def partial(event_type, row, before, after):
    """Return the values that are to be read of a row, as `expected` of a whole one."""
    op, old, new = expected(event_type, row)
    old = old and {name: value if int(name[1:]) in before else NO for name, value in old.items()}
    from_before = old if event_type in UPDATES else {}
    new = new and {
        name: value if int(name[1:]) in after else from_before.get(name, NO) for name, value in new.items()
    }
    return op, old, new


def read(batch):
    """Return op and images of each row; absent columns are `NO`."""
    names = [field.name for field in batch.schema.field("before").type]
    columns = [batch["_op"].to_pylist()]
    for image in ("before", "after"):
        absent = absent_names(absent_in(batch, image), names, len(batch)).to_pylist()
        rows = batch[image].to_pylist()
        for row, gone in zip(rows, absent, strict=True):
            assert row is not None or gone is None
            assert all(row[name] is None for name in gone or ())
        columns.append(
            [row and row | dict.fromkeys(gone or (), NO) for row, gone in zip(rows, absent, strict=True)]
        )
    return list(zip(*columns, strict=True))


@settings(max_examples=cases(200), deadline=None)
@given(tables(), st.data())
def test_partial_images_say_what_whole_ones_say_of_the_columns_they_have(table, data):
    """1. Each event is first offered cut short. 2. What is not there is marked, and nothing else is."""
    columns, events = table
    indexes = st.sets(st.integers(0, len(columns) - 1), min_size=1).map(sorted)
    builder = RowsBuilder(row_images.schema_of(columns), row_images.Losses())
    wanted = []
    for header, (event_type, rows) in enumerate(events):
        before, after = data.draw(indexes), data.draw(indexes)
        body = partial_body(event_type, len(columns), rows, before, after)
        options = {"post_header_size": 10, "header": header, "row_begin": 0}
        if rows and len(body) - 1 > len(partial_body(event_type, len(columns), rows[:-1], before, after)):
            with pytest.raises(CorruptEvent):
                builder.add(event_type, body[:-1], **options)
        builder.add(event_type, body, **options)
        wanted += [partial(event_type, row, before, after) for row in rows]
    batch = builder.finish()
    batch.validate(full=True)
    assert read(batch) == wanted
    marked = any(NO in (image or {}).values() for _, *both in wanted for image in both)
    assert ("_after_absent" in batch.schema.names) == marked


# ---- JSON differences --------------------------------------------------------------------------------------


def in_order(value):
    """Return a value with its members in the server's order."""
    if isinstance(value, list):
        return [in_order(each) for each in value]
    if not isinstance(value, dict):
        return value
    members = sorted(value.items(), key=lambda each: (len(each[0].encode()), each[0].encode()))
    return {name: in_order(each) for name, each in members}


def containers(value, path="$"):
    """Yield each object and array that is not empty, with its path."""
    if isinstance(value, list | dict):
        yield path, value
        for step, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from containers(each, path + leg(step))


def leg(step):
    return f"[{step}]" if isinstance(step, int) else f".{json.dumps(step, ensure_ascii=False)}"


NAMES = st.text(st.characters(codec="utf-8"), max_size=4)


def change(document, data):
    """Change a document as a difference does, and return that difference."""
    path, container = data.draw(st.sampled_from(list(containers(document))))
    operation = data.draw(st.sampled_from([row_images.REPLACE, row_images.INSERT, row_images.REMOVE]))
    steps = list(container) if isinstance(container, dict) else list(range(len(container)))
    assume(steps or operation == row_images.INSERT)
    value = in_order(data.draw(JSON))
    if operation == row_images.INSERT:
        if isinstance(container, list):
            step = data.draw(st.integers(0, len(container) + 2))
            container.insert(step, value)
        else:
            step = data.draw(NAMES.filter(lambda name: name not in container))
            container[step] = value
        return row_images.difference(operation, path + leg(step), value)
    step = data.draw(st.sampled_from(steps))
    from_end = isinstance(step, int) and data.draw(st.booleans())
    shown = f"[last-{len(container) - 1 - step}]" if from_end else leg(step)
    if operation == row_images.REPLACE:
        container[step] = value
    else:
        del container[step]
    return row_images.difference(operation, path + shown, value)


@settings(max_examples=cases(200), deadline=None)
@given(st.lists(JSON, max_size=6) | st.dictionaries(NAMES, JSON, max_size=6), st.data())
def test_differences_lead_to_what_the_model_leads_to(value, data):
    """Documents change at any depth, several times, and in what was only just put in."""
    document = in_order(value)
    old = row_images.sized(row_images.json_binary(document), 4)
    changed = copy.deepcopy(document)
    each = [change(changed, data) for _ in range(data.draw(st.integers(0, 5)))]
    body = row_images.rows_body(
        EventType.PARTIAL_UPDATE_ROWS,
        1,
        [row_images.image([old]), row_images.image([row_images.differences(*each)])],
        options=b"\1\1",
    )
    batch, _ = row_images.rows_of([Column(ColumnType.JSON, size=4)], [(EventType.PARTIAL_UPDATE_ROWS, body)])
    (row,) = batch.to_pylist()
    assert row["_op"] == Op.UPDATE
    assert row["before"]["c0"] == json_text(row_images.json_binary(document))
    assert row["after"]["c0"] == json_text(row_images.json_binary(in_order(changed)))
