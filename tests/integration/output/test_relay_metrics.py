"""What a relay says in its metrics: what it published, and why it does not."""

from __future__ import annotations

import math
import socket
import uuid
from contextlib import closing
from pathlib import Path

import pytest
import requests
from integration.output.faults import RECOVERED_S, Relay
from integration.output.published import in_kafka, in_lines
from integration.output.relay_values import relay_values
from integration.shared_servers import SharedShop
from integration.shop import DEADLINE_S
from integration.zookeeper_fixtures import eventually
from prometheus_client.parser import text_string_to_metric_families

from benchmarks._kafka_broker import KafkaBroker


class Metrics:
    """What a relay answers Prometheus."""

    def __init__(self, relay: Relay, **labels: str) -> None:
        self._relay, self._labels = relay, labels

    def value(self, name: str, **labels: str) -> float:
        """Return a metric of the relay now, NaN if it has none."""
        answer = requests.get(self._relay.metrics_url, timeout=DEADLINE_S)
        samples = [each for family in text_string_to_metric_families(answer.text) for each in family.samples]
        wanted = f"canal_group_relay_{name}", self._labels | labels
        return next((each.value for each in samples if (each.name, each.labels) == wanted), math.nan)


def test_a_running_relay_says_what_it_published(served: SharedShop, tmp_path: Path):
    output = {"kind": "lines", "path": str(tmp_path / "lines")}
    settings = relay_values(served, output, metrics={"port": 0})
    with closing(Relay(tmp_path, settings)) as relay:
        eventually(relay.publishes, "the subscription", within_s=RECOVERED_S)
        value = Metrics(relay, **labels_of(settings)).value
        served.write_everywhere(3, rows=20)
        eventually(lambda: value("published_messages_total") >= served.rows, "the rows", within_s=DEADLINE_S)
        lines = in_lines(tmp_path / "lines")
        assert value("published_messages_total") == len(lines) == served.rows
        assert 1 <= value("confirmed_batches_total") <= served.rows
        assert value("published_bytes_total") > 100 * served.rows
        assert value("publishing") == 1
        committed_s = max(each.json["es"] for each in lines) / 1_000
        assert committed_s <= value("position_timestamp_seconds") < committed_s + 1
        lag_s = value("confirmed_timestamp_seconds") - value("position_timestamp_seconds")
        assert value("lag_seconds") == pytest.approx(lag_s, abs=0.001)
        assert value("rollbacks_total") == 0
        assert relay.terminate() == 0, relay.said


@pytest.mark.soak
def test_a_killed_broker_shows_until_it_is_back(served: SharedShop, kafka: KafkaBroker, tmp_path: Path):
    """1. It publishes. 2. Its broker is killed: not any more, and why. 3. The broker is back: again."""
    topic = f"metrics-{uuid.uuid4().hex[:8]}"
    output = {**kafka.output, "silence_s": 2.0, "transaction_timeout_s": 5.0}
    settings = relay_values(served, output, route={"topic": topic}, metrics={"port": 0})
    with closing(Relay(tmp_path, settings)) as relay:
        eventually(relay.publishes, "the subscription", within_s=RECOVERED_S)
        value = Metrics(relay, **labels_of(settings)).value
        served.write_everywhere(2, rows=5)
        eventually(lambda: value("published_messages_total") >= served.rows, "the rows", within_s=DEADLINE_S)
        assert value("publishing") == 1
        assert math.isnan(value("errors_total", error="SinkUnavailable"))
        kafka.kill()
        served.write_everywhere(2, rows=5)
        eventually(
            lambda: value("errors_total", error="SinkUnavailable") >= 1, "a failure", within_s=RECOVERED_S
        )
        assert value("publishing") == 0
        assert value("published_messages_total") < served.rows
        kafka.start()
        eventually(lambda: value("published_messages_total") >= served.rows, "the rest", within_s=RECOVERED_S)
        assert value("publishing") == 1
        assert len(in_kafka(kafka, topic)) == served.rows
        assert relay.terminate() == 0, relay.said


def labels_of(settings: dict) -> dict[str, str]:
    return {
        "destination": settings["destination"],
        "client_id": settings["read"]["client_id"],
        "output": settings["output"]["kind"],
    }


def test_a_port_that_is_taken_is_named(served: SharedShop, tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        output = {"kind": "lines", "path": str(tmp_path / "lines")}
        with closing(Relay(tmp_path, relay_values(served, output, metrics={"port": port}))) as relay:
            assert relay.process.wait(DEADLINE_S) == 1
    assert f"The relay's metrics cannot listen on 127.0.0.1:{port}: Address already in use." in relay.said
    assert "Traceback" not in relay.said
