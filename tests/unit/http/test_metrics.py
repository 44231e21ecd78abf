"""Metrics of made-up states: what `docs/metrics.md` lists is what there is, and odd states break nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from canal_group.actors.gateway.gateway_counters import DURATIONS_S, UNKNOWN, GatewayCounters
from canal_group.actors.http.metrics.families import PREFIX
from canal_group.actors.http.metrics.instances import InstanceFamilies
from canal_group.actors.shard.shard_counters import ShardCounters
from canal_group.actors.store.ring import RingStore
from canal_group.binlog.columns.read_counts import ReadCounts
from canal_group.conf.stream_settings import StoreSettings
from canal_group.merge.errors import DefinitionContradicted, UnsupportedEvent

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"


def whole_state(destination="shop"):
    gateway = GatewayCounters({"ack"})
    gateway.called("ack", 0.02, "RolledBack")
    counters = ShardCounters()
    counters.stopped_at(UnsupportedEvent("It is not supported.", event="unknown type 43"))
    counters.stopped_at(DefinitionContradicted("It is another one.", table="app.t"))
    shard = {
        "shard": "s0",
        "state": "streaming",
        "error": None,
        "skew_us": -250_000,
        "counters": counters.describe(ReadCounts(7, 1, 2, {"unknown type 99": 3}, {"QUERY (2)": 5})),
        "ring": {**RingStore(StoreSettings()).describe(), "held": 7},
        "failover": {"switches": 2},
        "shares_dump": True,
        "archive": {
            "state": "writing",
            "error": None,
            "behind_s": 0.5,
            "bytes": 4_096,
            "damaged": 0,
            "oldest_us": 1_000_000,
        },
        "definitions": {"tables": 9, "unread": 4, "followed": 2},
    }
    merged = {
        "shard": "s0",
        "skipped": False,
        "late": 1,
        "late_rows": 4,
        "future": 0,
        "frontier_us": 1_000_000,
    }
    client = {
        "client_id": "1001",
        "holder": "c1",
        "away_s": None,
        "error": None,
        "dropped": False,
        "losses": [{"shard": "s0", "number": 2}, {"shard": "s0", "number": 3}, {"shard": "s1", "number": 1}],
        "outstanding": [{"batch_id": 1, "rows": 5, "age_s": 2.5}],
        "cursor_commit_us": 500_000,
        "snapshot": {
            "shards": [
                {"shard": "s0", "tables": 9, "done": 4, "rows": 77, "left": 3},
                {"shard": "s1", "tables": None, "done": 4, "rows": 0, "left": None},
            ]
        },
        "unread": {"shards": {"s0": 2}},
        "totals": {
            "delivered_batches": 3,
            "delivered_rows": 9,
            "acked_batches": 2,
            "acked_rows": 4,
            "rolled_back_batches": 0,
        },
    }
    group = {
        "active": True,
        "silence_s": 0.5,
        "servers": [
            {"server": "a:11113", "active": True, "since_us": 2_000_000},
            {"server": "b:11113", "active": False, "since_us": 1_000_000},
        ],
        "epoch": 4,
        "merging": True,
        "generation": 2,
        "headers_pending": 1,
        "headers_kept": 2,
        "ddl": {"delivered": 4, "withheld": 5, "missed": 1, "waiting": 2},
        "watermark_us": 1_000_000,
        "held_by": "s0",
        "held_since_s": 1.5,
        "clients": [client],
        "shards": [merged],
        "full_rings": [{"shard": "s0", "clients": ["1001"], "since_s": 12.0, "why": "s0 waits"}],
    }
    return {
        "destination": destination,
        "now_us": 3_000_000,
        "certificates": [{"setting": "gateway.ssl.cert", "expires_s": 77.0}],
        "spare_pid": None,
        "group": group,
        "shards": [shard],
        "gateway": {"counters": gateway.describe(), "unserved_calls": 3},
    }


def exposed(*states):
    registry = CollectorRegistry()
    registry.register(InstanceFamilies(states))
    text = generate_latest(registry).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(families, name, sample=None, **labels):
    family = families[f"{PREFIX}_{name}"]
    wanted = f"{PREFIX}_{sample or name}"
    (found,) = [
        each.value for each in family.samples if each.name == wanted and labels.items() <= each.labels.items()
    ]
    return found


def test_definitions_of_a_shard():
    families = exposed(whole_state())
    assert (
        value(
            families, "shard_contradicted_definitions", "shard_contradicted_definitions_total", table="app.t"
        )
        == 1
    )
    for kind, number in {"tables": 9, "unread": 4, "followed": 2}.items():
        assert value(families, "shard_definitions", kind=kind) == number


def test_a_snapshot_is_told_of_by_shard_and_client():
    families = exposed(whole_state())
    for name, number in {"rows": 77, "tables_left": 3, "failed_tables": 2}.items():
        assert value(families, f"client_snapshot_{name}", client_id="1001", shard="s0") == number
    left = families[f"{PREFIX}_client_snapshot_tables_left"].samples
    assert [each.labels["shard"] for each in left] == ["s0"], "of s1 it is not known how many there are"


def test_unread_tables_are_counted_when_no_snapshot_goes_on():
    state = whole_state()
    (client,) = state["group"]["clients"]
    client["snapshot"] = None
    assert value(exposed(state), "client_snapshot_failed_tables", client_id="1001", shard="s0") == 2
    client["unread"] = None
    assert f"{PREFIX}_client_snapshot_failed_tables" not in exposed(state)


@pytest.mark.parametrize(("pid", "there"), [(None, 0), (4711, 1)])
def test_whether_there_is_a_spare_process(pid, there):
    assert value(exposed(whole_state() | {"spare_pid": pid}), "spare_process") == there


def test_every_family_is_documented_and_no_other():
    state = whole_state()
    counters = state["shards"][0]["counters"]
    counters["delay_s"] |= {"p50": 0.1, "p95": 0.2, "p99": 0.3}
    made = set()
    for family in exposed(state).values():
        suffix = "_total" if family.type == "counter" else ""
        made.add(f"{family.name.removeprefix(PREFIX + '_')}{suffix}")
    table = DOCUMENT.read_text().partition("## For those")[0]
    documented = set(
        re.findall(
            r"`([a-z_]+)`",
            "\n".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `")),
        )
    )
    assert documented == made


def test_values_are_in_base_units():
    families = exposed(whole_state())
    assert value(families, "shard_lag_seconds", shard="s0") == 1.75
    assert value(families, "shard_frontier_timestamp_seconds") == 1.0
    assert value(families, "active_since_timestamp_seconds") == 2.0
    assert value(families, "servers") == 2
    assert value(families, "client_cursor_timestamp_seconds", client_id="1001") == 0.5
    assert value(families, "client_full_ring_seconds", client_id="1001") == 12
    assert value(families, "shard_ring_full_seconds", shard="s0") == 12
    assert value(families, "shard_ring_held_back", shard="s0") == 7
    assert value(families, "shard_lossy_values", "shard_lossy_values_total", kind="invalid_text") == 2
    for name, kind, count in (
        ("ignored", "unknown type 99", 3),
        ("skipped", "QUERY (2)", 5),
        ("unsupported", "unknown type 43", 1),
    ):
        family = f"shard_{name}_events"
        assert value(families, family, f"{family}_total", type=kind) == count
    assert value(families, "gateway_errors", "gateway_errors_total", request="ack", error="RolledBack") == 1
    assert value(families, "gateway_unserved_calls", "gateway_unserved_calls_total") == 3
    buckets = {
        each.labels["le"]: each.value
        for each in families[f"{PREFIX}_gateway_call_duration_seconds"].samples
        if each.name.endswith("_bucket")
    }
    assert [buckets[bound] for bound in ("0.01", "0.025", "10.0", "+Inf")] == [0, 1, 1, 1]


@pytest.mark.parametrize(
    "group",
    [
        {"active": False, "error": "The group is unavailable."},
        {"active": False, "stopped": None, "active_server": "10.0.0.1:11113"},
        {"active": False, "stopped": "stopped by ann"},
    ],
)
def test_a_server_that_does_not_serve_says_so_and_no_more(group):
    state = {
        "destination": "shop",
        "now_us": 0,
        "group": group,
        "shards": [{"shard": "s0", "state": "unavailable", "error": "gone"}],
        "gateway": {"error": "The gateway is unavailable."},
    }
    families = exposed(state)
    assert value(families, "active") == value(families, "gateway_up") == value(families, "shard_up") == 0
    assert value(families, "stopped") == bool(group.get("stopped"))
    assert f"{PREFIX}_shard_rows" not in families


def test_a_group_that_opens_its_shards_has_no_times_yet():
    state = whole_state()
    state["group"] |= {"watermark_us": None, "held_by": None, "held_since_s": None, "merging": False}
    state["group"]["shards"][0]["frontier_us"] = None
    state["group"]["clients"][0] |= {"cursor_commit_us": None, "outstanding": []}
    families = exposed(state)
    assert f"{PREFIX}_watermark_timestamp_seconds" not in families
    assert value(families, "held_seconds", shard="s0") == 0
    assert value(families, "client_oldest_batch_age_seconds") == 0


def test_two_destinations_share_families():
    families = exposed(whole_state("a"), whole_state("b"))
    labels = [sample.labels["destination"] for sample in families[f"{PREFIX}_epoch"].samples]
    assert labels == ["a", "b"]


def test_calls_with_made_up_names_are_one_label():
    counters = GatewayCounters({"get"})
    for name in ("get", "drop table", "x" * 1_000):
        counters.called(name, 100.0)
    calls = counters.describe()["calls"]
    assert calls.keys() == {"get", UNKNOWN}
    assert calls[UNKNOWN]["durations"] == [0] * len(DURATIONS_S) + [2]


def test_each_of_canals_metrics_has_a_line():
    table = DOCUMENT.read_text().partition("## For those")[2]
    lines = [line.split("|") for line in table.splitlines() if line.startswith("| `canal_")]
    theirs = [name for line in lines for name in re.findall(r"`(canal_instance\w*)`", line[1])]
    assert len(theirs) == len(set(theirs)) == 24
    made = {name.removeprefix(f"{PREFIX}_") for name in exposed(whole_state())}
    for line in lines:
        for name in re.findall(r"`(\w+)`", line[2]):
            stem = re.sub(r"_(total|count)$", "", name)
            assert stem in made, f"{line[1].strip()} is said to be {name}"
