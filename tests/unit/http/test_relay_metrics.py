"""Metrics of a relay: what `docs/metrics.md` lists is what there is, in base units."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from canal_group.actors.http.metrics.families import PREFIX
from canal_group.actors.http.metrics.relays import RelayFamilies
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.programs.output.counters import Counters
from canal_group.programs.output.messages import Messages

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"
OF = ("shop", "to-kafka", "kafka")


def messages(values: list[str], keys: list[str | None] | None = None) -> Messages:
    indexes = np.zeros(len(values), np.int32)
    key = None if keys is None else pa.array(keys, pa.utf8())
    return Messages(("orders",), indexes, indexes, pa.array(values, pa.utf8()), {}, key)


def after(*commits_us: int) -> GroupPosition:
    return GroupPosition(
        {
            f"s{number}": Position("mysql-bin.000001", 4, commit_us=commit_us)
            for number, commit_us in enumerate(commits_us)
        }
    )


def exposed(counters: Counters) -> dict[str, float]:
    """Sample -> value."""
    registry = CollectorRegistry()
    registry.register(RelayFamilies(OF, counters.describe()))
    samples = [
        sample
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
    ]
    for sample in samples:
        assert (sample.labels["destination"], sample.labels["client_id"], sample.labels["output"]) == OF
    return {
        sample.name.removeprefix(f"{PREFIX}_relay_") + sample.labels.get("error", ""): sample.value
        for sample in samples
    }


def used() -> Counters:
    counters = Counters()
    counters.opened(after(0, 0))
    counters.confirmed(messages(["{}"] * 10), after(3_000_000, 2_000_000))
    counters.rolled_back()
    counters.failed("SinkUnavailable")
    return counters


def test_every_family_is_documented_and_no_other():
    table = DOCUMENT.read_text().partition("## Of a relay")[2]
    documented = set(re.findall(r"^\| `relay_([a-z_]+)`", table, re.MULTILINE))
    assert {re.sub("SinkUnavailable$", "", name) for name in exposed(used())} == documented


def test_values_are_in_base_units():
    before = exposed(used())
    assert before["published_messages_total"] == 10
    assert before["published_bytes_total"] == 20
    assert before["confirmed_batches_total"] == before["rollbacks_total"] == 1
    assert before["errors_totalSinkUnavailable"] == 1
    assert before["position_timestamp_seconds"] == 3.0, "the last transaction of all shards counts"
    assert before["lag_seconds"] == pytest.approx(before["confirmed_timestamp_seconds"] - 3.0)


def test_keys_are_counted_with_values():
    counters = Counters()
    counters.confirmed(messages(["{}", "{}"], ["a", None]), after(1))
    counters.confirmed(messages([], []), after(2))
    assert counters.describe()["bytes"] == 5


def test_a_relay_that_published_nothing_has_no_times():
    counters = Counters()
    counters.opened(after(0))
    assert exposed(counters) == {
        "publishing": 1,
        "published_messages_total": 0,
        "published_bytes_total": 0,
        "confirmed_batches_total": 0,
        "rollbacks_total": 0,
    }


@pytest.mark.parametrize("event", [Counters.stopped, lambda counters: counters.failed("SinkUnavailable")])
def test_publishing_ends_with_a_failure_and_goes_on_with_the_next_opening(event):
    counters = used()
    counters.opened(after(1))
    assert exposed(counters)["publishing"] == 1
    event(counters)
    assert exposed(counters)["publishing"] == 0
