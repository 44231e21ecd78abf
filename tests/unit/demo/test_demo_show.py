"""What people see of a demo: readable rows, few enough, and a result whose numbers add up."""

from __future__ import annotations

import re
from dataclasses import replace

import pyarrow as pa
import pytest
from rich.cells import cell_len

from canal_group.merge.rows.envelope import ENVELOPE
from canal_group.programs.demo.proof import Findings
from canal_group.programs.demo.report import DemoReport
from canal_group.programs.demo.show.progress import FIRST_ROWS, HEADING, ROWS_PER_S, Sample, change_line
from canal_group.programs.demo.show.summary import RECORDED, Outcome, summary, what_next
from playground.run import RECORDED as RECORDED_HERE
from playground.run import SERVERS

WIDTH = 80
ROW = {
    "seq": 1,
    "key_us": 1_700_000_000_123_456,
    "shard": "shop-2",
    "schema": "shop",
    "table": "orders",
    "op": "INSERT",
    "key": [("id", "7")],
    "before": None,
    "after": [("id", "7"), ("customer", "Ada 1"), ("note", None), ("written_us", "1700000000000000")],
    "sql": None,
}
REPORT = DemoReport(
    shards=4,
    transactions=44_005,
    rows=261_234,
    rows_per_s=12_345.6,
    latency_ms_p50=45.4,
    latency_ms_p99=1_203.2,
    order_violations=0,
    split_transactions=0,
    missing=0,
    duplicates=0,
    tables_equal=True,
    snapshot_rows=0,
)
FINDINGS = Findings(
    snapshot_rows=0,
    again=12_345,
    rows=REPORT.rows,
    transactions=REPORT.transactions,
    order_violations=0,
    split_transactions=0,
    missing=0,
    duplicates=0,
    tables_equal=True,
    words=(),
)
OUTCOME = Outcome(
    REPORT,
    FINDINGS,
    rollbacks=12,
    page="http://127.0.0.1:11112",
    gateway="grpc://127.0.0.1:45311",
)


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({}, "INSERT id=7 customer=Ada 1 note=NULL"),
        ({"op": "READ"}, "READ id=7 customer=Ada 1 note=NULL"),
        (
            {
                "op": "UPDATE",
                "before": [("id", "7"), ("state", "new"), ("note", None)],
                "after": [("id", "7"), ("state", "paid"), ("note", ""), ("written_us", "2")],
            },
            "UPDATE id=7 state=new->paid note=NULL->",
        ),
        ({"op": "DELETE", "before": [("id", "7"), ("state", "new")], "after": None}, "DELETE id=7"),
        (
            {"op": "ALTER", "key": [], "after": None, "sql": "ALTER TABLE orders_2 ADD c INT"},
            "ALTER TABLE orders_2 ADD c INT",
        ),
        ({"after": [("note", "a\nb\x1b[2J")]}, "INSERT note=a\\nb\\x1b[2J"),
        ({"after": [("note", "é" * 17)]}, f"INSERT note={'é' * 15}…"),
    ],
)
def test_a_change_is_a_line_that_says_what_changed(change, shown):
    line = change_line(ROW | change, WIDTH)
    assert line.plain == f"22:13:20.123  shop-2  shop.orders  {shown}"
    assert line.plain.index("shop-2") == HEADING.index("shard")
    assert line.plain.index("shop.") == HEADING.index("table")
    assert line.plain.index(shown) == HEADING.index("change")


def test_a_long_change_is_cut_to_the_cells_of_the_terminal():
    line = change_line(ROW | {"after": [(f"c{n}", "寿司") for n in range(20)]}, WIDTH)
    assert WIDTH - 1 <= cell_len(line.plain) <= WIDTH
    assert line.plain.endswith("…")


def envelope(first, count):
    rows = [{"seq": first + n, "op": "INSERT", "key_us": n} for n in range(count)]
    return pa.Table.from_pylist(rows, schema=ENVELOPE)


def seqs(rows):
    return [row["seq"] for row in rows]


def test_shown_rows_are_few_and_spread_and_never_repeated():
    """1. at first; 2. the same and a little more; 3. a large batch after a second; 4. after a pause."""
    now_s = [0.0]
    sample = Sample(lambda: now_s[0])
    first = seqs(sample.of(envelope(0, 500)))
    assert len(first) == FIRST_ROWS
    assert (first[0], first[-1]) == (0, 499)
    assert first == sorted(set(first))
    now_s[0] += 1 / ROWS_PER_S
    assert seqs(sample.of(envelope(100, 410))) == [500]
    now_s[0] += 1
    assert len(sample.of(envelope(510, 4000))) == ROWS_PER_S
    now_s[0] += 1000
    assert len(sample.of(envelope(4510, 4000))) == ROWS_PER_S


def test_a_result_in_words_adds_up_and_fits():
    lines = list(summary(OUTCOME))
    assert lines == [
        "The stream is right:",
        "  4 shards became one stream: 44,005 transactions, 261,234 rows.",
        "  Every row that was written arrived.",
        "  12,345 rows came again, as the consumer rolled back 12 times on purpose.",
        "  No row came before an older one.",
        "  Each transaction came whole, with no other one in it.",
        "  Applied to empty tables, the stream gave exactly the rows of the servers.",
        "  12,346 rows a second arrived while the writers wrote at full speed.",
        "  From INSERT to consumer: 45 ms in the median, 99 of 100 within 1,203 ms.",
    ]
    assert max(map(len, lines)) <= WIDTH


def test_a_result_without_measures_and_repetitions_has_no_line_of_them():
    report = replace(REPORT, latency_ms_p50=None, latency_ms_p99=None)
    lines = list(summary(replace(OUTCOME, report=report, findings=replace(FINDINGS, again=0), rollbacks=0)))
    assert "  Each row came once." in lines
    assert len(lines) == 7


def test_a_result_with_a_snapshot_says_how_many_rows_were_there():
    lines = list(summary(replace(OUTCOME, report=replace(REPORT, snapshot_rows=80_001))))
    assert lines[2] == "  80,001 rows were there when they were read, 261,234 changes came beside them."
    assert max(map(len, lines)) <= WIDTH


def test_a_wrong_result_says_what_is_wrong():
    report = replace(
        REPORT, missing=1, duplicates=1_002, order_violations=3, split_transactions=1, tables_equal=False
    )
    lines = list(summary(replace(OUTCOME, report=report)))
    assert lines[0] == "The stream is wrong, see the lines with !:"
    assert [line for line in lines if line.startswith("!")] == [
        "! Written, but did not arrive: 1 row.",
        "! Came again without a rollback, or was never written: 1,002 rows.",
        "! Came before an older one: 3 rows.",
        "! Came in pieces: 1 transaction.",
        "! Applied to empty tables, the stream gave other rows than the servers hold.",
    ]
    assert max(map(len, lines)) <= WIDTH


@pytest.mark.parametrize("steps", [RECORDED, RECORDED_HERE, SERVERS])
@pytest.mark.parametrize("stay", [False, True])
def test_what_to_try_next_fits_and_names_page_and_gateway(steps, stay):
    lines = list(what_next(OUTCOME, steps, stay=stay))
    assert max(map(len, lines)) <= WIDTH
    assert re.search(r"The page (is|was) http://127\.0\.0\.1:11112", lines[0])
    assert any(OUTCOME.gateway in line for line in lines) == stay
    assert any(steps.staying in line for line in lines) != stay
