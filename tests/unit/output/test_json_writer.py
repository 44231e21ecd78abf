"""JSON that the compiled loop writes is, byte for byte, what `json.dumps` writes of the same values."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from canal_group.merge.rows.envelope import MAP
from canal_group.merge.rows.text import values_of
from canal_group.shapes.json_text import compose, name_lists, objects, plain, quoted, written
from canal_group.shapes.json_writer import Member, above, write
from canal_group.shapes.maps import tidy

#: every octet that is escaped, those beside them, and characters of each length
TEXTS = st.text(
    st.characters(codec="utf-8")
    | st.sampled_from([*map(chr, range(36)), "\\", "[", "]", "\x7f", "é", "日", "😀"]),
    max_size=9,
)
NULLABLE = st.none() | TEXTS
MAPS = st.none() | st.dictionaries(TEXTS, NULLABLE, max_size=3)
ROWS = st.lists(
    st.tuples(NULLABLE, st.none() | st.integers(-(2**63), 2**63 - 1), st.booleans(), MAPS),
    min_size=1,
    max_size=6,
)
LIMIT = 2**63 - 1


def dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def maps(rows):
    """Return maps that begin inside their entries, made tidy."""
    items = [None if row is None else list(row.items()) for row in rows]
    return tidy(pa.array([[("before", "1")], *items], MAP)[1:])


@given(ROWS, st.booleans())
def test_objects_are_what_json_writes(rows, is_slice: bool):
    text, number, truth, of_row = zip(*rows, strict=True)
    first = int(is_slice)
    texts = pa.array([*["x"] * first, *text], pa.utf8())[first:]
    made = maps(of_row)
    codes = pa.array([*["y"] * first, *text], pa.dictionary(pa.int32(), pa.utf8()))[first:]
    members = {
        "a": quoted(texts),
        "b": {"c": plain(pa.array(number, pa.int64())), "d": {"i": plain(pa.array(truth))}},
        "e": objects(made),
        "f": objects(made, "listed"),
        "g": name_lists(made),
        "h": plain(quoted_codes(codes)),
    }
    expected = [
        {
            "a": a,
            "b": {"c": b, "d": {"i": c}},
            "e": d,
            "f": None if d is None else [d],
            "g": list(d) if d else None,
            "h": a,
        }
        for a, b, c, d in rows
    ]
    composed = compose(members)
    composed.validate(full=True)
    assert composed.to_pylist() == [dumped(each) for each in expected]
    assert written(quoted(texts)).to_pylist() == [dumped(each) for each in text]


def quoted_codes(codes):
    """Return a dictionary of JSON texts."""
    texts = pa.array([dumped(each) for each in codes.dictionary.to_pylist()], pa.utf8())
    return pa.DictionaryArray.from_arrays(codes.indices, texts)


@given(
    st.lists(
        st.none()
        | st.dictionaries(
            st.sampled_from(["id", "i", "idx"]),
            st.none() | st.text("0123456789-x", max_size=21) | st.integers(LIMIT - 9, LIMIT + 9).map(str),
        )
    )
)
def test_values_above_a_limit_are_found(rows):
    made, chosen = maps(rows), np.arange(len(rows))[::-1].copy()
    found = above(objects(made), chosen, [b"id", b"idx"], [str(LIMIT).encode(), b"7"])
    expected = [
        [is_above((rows[row] or {}).get(name), limit) for name, limit in (("id", LIMIT), ("idx", 7))]
        for row in chosen.tolist()
    ]
    assert found.astype(bool).tolist() == expected


def is_above(value: str | None, limit: int) -> bool:
    return bool(value) and value.isdecimal() and int(value) > limit


def test_without_rows_or_entries_nothing_is_written():
    assert compose({"a": quoted(pa.array([], pa.utf8())), "b": objects(pa.array([], MAP))}).to_pylist() == []
    assert compose({"a": objects(maps([{}, None]))}).to_pylist() == ['{"a":{}}', '{"a":null}']
    assert above(objects(maps([{}])), np.zeros(1, np.int64), [], []).shape == (1, 0)


def starts(*offsets: int):
    return np.array(offsets, np.int32)


TWO = values_of(pa.array(["a", "b"]), "")
THERE = np.ones(1, np.uint8)


@pytest.mark.parametrize(
    "arguments",
    [
        ("string", values_of(pa.array([1]), "")),
        ("object", TWO, None, starts(0, 2), THERE),
        ("object", TWO, values_of(pa.array(["a"]), ""), starts(0, 1), THERE),
        ("object", TWO, values_of(pa.array(["a", None]), ""), starts(0, 2), THERE),
        ("object", TWO, values_of(pa.array([1, 2]), ""), starts(0, 2), THERE),
        ("object", TWO, TWO, starts(0, 3), THERE),
        ("object", TWO, TWO, starts(-1, 2), THERE),
        ("names", TWO, TWO, starts(0, 2, 1), np.ones(2, np.uint8)),
        ("listed", TWO, TWO, starts(0), THERE),
    ],
)
def test_a_member_of_parts_that_do_not_fit_is_refused(arguments):
    with pytest.raises(ValueError, match=r"\w"):
        Member(*arguments)


def test_what_does_not_fit_together_is_not_written():
    one = Member("string", TWO)
    with pytest.raises(ValueError, match="another number"):
        write([(b"", one)], b"", 3)
    with pytest.raises(ValueError, match="more text"):
        write([(b"x" * 2**20, one)] * 1_500, b"", 2)
    with pytest.raises(ValueError, match="not in maps"):
        above(one, np.zeros(1, np.int64), [b"a"], [b"1"])
    for row in (-1, 1):
        with pytest.raises(ValueError, match="not there"):
            above(Member("object", TWO, TWO, starts(0, 2), THERE), np.array([row]), [b"a"], [b"1"])
    with pytest.raises(ValueError, match="limit"):
        above(Member("object", TWO, TWO, starts(0, 2), THERE), np.array([0]), [b"a"], [])
