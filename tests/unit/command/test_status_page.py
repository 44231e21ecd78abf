"""The status page as it is printed: at 80 columns, and as wide as it is."""

from __future__ import annotations

from typing import Any

import pytest

from canal_group.merge.state_words import client_words, shard_words
from canal_group.programs.command.status_page import print_status

#: 2026-01-02 03:04:05.678 UTC
NOW_US = 1_767_323_045_678_000
ERROR = (
    "SourceUnavailable: The source of shard s1 [fe80::1]:3306 cannot be reached (Connection refused). Is it"
    " running, and does [canal] reach its port? It is tried again in 3.0 s."
)


def state(
    *shards: tuple[dict[str, Any], dict[str, Any]], clients: tuple[dict[str, Any], ...] = (), **group: Any
) -> dict[str, Any]:
    """What a gateway answers, from what shards, and the group, tell of each."""
    told = {
        "active": True,
        "server": "canal-group-7.internal.example.com:11113",
        "epoch": 1_767_300_000,
        "watermark_us": NOW_US - 200_000,
        "late": 123_456,
        "future": 7,
        "held_by": None,
        "shards": [merged for _, merged in shards],
        "clients": [{**each, "words": client_words(each, group.get("full_rings", []))} for each in clients],
        "full_rings": [],
    }
    full_rings = group.get("full_rings", [])
    return {
        "destination": "shop",
        "now_us": NOW_US,
        "group": {**told, **group},
        "shards": [{**each, "words": shard_words(each, merged, full_rings)} for each, merged in shards],
    }


