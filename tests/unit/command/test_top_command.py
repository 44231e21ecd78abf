"""The screen of `top` for made-up states."""

from __future__ import annotations

import copy

from rich.console import Console

from canal_group.programs.command.top_command import frame

STATE = {
    "destination": "shop",
    "now_us": 10_000_000,
    "gateway": {},
    "group": {
        "active": True,
        "server": "127.0.0.1:1",
        "epoch": 3,
        "watermark_us": 9_000_000,
        "late": 0,
        "held_by": "s1",
        "held_since_s": 2.5,
        "held_why": "it has reported no newer low watermark",
        "full_rings": [
            {
                "shard": "s0",
                "clients": ["1001"],
                "since_s": 9.0,
                "why": "s0 waits: ring full, kept for client 1001",
            }
        ],
        "shards": [
            {"shard": "s0", "frontier_us": 9_500_000, "policy": None, "skipped": False},
            {"shard": "s1", "frontier_us": None, "policy": "hold", "skipped": False},
        ],
        "clients": [
            {
                "client_id": "1001",
                "holder": "me",
                "words": ["has a consumer", "holds a full ring"],
                "error": None,
                "outstanding": [{"rows": 7, "age_s": 1.5}],
                "totals": {"acked_rows": 100},
                "cursor_commit_us": 8_000_000,
            }
        ],
    },
    "shards": [
        {
            "shard": "s0",
            "state": "streaming",
            "words": ["streaming", "ring full"],
            "error": None,
            "skew_us": 0,
            "position": "bin.1:4",
            "counters": {
                "rows": {"insert": 50, "update": 0, "delete": 0},
                "read_bytes": 2**20,
                "delay_s": {"p99": 0.25},
            },
            "ring": {"put": 15, "ack": -1, "headers_max": 16, "bytes": 25, "bytes_max": 100},
        },
        {
            "shard": "s1",
            "state": "unavailable",
            "words": ["unavailable", "hold"],
            "error": "Shard s1 has no actor.",
        },
    ],
}


def shown(state, before=None):
    out = Console(width=120, highlight=False, color_system=None)
    with out.capture() as capture:
        out.print(frame(state, before))
    return capture.get()


def line(text, begins):
    """Return the words of the last line that begins so: the table's, and not the head's."""
    return [each for each in text.splitlines() if each.startswith(begins)][-1].split()


def test_the_first_look_knows_no_rates():
    text = shown(STATE)
    assert "held by shard s1 for 2.5 s: it has reported no newer low watermark" in text
    row = "s0 streaming, ring full 0.50 0.25 - - 100% headers bin.1:4"
    assert " ".join(line(text, "s0 ")) == row
    assert "s0 waits: ring full, kept for client 1001" in text
    row = "1001 has a consumer, holds a full ring: me 1 (7 rows) 1.50 - 00:00:08.000"
    assert " ".join(line(text, "1001")) == row
    assert "Shard s1 has no actor." in text


def test_a_snapshot_is_said_below_its_client():
    state = copy.deepcopy(STATE)
    state["group"]["clients"][0]["snapshot"] = {"words": "snapshot: 3 of 4 tables"}
    assert "snapshot: 3 of 4 tables" in shown(state)


def test_rates_are_what_came_between_two_looks():
    later = copy.deepcopy(STATE)
    later["now_us"] += 2_000_000
    later["shards"][0]["counters"] |= {
        "rows": {"insert": 70, "update": 5, "delete": 5},
        "read_bytes": 3 * 2**20,
    }
    later["group"]["clients"][0]["totals"]["acked_rows"] = 100 + 4_000
    text = shown(later, STATE)
    assert line(text, "s0 ")[6:8] == ["15.00", "1.00"]
    assert line(text, "1001")[-2] == "2,000"


def test_a_process_that_began_anew_has_no_rate():
    later = copy.deepcopy(STATE)
    later["now_us"] += 1_000_000
    later["shards"][0]["counters"]["rows"]["insert"] = 1
    assert line(shown(later, STATE), "s0 ")[6] == "-"


def test_a_server_that_stands_by_says_so():
    state = {**STATE, "group": {"active": False, "active_server": "10.0.0.1:11113"}, "shards": []}
    assert "not served here: 10.0.0.1:11113 is active" in shown(state)
