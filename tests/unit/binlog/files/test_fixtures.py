"""Every binlog of a real MySQL 9.7.4 says what the SQL beside it did."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.binlog.decoding import BIG, FIXTURES
from support.binlog.fixture_changes import J, changes_of, deletes, id_only, inserts, updates

#: JSON of the rows that several of them insert
DOC = '{"a": "' + 60 * "x" + '", "b": [1, 2, 3], "n": 5}'
DOC2 = '{"k": "' + 60 * "y" + '", "m": 1}'
ONE = {"id": 1, "d": DOC, "d2": DOC2, "v": "v"}
TWO = {"id": 2, "d": DOC, "v": "v"}


def doc(array, number, more=""):
    return '{"a": "' + 60 * "x" + f'", "b": {array}, "n": {number}{more}}}'


LONG = [{"id": number, "v": "z" * 900} for number in (10, 11)]
#: what partial_json makes of the first row's d, and of the second's
STEPS = [
    doc([1, 2, 3], 6),
    doc([1, 20, 3], 7),
    doc([1, 20, 3], 8),
    doc([20, 3], 8),
    doc([77, 20, 3], 8),
    doc([77, 20, 3], 8, ', "new": "x"'),
]
M2 = DOC2.replace("1", "2")
EXPECTED = {
    "after_tagged_gtid": [J, *inserts("fx.j", *id_only(1))],
    "big_transaction": [
        ("CREATE", "fx.big"),
        *inserts("fx.big", *({"id": number, "v": "a" * 100} for number in range(1, BIG + 1))),
    ],
    "charsets": [
        ("CREATE", "fx.cc"),
        *inserts(
            "fx.cc",
            {
                "a": "é",
                "b": "日本",
                "c": "中文",
                "d": b"\0\1",
                "e": b"a\0\0\0",
                "f": "ab😀",
                "g": "日本",
                "h": "中",
            },
        ),
    ],
    "checksum_none": [J, *inserts("fx.j", ONE, TWO)],
    "column_order_generated": [
        ("CREATE", "fx.gcol"),
        *inserts("fx.gcol", {"id": 1, "a": 2, "b": 4, "c": 6, "d": 4}),
        *updates(
            "fx.gcol",
            ({"id": 1, "a": 2, "b": 4, "c": 6, "d": 4}, {"id": 1, "a": 3, "b": 6, "c": 9, "d": 4}),
        ),
    ],
    "ddl": [
        J,
        ("ALTER", "fx.j"),
        *inserts("fx.j", {"id": 1, "z": 5}),
        ("ALTER", "fx.j"),
        ("RENAME", "fx.j2"),
        ("CREATE", "fx.ct"),
        *inserts("fx.ct", {"id": 1}),
        ("TRUNCATE", "fx.ct"),
        ("ERASE", "fx.ct"),
        ("QUERY", "fx."),
        ("QUERY", "fx."),
        ("CREATE", "fx.k"),
        ("ALTER", "fx.k"),
    ],
    "foreign_key_cascade": [
        ("CREATE", "fx.par"),
        ("CREATE", "fx.chi"),
        *inserts("fx.par", {"id": 1}),
        *inserts("fx.chi", {"id": 1, "p": 1}),
        *deletes("fx.chi", {"id": 1, "p": 1}),  # the server deletes, and logs, the children first
        *deletes("fx.par", {"id": 1}),
    ],
    "gipk": [("CREATE", "fx.gp"), *inserts("fx.gp", {"my_row_id": 1, "a": 1})],
    "gtid_tagged": [J, *inserts("fx.j", *id_only(50, 51))],
    "replicated": [J, *inserts("fx.j", *id_only(60, 61, 62))],
    "json_opaque": [
        ("CREATE", "fx.o"),
        *inserts(
            "fx.o",
            {"id": 1, "d": '"2026-01-02 03:04:05.678000"'},
            {"id": 2, "d": '"-25:00:01.500000"'},
            {"id": 3, "d": "12.345"},
            {"id": 4, "d": '"base64:type15:AP8="'},
            {"id": 5, "d": '"2026-01-02"'},
            {"id": 6, "d": '"big"'},
            {"id": 7, "d": "4294967296"},
        ),
    ],
    "partial_json": [
        J,
        *inserts("fx.j", ONE, TWO),
        *updates(
            "fx.j",
            (ONE, {**ONE, "d": STEPS[0]}),
            ({**ONE, "d": STEPS[0]}, {**ONE, "d": STEPS[1]}),
            (TWO, {**TWO, "d": STEPS[1]}),
            ({**ONE, "d": STEPS[1]}, {**ONE, "d": STEPS[2], "d2": M2}),
            *(
                ({**ONE, "d": STEPS[step], "d2": M2}, {**ONE, "d": STEPS[step + 1], "d2": M2})
                for step in (2, 3, 4)
            ),
            ({**ONE, "d": STEPS[5], "d2": M2}, {**ONE, "d": STEPS[5], "d2": M2, "v": "only v"}),
            ({**TWO, "d": STEPS[1]}, {"id": 2, "v": "v"}),
        ),
    ],
    "partial_json_compressed": [
        J,
        *inserts("fx.j", ONE, TWO),
        *updates("fx.j", *((row, {**row, "d": doc([1, 20, 3], 7)}) for row in (ONE, TWO))),
    ],
    "row_image_minimal": [
        J,
        *inserts("fx.j", ONE, TWO),
        *updates("fx.j", ({"id": 1}, {"id": 1, "v": "m"})),
        *deletes("fx.j", {"id": 1}),
        *updates("fx.j", (TWO, {**TWO, "v": "m"})),  # JSON is not a BLOB to NOBLOB
    ],
    "rows_query": [J, *inserts("fx.j", {"id": 1, "v": "x"})],
    "savepoint": [J, *inserts("fx.j", *id_only(30, 32))],
    "temp_and_myisam": [
        ("CREATE", "fx.my"),
        *inserts("fx.my", *id_only(1, 2)),
        *deletes("fx.my", *id_only(1, 2)),
    ],
    "txn_compression": [
        J,
        *inserts("fx.j", ONE, TWO),
        *updates("fx.j", *((row, {**row, "v": "q"}) for row in (ONE, TWO))),
        *inserts("fx.j", *LONG),
        *deletes("fx.j", LONG[0]),
    ],
    "vector": [
        ("CREATE", "fx.v"),
        *inserts("fx.v", {"id": 1, "e": [1.0, 2.0, 3.0], "z": 9}),
        *updates(
            "fx.v",
            ({"id": 1, "e": [1.0, 2.0, 3.0], "z": 9}, {"id": 1, "e": [1.0, 2.0, 3.0], "z": 10}),
        ),
    ],
    "xa": [J, *inserts("fx.j", *id_only(20, 21))],
}
#: read exactly by tests of their own
ELSEWHERE = {"all_types", "md_minimal"}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_binlog_says_what_its_sql_did(name):
    assert changes_of(FIXTURES / f"{name}.binlog") == EXPECTED[name]


def test_every_binlog_is_expected():
    names = {Path(file).stem for file in FIXTURES.glob("*.binlog")}
    assert names == EXPECTED.keys() | ELSEWHERE
    assert len(names) == 22


def test_minimal_metadata_gives_ordinals_for_names_and_numbers_for_lists():
    """Signs and charsets are there; names, keys, and the values of ENUM (ü is the third) and SET are not."""
    (_, _, _, full), *_ = [c for c in changes_of(FIXTURES / "all_types.binlog") if c[0] == "INSERT"]
    statement, *rows = changes_of(FIXTURES / "md_minimal.binlog")
    expected = {**full, "en": 3, "st": 9}
    named = {f"@{ordinal}": value for ordinal, value in enumerate(expected.values(), start=1)}
    assert statement == ("CREATE", "fx.t")
    assert rows == inserts("fx.t", named, {"@1": 1})


def test_a_mariadb_says_what_its_sql_did():
    """XA, an ALTER in two phases and one that fails in its second, compressed rows and statements."""
    a, b = ({"id": 10, "v": letter * 2000, "w": 1} for letter in "ab")
    assert changes_of(FIXTURES.parent / "mariadb-10.11" / "transactions.binlog") == [
        ("QUERY", "app."),
        ("CREATE", "app.x"),
        *inserts("app.x", {"id": 1, "v": "q"}, {"id": 2, "v": "q"}),
        ("ALTER", "app.x"),
        *inserts("app.x", {"id": 5, "v": "q", "w": 1}, {"id": 6, "v": "q", "w": 1}, a),
        *updates("app.x", (a, b)),
        *deletes("app.x", b),
        ("CREATE", "app.yyyyyyyyyyyyyyyyyyyyyyyyyyyyy"),
    ]