def shard(
    name: str, position: str, lag_s: float = 0.2, error: str | None = None, **merged: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    return (
        {
            "shard": name,
            "source": f"{name}.db.internal.example.com:3306",
            "state": "streaming" if error is None else "connecting",
            "error": error,
            "position": position,
            "skew_us": 0,
            "ring": {"ack": 10, "get": 20, "put": 30, "bytes": 3 << 20, "full": False},
        },
        {
            "shard": name,
            "role": "member",
            "frontier_us": NOW_US - int(lag_s * 1e6),
            "acked_position": position.replace(":", ":1"),
            **merged,
        },
    )


CLIENT = {
    "client_id": "revenue",
    "holder": "spark-driver-3.internal.example.com:4711",
    "epoch": 12,
    "outstanding": [{"batch_id": number, "rows": 100_000} for number in range(1_000, 1_004)],
    "error": None,
    "dropped": False,
    "look": False,
    "lasting": True,
    "away_s": None,
}
LONGEST = f"{'orders-of-the-western-warehouses.' * 3}s1"
SHOP = state(
    shard("s0", "mysql-bin.000002:4711"),
    shard("s1", "mariadb-bin.000123:4294967295", 86_400.4, ERROR, late=12, late_rows=3_400),
    shard("s2", "mysql-bin.000007:154", role="leaving", skipped=True, policy="skip", policy_since_s=30.2),
    clients=(CLIENT,),
    held_by="s1",
    held_since_s=312.4,
    held_why=f"it stopped: {ERROR}",
)


def printed(capsys, monkeypatch, told: dict[str, Any], columns: int, *, wide: bool = False) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    print_status(told, wide=wide)
    text = capsys.readouterr().out
    assert "…" not in text
    return [line.rstrip() for line in text.splitlines()]


def words(lines: list[str]) -> list[str]:
    return " ".join(lines).split()


def test_80_columns_have_what_matters_and_cut_nothing(capsys, monkeypatch):
    lines = printed(capsys, monkeypatch, SHOP, 80)
    assert all(len(line) <= 80 for line in lines)
    table = next(index for index, line in enumerate(lines) if line.startswith("shard "))
    assert lines[table].split("  ")[0] == "shard"
    assert lines[table + 1].split() == [
        "s0", "streaming", "0.2", "s", "03:04:05.478", "mysql-bin.000002:4711",
    ]  # fmt: skip
    assert lines[table + 2].split() == [
        "s1", "connecting", "86400.4", "s", "03:04:05.278", "mariadb-bin.000123:4294967295",
    ]  # fmt: skip
    assert lines[table + 3] == "  late: 12 (3400 rows)"
    rest = words(lines[table + 4 :])
    assert rest[: len(ERROR.split()) + 1] == ["error:", *ERROR.split()], "an error is said as it is"
    assert "  leaving, skipped, skip set 30 s ago" in lines
    head = words(lines[:table])
    for said in ("shop", "canal-group-7.internal.example.com:11113", "1767300000)", "03:04:05.478", "123456"):
        assert said in head
    assert " ".join(head).endswith(f"held by shard s1 for 312.4 s: it stopped: {ERROR}")
    assert "(100000 rows), 1003 (100000 rows)" in " ".join(rest)


@pytest.mark.parametrize(
    ("name", "position"),
    [
        ("orders-eu-west-1-warehouse", "mariadb-bin.000123:4294967295"),
        ("s0", f"{'binlog-of-a-host-with-a-long-name.' * 2}000123:4294967295+12345 rows"),
        (LONGEST, "mysql-bin.000002:4711"),
    ],
)
@pytest.mark.parametrize("columns", [80, 60])
def test_what_fits_into_no_table_stands_below_the_name(capsys, monkeypatch, name, position, columns):
    told = state(shard("s1", "mysql-bin.000001:4", error=ERROR), shard(name, position))
    lines = printed(capsys, monkeypatch, told, columns)
    assert all(len(line) <= columns for line in lines)
    # What is longer than a line goes on in the next one: nothing of it is missing.
    joined = "".join("".join(lines).split())
    for said in (name, position, "streaming", "lag0.2s", "frontier03:04:05.478UTC", ERROR):
        assert "".join(said.split()) in joined


def test_wide_has_all_columns_of_a_shard_in_one_line_at_any_width(capsys, monkeypatch):
    lines = printed(capsys, monkeypatch, SHOP, 200, wide=True)
    head = next(line for line in lines if line.startswith("shard "))
    columns = ["shard", "source", "state", "position", "acked", "frontier (UTC)", "lag", "ring", "archive"]
    assert [each.strip() for each in head.split("  ") if each] == columns
    leaving = next(line for line in lines if line.startswith("s2 "))
    assert [each.strip() for each in leaving.split("  ") if each] == [
        "s2",
        "s2.db.internal.example.com:3306",
        "streaming, leaving, skipped, skip set 30 s ago",
        "mysql-bin.000007:154",
        "mysql-bin.000007:1154",
        "03:04:05.478",
        "0.2 s",
        "20 headers, 3.0 MiB",
        "-",
    ]
    assert f"  error: {ERROR}" in lines
    assert printed(capsys, monkeypatch, SHOP, 80, wide=True) == lines


def test_the_archive_of_a_shard_is_shown_or_why_nothing_is_written(capsys, monkeypatch):
    written = {
        "state": "writing", "error": None, "behind_s": 0.25, "file": "mysql-bin.000002", "offset": 4711,
        "bytes": 5 << 19, "oldest_us": NOW_US - 86_400_000_000,
    }  # fmt: skip
    known, merged = shard("s0", "mysql-bin.000002:4711")
    why = "The disk of the archive /a is used to 91.0%."
    for archive, column, below in (
        (written, "mysql-bin.000002:4711, 2.5 MiB since 2026-01-01 03:04:05, 0.2 s behind", []),
        ({**written, "file": None, "behind_s": None}, "-", []),
        ({"state": "waiting", "error": why}, "-", [f"  not archived: {why}"]),
    ):
        told = state(({**known, "archive": archive}, merged))
        wide = printed(capsys, monkeypatch, told, 200, wide=True)
        line = next(index for index, line in enumerate(wide) if line.startswith("s0 "))
        assert wide[line].split("  ")[-1].strip() == column
        assert wide[line + 1 :] == below
        assert [line for line in printed(capsys, monkeypatch, told, 80) if "archive" in line] == below


def test_a_snapshot_is_said_below_its_client(capsys, monkeypatch):
    unread = {
        "words": "tables not read: 21",
        "reasons": {"s0 shop_0.[red]": "SELECT command denied"},
        "more": "... and 20 more",
    }
    for snapshot, below in (
        (None, []),
        ({"words": "snapshot: 3 of 4 tables"}, ["  snapshot: 3 of 4 tables"]),
    ):
        client = {**CLIENT, "snapshot": snapshot, "unread": unread}
        told = state(shard("s0", "mysql-bin.000002:4711"), clients=(client,))
        assert printed(capsys, monkeypatch, told, 80)[-3 - len(below) :] == [
            *below,
            "  tables not read: 21",
            "  not read: s0 shop_0.[red]: SELECT command denied",
            "  ... and 20 more",
        ]


def test_a_refused_instance_file_is_named(capsys, monkeypatch):
    told = state(shard("s0", "mysql-bin.000002:4711"), file_error="[red] shop.yaml: `hots` is not a key.")
    lines = printed(capsys, monkeypatch, told, 80)
    assert "still served with earlier settings: [red] shop.yaml: `hots` is not a key." in lines
    assert not any("earlier" in line for line in printed(capsys, monkeypatch, SHOP, 80))


def test_a_standby_names_the_active_server(capsys, monkeypatch):
    told = {"active": False, "active_server": "b:1", "error": "[red] is away"}
    lines = printed(capsys, monkeypatch, {**state(), "group": told}, 80)
    assert lines[0] == "shop: not active on this server; b:1 is active. [red] is away"
    lines = printed(capsys, monkeypatch, {**state(), "group": {"active": False, "stopped": "by a"}}, 80)
    assert lines[0] == "shop: not served: by a"


def test_a_shard_that_its_group_does_not_know_has_what_it_tells_itself(capsys, monkeypatch):
    away = ({"shard": "s9", "state": "unavailable", "error": "Shard s9 has no actor."}, {"shard": "other"})
    lines = printed(capsys, monkeypatch, state(away), 80)
    assert [line.split() for line in lines if line.startswith("s9")] == [["s9", "unavailable", "-", "-", "-"]]
    assert "  error: Shard s9 has no actor." in lines


@pytest.mark.parametrize("watermark_id", [None, 4711])
def test_a_group_that_is_ordered_by_id_says_so(capsys, monkeypatch, watermark_id):
    order = {"kind": "id", "commit_within_s": 2.5, "watermark_id": watermark_id}
    lines = printed(capsys, monkeypatch, state(shard("s0", "mysql-bin.000002:4711"), order=order), 80)
    assert f"ordered by id  watermark {watermark_id or '-'}  ids within 2.5 s" in lines
    for told in (state(), state(order={"kind": "time"})):
        assert not any("ordered" in line for line in printed(capsys, monkeypatch, told, 80))


def test_a_ddl_statement_that_waits_is_named(capsys, monkeypatch):
    waiting = {
        "statement": "00c0ffee00c0ffee", "op": "ALTER", "table": "shop.orders", "since_us": NOW_US,
        "first_at": "s0 bin.000001:4 0-1-7", "has": {"s0": 2, "s1": 1}, "waits_for": ["s2"],
    }  # fmt: skip
    ddl = {"rule": "last", "delivered": 4, "withheld": 9, "missed": 1, "waiting": 1, "statements": [waiting]}
    lines = printed(capsys, monkeypatch, state(ddl=ddl), 80)
    assert "DDL last  delivered 4  withheld 9  waiting 1  missed 1" in lines
    said = " ".join(words(lines))
    assert "ALTER shop.orders since 03:04:05.678, statement 00c0ffee00c0ffee" in said
    assert "first at s0 bin.000001:4 0-1-7: s0 (2), s1 (1) has it, waits for s2" in said


EVIL = "x\x1b[1A\x1b[2Kok\nclient admin  consumer none\x9b2J\u202e\udcff"


@pytest.mark.parametrize("wide", [False, True])
def test_what_others_said_forges_no_line_and_steers_no_terminal(capsys, monkeypatch, wide):
    told = state(
        shard("s0", f"{EVIL}:4", 0.1, EVIL, policy="hold", policy_since_s=1.0),
        clients=({**CLIENT, "client_id": EVIL, "holder": EVIL, "error": EVIL},),
        held_by=EVIL,
        held_since_s=1.0,
        held_why=EVIL,
        full_rings=[{"shard": EVIL, "clients": [EVIL], "since_s": 9.0, "why": EVIL}],
    )
    lines = printed(capsys, monkeypatch, told, 80, wide=wide)
    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith("client admin") for line in lines)
    assert sum(line.startswith("client ") for line in lines) == 1
